"""Kernels that read every byte of an array once, and products over matrices that lie in it one after the other."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from workbench.hardware.probe.arrays import slices

ROW_ELEMENTS = 4096
OWN_SLICES = ", own slices"


@dataclass(frozen=True)
class Kernel:
    """A pass over an array; `amount` is what one does, in bytes or in FLOP."""

    name: str
    amount: float
    run: Callable[[], object]


def read_kernels(array: torch.Tensor, threads: int) -> list[Kernel]:
    """Read-only passes over `array`, by torch's own threads, and with each thread on a slice of its own.

    An integer view stands beside the float ones, since a float sum can be bound by its arithmetic.
    """
    amount = float(array.numel() * array.element_size())
    passes = _passes(array)
    kernels = [Kernel(name, amount, run) for name, run in passes.items()]
    if threads > 1 and array.device.type == "cpu":
        for name in ("dot product", "matrix-vector product"):
            if name in passes:
                parts = [_passes(array[start:end])[name] for start, end in slices(array.numel(), threads, ROW_ELEMENTS)]
                kernels.append(Kernel(f"{name}{OWN_SLICES}", amount, _side_by_side(parts)))
    return kernels


def copy_kernel(array: torch.Tensor) -> Kernel:
    """One half copied over the other: as many bytes written as read."""
    half = array.numel() // 2
    source, target = array[:half], array[half : 2 * half]
    return Kernel("copy", 2.0 * half * array.element_size(), lambda: target.copy_(source))


def repeated(kernel: Kernel, times: int) -> Kernel:
    """The same pass several times over, for arrays that are read faster than a clock ticks."""

    def run() -> None:
        for _ in range(times):
            kernel.run()

    return Kernel(kernel.name, kernel.amount * times, run)


def matrices(array: torch.Tensor, shapes: Sequence[tuple[int, int]], most_elements: int) -> list[torch.Tensor]:
    """Views of `array` as matrices of these shapes (rows, columns), in turn, until `most_elements` are taken.

    At least one is taken; a shape larger than what is left is passed over.
    """
    found: list[torch.Tensor] = []
    start, limit = 0, min(array.numel(), most_elements)
    while True:
        taken = False
        for rows, columns in shapes:
            end = start + rows * columns
            if end <= array.numel() and (end <= limit or not found):
                found.append(array[start:end].view(rows, columns))
                start, taken = end, True
        if not taken:
            return found


def product_kernel(weights: Sequence[torch.Tensor], rows: int) -> Kernel:
    """`rows` rows of activations times each matrix; `amount` in FLOP, two to a multiply-add."""
    first = weights[0]
    inputs = {
        columns: torch.ones(rows, columns, dtype=first.dtype, device=first.device)
        for columns in {weight.shape[1] for weight in weights}
    }

    def run() -> None:
        for weight in weights:
            torch.nn.functional.linear(inputs[weight.shape[1]], weight)

    return Kernel("matrix product", 2.0 * rows * sum(weight.numel() for weight in weights), run)


def _passes(array: torch.Tensor) -> dict[str, Callable[[], object]]:
    whole = array.numel() // ROW_ELEMENTS * ROW_ELEMENTS
    found: dict[str, Callable[[], object]] = {
        "sum": lambda: torch.sum(array),
        "largest integer": lambda: torch.amax(array.view(torch.int32)),
        "dot product": lambda: torch.dot(array, array),
    }
    if whole:
        table, vector = array[:whole].view(-1, ROW_ELEMENTS), torch.ones(ROW_ELEMENTS, device=array.device)
        found["matrix-vector product"] = lambda: torch.mv(table, vector)
    return found


def _side_by_side(parts: Sequence[Callable[[], object]]) -> Callable[[], object]:
    pool = ThreadPoolExecutor(len(parts), initializer=lambda: torch.set_num_threads(1))

    def run() -> None:
        for done in [pool.submit(part) for part in parts]:
            done.result()

    return run
