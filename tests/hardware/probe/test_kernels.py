"""Kernels: each reads every byte of its array once, and matrices lie in it one after the other."""

import pytest
import torch

from workbench.hardware.probe.arrays import filled
from workbench.hardware.probe.kernels import (
    OWN_SLICES,
    ROW_ELEMENTS,
    copy_kernel,
    matrices,
    product_kernel,
    read_kernels,
    repeated,
)

CPU = torch.device("cpu")
ROWS = 6


@pytest.fixture
def array() -> torch.Tensor:
    return filled(ROWS * ROW_ELEMENTS, torch.float32, CPU, 1)


def test_every_read_kernel_reads_every_byte(array: torch.Tensor) -> None:
    kernels = {kernel.name: kernel for kernel in read_kernels(array, 1)}
    assert set(kernels) == {"sum", "largest integer", "dot product", "matrix-vector product"}
    assert {kernel.amount for kernel in kernels.values()} == {array.numel() * 4.0}
    results = {name: torch.as_tensor(kernel.run()) for name, kernel in kernels.items()}
    torch.testing.assert_close(results["sum"], array.sum())
    torch.testing.assert_close(results["largest integer"], array.view(torch.int32).max())
    torch.testing.assert_close(results["dot product"], (array * array).sum())
    torch.testing.assert_close(results["matrix-vector product"], array.view(ROWS, -1).sum(1))


@pytest.mark.parametrize("place", [0, ROWS * ROW_ELEMENTS // 2 + 1, ROWS * ROW_ELEMENTS - 1])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_value_anywhere_changes_what_a_kernel_finds(array: torch.Tensor, threads: int, place: int) -> None:
    # A value that is no number spreads through each float kernel, and is the largest of the integers.
    array[place] = float("nan")
    array[place] = array[place].abs()
    for kernel in read_kernels(array, threads):
        if OWN_SLICES not in kernel.name:
            found = torch.as_tensor(kernel.run())
            assert bool(found.isnan().any()) or found.item() == array[place].view(torch.int32).item()


def test_own_slices_come_to_the_whole(array: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    dot, mv = torch.dot, torch.mv

    def noted_dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        seen.append(dot(a, b))
        return seen[-1]

    def noted_mv(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        seen.append(mv(a, b))
        return seen[-1]

    monkeypatch.setattr(torch, "dot", noted_dot)
    monkeypatch.setattr(torch, "mv", noted_mv)
    kernels = {kernel.name: kernel for kernel in read_kernels(array, 4)}
    kernels[f"dot product{OWN_SLICES}"].run()
    torch.testing.assert_close(torch.stack(seen).sum(), dot(array, array))
    assert len(seen) == 4
    seen.clear()
    kernels[f"matrix-vector product{OWN_SLICES}"].run()
    torch.testing.assert_close(torch.cat(seen).sum(), array.sum())


def test_one_thread_has_no_slices_of_its_own(array: torch.Tensor) -> None:
    assert not any(OWN_SLICES in kernel.name for kernel in read_kernels(array, 1))


def test_an_array_of_less_than_a_row_is_read_all_the_same() -> None:
    kernels = read_kernels(filled(100, torch.float32, CPU, 1), 2)
    assert "matrix-vector product" not in {kernel.name for kernel in kernels}
    assert {kernel.amount for kernel in kernels} == {400.0}
    for kernel in kernels:
        kernel.run()


def test_a_copy_writes_as_much_as_it_reads(array: torch.Tensor) -> None:
    half = array.numel() // 2
    kernel = copy_kernel(array)
    kernel.run()
    assert kernel.amount == array.numel() * 4.0
    assert torch.equal(array[:half], array[half:])


def test_a_repeated_pass_counts_each_time(array: torch.Tensor) -> None:
    kernel = read_kernels(array, 1)[0]
    assert repeated(kernel, 5).amount == 5 * kernel.amount


def test_matrices_are_taken_in_turn_and_share_no_element() -> None:
    array = torch.arange(100.0)
    found = matrices(array, ((2, 5), (4, 5)), 100)
    assert [tuple(matrix.shape) for matrix in found] == [(2, 5), (4, 5), (2, 5), (4, 5), (2, 5), (4, 5), (2, 5)]
    values = torch.cat([matrix.flatten() for matrix in found])
    assert torch.equal(values, array)


def test_matrices_stay_within_the_limit_but_there_is_one_where_the_array_has_room() -> None:
    array = torch.arange(100.0)
    assert len(matrices(array, ((2, 5),), 35)) == 3
    assert [tuple(matrix.shape) for matrix in matrices(array, ((5, 10),), 20)] == [(5, 10)]
    assert matrices(array, ((11, 10),), 100) == []


def test_a_shape_that_does_not_fit_is_passed_over() -> None:
    assert {tuple(m.shape) for m in matrices(torch.arange(100.0), ((20, 20), (5, 5)), 100)} == {(5, 5)}


def test_a_product_counts_two_operations_to_a_multiply_add(array: torch.Tensor) -> None:
    weights = matrices(array, ((8, 4), (4, 8)), 128)
    kernel = product_kernel(weights, 3)
    assert kernel.amount == 2 * 3 * sum(weight.numel() for weight in weights)
    kernel.run()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_run_in_the_dtype_of_their_weights(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[torch.Size, torch.dtype]] = []
    linear = torch.nn.functional.linear

    def noted(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        result = linear(rows, weight)
        found.append((result.shape, result.dtype))
        return result

    monkeypatch.setattr(torch.nn.functional, "linear", noted)
    product_kernel(matrices(filled(64, dtype, CPU, 1), ((4, 8),), 64), 2).run()
    assert found == [(torch.Size([2, 4]), dtype)] * 2
