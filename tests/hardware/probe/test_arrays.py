"""The probe's arrays: how large, and with what they are filled by whom."""

import threading

import pytest
import torch

from workbench.hardware.probe.arrays import BLOCK_ELEMENTS, array_bytes, filled, in_own_threads, slices

CPU = torch.device("cpu")
GB = 10**9


@pytest.mark.parametrize(
    ("cache", "free", "quick", "expected"),
    [
        (500_000_000, 100 * GB, False, 2 * GB),
        (500_000_000, 100 * GB, True, 1 * GB),
        (None, 100 * GB, False, 512_000_000),
        (32 << 20, 100 * GB, False, 512_000_000),
        (3 * GB, 100 * GB, False, 8 * GB),
        (500_000_000, 2 * GB, False, int(0.4 * 2 * GB)),
        (500_000_000, 0, False, 1 << 20),
    ],
)
def test_an_array_is_several_caches_within_what_is_free(
    cache: int | None, free: int, quick: bool, expected: int
) -> None:
    assert array_bytes(cache, free, quick) == expected


def test_an_accelerator_reads_more_at_least() -> None:
    assert array_bytes(50_000_000, 100 * GB, False, least=4 * GB) == 4 * GB
    assert array_bytes(50_000_000, 5 * GB, False, least=4 * GB) == 2 * GB


@pytest.mark.parametrize("total", [0, 1, 4095, 4096, 8192, 100_003, 1 << 20])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_slices_cover_every_element_once(total: int, parts: int) -> None:
    bounds = slices(total, parts)
    assert [index for start, end in bounds for index in (start, end)][1:-1] == [
        end for _, end in bounds[:-1] for _ in range(2)
    ]
    assert (bounds[0][0], bounds[-1][1]) == (0, total) if total else bounds == []
    assert len(bounds) <= parts
    assert all(start < end for start, end in bounds)
    assert all(start % 4096 == 0 for start, _ in bounds)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_value_is_clear_of_zero_and_of_denormal_numbers(dtype: torch.dtype, threads: int) -> None:
    count = 2 * BLOCK_ELEMENTS + 12_345
    array = filled(count, dtype, CPU, threads)
    assert (array.numel(), array.dtype) == (count, dtype)
    sizes = array.abs()
    assert sizes.min().item() >= 0.5
    assert sizes.max().item() <= 1.5
    assert (array > 0).any()
    assert (array < 0).any()


def test_values_vary_and_pages_differ() -> None:
    array = filled(1 << 21, torch.float32, CPU, 2)
    pages = array.view(-1, 1024)
    assert len({tuple(page[:4].tolist()) for page in pages}) == len(pages)


def test_the_same_values_come_whoever_writes_them() -> None:
    count = BLOCK_ELEMENTS + 100_000
    assert torch.equal(filled(count, torch.float32, CPU, 1), filled(count, torch.float32, CPU, 3))


def test_each_task_has_a_thread_of_its_own_in_which_torch_has_one() -> None:
    together = threading.Barrier(3, timeout=60)
    found: list[tuple[int, int]] = []

    def task() -> None:
        together.wait()
        found.append((threading.get_ident(), torch.get_num_threads()))

    before = torch.get_num_threads()
    in_own_threads([task, task, task])
    assert len({thread for thread, _ in found}) == 3
    assert {threads for _, threads in found} == {1}
    assert torch.get_num_threads() == before


def test_an_error_in_a_task_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_own_threads([lambda: 1, lambda: 1 // 0])
