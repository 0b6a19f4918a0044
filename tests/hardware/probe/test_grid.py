"""The grid on a small array: which cells there are, in which order, at which threads, with how many passes."""

from collections.abc import Callable

import pytest
import torch

from workbench.hardware.calibration import Work
from workbench.hardware.probe.grid import Grid, plain_product
from workbench.hardware.probe.kernels import OWN_SLICES
from workbench.hardware.probe.timers import HostTimer
from workbench.runner import Cancelled, CancelToken

CPU = torch.device("cpu")
SHAPES = ((256, 128), (128, 256))
KERNELS = ["sum", "largest integer", "dot product", "matrix-vector product"]
OWN = [f"dot product{OWN_SLICES}", f"matrix-vector product{OWN_SLICES}"]


class Clock:
    """Goes on by a known step with each reading, so that every pass takes one step."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Small(Grid):
    """Of 1 MB on the processor, whose threads are only noted; every pass takes `pass_s`."""

    def __init__(self, pass_s: float = 0.01, check: Callable[[], None] = lambda: None) -> None:
        self.threads_set: list[int] = []
        timer = HostTimer(lambda: None, Clock(pass_s))
        super().__init__(CPU, timer, 1_000_000, (1, 2), 1000, check, self.threads_set.append)


def test_every_kernel_is_read_at_every_count_of_threads_all_of_them_first() -> None:
    grid = Small()
    cells = list(grid.reads(quick=False))
    assert [(cell.threads, cell.kernel) for cell in cells] == [
        *((2, kernel) for kernel in KERNELS + OWN),
        *((1, kernel) for kernel in KERNELS),
    ]
    assert {len(cell.seconds) for cell in cells} == {10}
    assert {(cell.work, cell.array_bytes, cell.amount) for cell in cells} == {(Work.READ, 1_000_000, 1e6)}
    assert grid.threads_set == [cell.threads for cell in cells]


def test_a_quick_probe_reads_one_kernel_with_all_threads_ten_times_and_fewer_with_one() -> None:
    cells = list(Small(pass_s=0.3).reads(quick=True))
    assert [(cell.threads, len(cell.seconds)) for cell in cells] == [(2, 10), (1, 3)]
    assert cells[1].kernel == cells[0].kernel.removesuffix(OWN_SLICES)


def test_the_first_is_read_again_as_it_was() -> None:
    grid = Small()
    first = next(grid.reads(quick=False))
    again = grid.read_again(first)
    assert (again.kernel, again.threads, again.amount) == (first.kernel, first.threads, first.amount)
    assert len(again.seconds) == len(first.seconds)
    assert grid.threads_set[-1] == first.threads


def test_reading_again_after_other_dtypes_is_over_the_same_kind_of_array() -> None:
    grid = Small()
    first = next(grid.reads(quick=False))
    list(grid.matrix_vector("bfloat16", SHAPES, quick=False))
    assert grid.read_again(first).dtype == "float32"


def test_sizes_grow_up_to_the_array_and_short_passes_are_repeated() -> None:
    grid = Small(pass_s=0.001)
    list(grid.reads(quick=False))
    cells = list(grid.sizes())
    assert [cell.array_bytes for cell in cells] == [1 << 18]
    assert [cell.amount for cell in cells] == [5 * (1 << 18)]


def test_a_copy_is_a_cell_of_its_own() -> None:
    cell = Small().copy()
    assert (cell.work, cell.threads, cell.amount) == (Work.COPY, 2, 1e6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_matrix_vector_products_read_the_weights_at_every_count_of_threads(dtype: str) -> None:
    cells = list(Small().matrix_vector(dtype, SHAPES, quick=False))
    assert [(cell.threads, cell.dtype, cell.shape) for cell in cells] == [
        (1, dtype, "256×128, 128×256"),
        (2, dtype, "256×128, 128×256"),
    ]
    assert all(len(cell.seconds) == 10 and 600_000 < cell.amount <= 1_000_000 for cell in cells)
    assert [cell.threads for cell in Small().matrix_vector(dtype, SHAPES, quick=True)] == [2]


@pytest.mark.parametrize(
    ("pass_s", "plain"), [(0.01, ["96×96", "48×48"]), (0.4, ["48×48"]), (100.0, [])], ids=["fast", "slow", "too slow"]
)
def test_products_climb_a_ladder_of_rows_and_end_with_those_plain_ones_that_are_quick_enough_and_the_best_again(
    pass_s: float, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    products = tuple(plain_product(size, size, size) for size in (1024, 96, 48))
    monkeypatch.setattr("workbench.hardware.probe.grid.PLAIN_PRODUCTS", products)
    # Of 64×64 matrices four lie in the array: 0.5 MFLOP at 16 rows, the most of any here but the square of 96.
    timer = HostTimer(lambda: None, Clock(pass_s))
    grid = Grid(CPU, timer, 4 * 4 * 64 * 64, (1,), 1000, set_threads=lambda threads: None)
    cells = list(grid.products("float32", ((64, 64),), (1, 16)))
    best = max(cells[:-1], key=lambda cell: cell.best)
    assert [cell.shape for cell in cells] == ["64×64", "64×64", *plain, best.shape]
    assert (cells[-1].rows, cells[-1].amount) == (best.rows, best.amount)
    assert all(cell.amount % (2 * cell.rows) == 0 and len(cell.seconds) >= 3 for cell in cells)
    assert [cell.rows for cell in grid.products("float32", ((64, 64),), (16,))] == [16]


def test_shapes_larger_than_the_array_make_no_cell() -> None:
    grid = Small()
    assert list(grid.matrix_vector("float32", ((10_000, 10_000),), quick=False)) == []
    assert list(grid.products("float32", ((10_000, 10_000),), (1,))) == []


def test_a_probe_stops_before_its_next_pass() -> None:
    cancel = CancelToken()
    passes: list[int] = []

    def check() -> None:
        passes.append(1)
        if len(passes) == 7:
            cancel.cancel()
        cancel.check()

    with pytest.raises(Cancelled):
        list(Small(check=check).reads(quick=False))
    assert len(passes) == 7


def test_an_accelerator_has_one_count_of_threads() -> None:
    grid = Grid(torch.device("meta"), HostTimer(lambda: None), 1_000_000, (1, 2))
    assert grid._thread_counts == (1,)
