"""C of the probe against the best plain matrix product of a wider search in the same run, alternating, per dtype."""

from collections.abc import Iterator
from statistics import median

import torch

from tests.benchmarks.report import print_bar, spread
from workbench.experiments.probe import DTYPES, thread_counts
from workbench.experiments.settings import DEFAULT_MODEL
from workbench.hardware.calibration import Cell
from workbench.hardware.machine import usable_cores
from workbench.hardware.probe import grid
from workbench.hardware.probe.timers import HostTimer
from workbench.models.matrices import matrix_shapes
from workbench.models.resolve import resolve

ALTERNATIONS = 5
BAR = 0.95
WIDTHS = (512, 1024, 2048, 3072, 4096, 8192)
ROWS = (128, 256, 512, 1024, 1536, 2048, 4096)
MOST_FLOP = 60e9
BEST_FEW = 6
MANY_ROWS = tuple(rows for rows in grid.ROWS if rows >= grid.FEW_ROWS)
"""The others never come near C."""
ARRAY_BYTES = 1_000_000_000

Product = tuple[int, int, int]
"""Rows, and the matrix's own rows and columns."""


def search() -> Iterator[Product]:
    """Every product of the search, none so large that it takes the benchmark long."""
    for rows in ROWS:
        for out_features in WIDTHS:
            for in_features in WIDTHS:
                if 2 * rows * out_features * in_features <= MOST_FLOP:
                    yield rows, out_features, in_features


def rate(product: Product, dtype: torch.dtype, timer: HostTimer, passes: int) -> float:
    """GFLOP/s of one plain product, the best of so many passes."""
    rows, out_features, in_features = product
    inputs = torch.ones(rows, in_features, dtype=dtype)
    weight = torch.full((out_features, in_features), 0.5, dtype=dtype)
    seconds = min(timer.seconds(lambda: inputs @ weight.T, passes, passes, 0.0))
    return 2 * rows * out_features * in_features / seconds / 1e9


def probed(measured: grid.Grid, dtype: str, shapes: tuple[tuple[int, int], ...]) -> Cell:
    """The probe's best product."""
    return max(measured.products(dtype, shapes, MANY_ROWS), key=lambda cell: cell.best)


def main() -> None:
    cores = usable_cores()
    timer = HostTimer(lambda: None)
    measured = grid.Grid(torch.device("cpu"), timer, ARRAY_BYTES, thread_counts(cores))
    shapes = matrix_shapes(resolve(DEFAULT_MODEL))
    torch.set_num_threads(cores)
    for dtype in DTYPES:
        element = grid.DTYPES[dtype]
        found = {product: rate(product, element, timer, 2) for product in search()}
        best = sorted(found, key=lambda product: found[product], reverse=True)[:BEST_FEW]
        pairs = []
        for _ in range(ALTERNATIONS):
            cell = probed(measured, dtype, shapes)
            torch.set_num_threads(cores)
            pairs.append((cell.best / 1e9, max(rate(product, element, timer, 5) for product in best)))
        print(
            f"{dtype}: {len(found)} products searched, the best {best[0]}; the probe's {cell.rows} rows × {cell.shape}"
        )
        print(f"  probe GFLOP/s: {spread([ours for ours, _ in pairs])}")
        print(f"  search GFLOP/s: {spread([theirs for _, theirs in pairs])}")
        ratio = median(ours / theirs for ours, theirs in pairs)
        print_bar(f"{dtype}: C of the probe over the search", ratio, f"at least {BAR}", ratio >= BAR)
    measured.close()


if __name__ == "__main__":
    main()
