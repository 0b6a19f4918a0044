"""The probe's grid on one device: reads by kernel and threads, sizes, a copy, matrix-vector and matrix products."""

import gc
from collections.abc import Callable, Iterator, Sequence

import torch

from workbench.hardware.calibration import Cell, Work
from workbench.hardware.probe.arrays import filled
from workbench.hardware.probe.kernels import (
    Kernel,
    copy_kernel,
    matrices,
    product_kernel,
    read_kernels,
    repeated,
)
from workbench.hardware.probe.timers import Timer

PASSES = 10
LEAST_PASSES = 3
CELL_S = 0.4
SIZE_PASS_S = 0.005
SIZES = tuple(1 << power for power in range(18, 40, 2))
ROWS = (1, 2, 4, 8, 16, 32, 64, 256, 1024, 2048)
QUICK_ROWS = (1024,)
FEW_ROWS = 64
SQUARE = 4096
PRODUCT_FLOP = 20e9
FEW_ROWS_BYTES = 1_000_000_000
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
READ_DTYPE = "float32"


class Grid:
    """Makes cells one after the other; every method is called in the thread that measures.

    `set_threads` is torch's own, given here so that a fake can stand for it; on an accelerator threads stay one.
    """

    def __init__(
        self,
        device: torch.device,
        timer: Timer,
        array_bytes: int,
        thread_counts: Sequence[int],
        set_threads: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        self.array_bytes = array_bytes
        self._device = device
        self._timer = timer
        self._thread_counts = tuple(thread_counts) if device.type == "cpu" else (1,)
        self._set_threads = set_threads
        self._array: torch.Tensor | None = None
        self._dtype = ""
        self._best: tuple[str, int] | None = None

    def reads(self, quick: bool) -> Iterator[Cell]:
        """Every kernel at every thread count; in a quick probe the best of one pass each, with few passes at one."""
        array = self._filled(READ_DTYPE)
        best = 0.0
        for threads in reversed(self._thread_counts):
            self._set_threads(threads)
            kernels = read_kernels(array, threads)
            if quick:
                kernels = [min(kernels, key=lambda kernel: self._timer.seconds(kernel.run, 1)[0])]
            passes = LEAST_PASSES if quick and threads != self._thread_counts[-1] else PASSES
            for kernel in kernels:
                cell = self._cell(Work.READ, kernel, threads, self.array_bytes, passes)
                if cell.best > best:
                    best, self._best = cell.best, (kernel.name, threads)
                yield cell

    def read_again(self, first: Cell) -> Cell:
        """The same kernel, threads and passes as `first`, to see whether the box is still what it was."""
        self._set_threads(first.threads)
        kernel = next(k for k in read_kernels(self._filled(READ_DTYPE), first.threads) if k.name == first.kernel)
        return self._cell(Work.READ, kernel, first.threads, self.array_bytes, len(first.seconds))

    def sizes(self) -> Iterator[Cell]:
        """The best read kernel over arrays of growing size, so that caches show as plateaus."""
        array = self._filled(READ_DTYPE)
        name, threads = self._best or ("sum", self._thread_counts[-1])
        self._set_threads(threads)
        for size in SIZES:
            if size >= self.array_bytes:
                return
            part = array[: size // array.element_size()]
            kernel = next((k for k in read_kernels(part, threads) if k.name == name), None)
            if kernel is None:
                continue
            once = self._timer.seconds(kernel.run, 1)[0]
            times = max(1, round(SIZE_PASS_S / max(once, 1e-7)))
            yield self._cell(Work.SIZE, repeated(kernel, times), threads, size, PASSES)

    def copy(self) -> Cell:
        """A copy, which writes as much as it reads: shown, never the roof."""
        threads = self._thread_counts[-1]
        self._set_threads(threads)
        return self._cell(Work.COPY, copy_kernel(self._filled(READ_DTYPE)), threads, self.array_bytes, PASSES)

    def products(self, dtype: str, shapes: Sequence[tuple[int, int]], rows: Sequence[int]) -> Iterator[Cell]:
        """Matrix products over the shapes in turn, at all threads: few rows over more weights than a cache holds.

        With more than one count of rows a large square product is tried as well.
        """
        array = self._filled(dtype)
        threads = self._thread_counts[-1]
        self._set_threads(threads)
        for count in rows:
            yield from self._product(array, dtype, shapes, count, threads)
        if max(rows) >= SQUARE // 2 and array.numel() >= SQUARE**2:
            yield from self._product(array, dtype, ((SQUARE, SQUARE),), SQUARE, threads)

    def matrix_vector(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """One row times one matrix after the other, at each thread count, as a decode step multiplies."""
        array = self._filled(dtype)
        weights = matrices(array, shapes, FEW_ROWS_BYTES // array.element_size())
        amount = float(sum(weight.numel() * weight.element_size() for weight in weights))
        for threads in self._thread_counts[-1:] if quick else self._thread_counts:
            self._set_threads(threads)
            run = product_kernel(weights, 1).run
            kernel = Kernel("matrix-vector product", amount, run)
            yield self._cell(Work.GEMV, kernel, threads, int(amount), PASSES, dtype=dtype, shape=_shapes(shapes))

    def close(self) -> None:
        """Give the array's memory back."""
        self._array = None
        gc.collect()

    def _product(
        self, array: torch.Tensor, dtype: str, shapes: Sequence[tuple[int, int]], rows: int, threads: int
    ) -> Iterator[Cell]:
        width = array.element_size()
        most = FEW_ROWS_BYTES // width if rows < FEW_ROWS else int(PRODUCT_FLOP / (2 * rows))
        weights = matrices(array, shapes, most)
        if not weights:
            return
        size = sum(weight.numel() for weight in weights) * width
        kernel = product_kernel(weights, rows)
        yield self._cell(Work.GEMM, kernel, threads, size, PASSES, dtype=dtype, rows=rows, shape=_shapes(shapes))

    def _cell(
        self,
        work: Work,
        kernel: Kernel,
        threads: int,
        size: int,
        passes: int,
        *,
        dtype: str = READ_DTYPE,
        rows: int = 1,
        shape: str = "",
    ) -> Cell:
        """So many passes; of products, which may take long, as many as CELL_S allows, at least LEAST_PASSES."""
        if work is Work.GEMM:
            once = self._timer.seconds(kernel.run, 1)[0]
            passes = max(LEAST_PASSES, min(passes, int(CELL_S / max(once, 1e-9))))
        seconds = self._timer.seconds(kernel.run, passes)
        return Cell(work, kernel.name, dtype, threads, size, kernel.amount, tuple(seconds), rows, shape)

    def _filled(self, dtype: str) -> torch.Tensor:
        """The array in a dtype; filling it anew for another one."""
        if self._array is None or self._dtype != dtype:
            self._array = None
            element = DTYPES[dtype]
            count = self.array_bytes // element.itemsize
            self._array = filled(count, element, self._device, self._thread_counts[-1])
            self._dtype = dtype
        return self._array


def _shapes(shapes: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{rows}×{columns}" for rows, columns in dict.fromkeys(shapes))
