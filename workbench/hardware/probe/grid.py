"""The probe's grid on one device: reads by kernel and threads, sizes, a copy, matrix-vector and matrix products."""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from workbench.hardware.caches import ROOF_CACHES
from workbench.hardware.calibration import Cell, Work
from workbench.hardware.probe.arrays import filled
from workbench.hardware.probe.kernels import (
    OWN_SLICES,
    Kernel,
    copy_kernel,
    matrices,
    product_kernel,
    read_kernels,
    repeated,
)
from workbench.hardware.probe.timers import Run, Timer

PASSES = 10
LEAST_PASSES = 3
CELL_S = 0.4
"""Seconds after which a product, of which LEAST_PASSES are timed, is timed no more."""
SIZE_PASS_S = 0.005
SIZES = tuple(1 << power for power in range(18, 40, 2))
ROWS = (1, 2, 4, 8, 16, 32, 64, 256, 1024, 2048)
QUICK_ROWS = (1024,)
FEW_ROWS = 64
PRODUCT_FLOP = 20e9
FEW_ROWS_BYTES = 1_000_000_000
"""Bytes of weights that few rows are multiplied by at least, where memory allows, so that none stays in a cache."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
READ_DTYPE = "float32"


@dataclass(frozen=True)
class Product:
    """So many rows times matrices of these shapes in turn, `most_weights` elements of them, or one matrix."""

    rows: int
    shapes: tuple[tuple[int, int], ...]
    most_weights: int

    @property
    def flop(self) -> float:
        """Two to a multiply-add."""
        return 2.0 * self.rows * self.most_weights


def plain_product(rows: int, out_features: int, in_features: int) -> Product:
    """So many rows times one matrix."""
    return Product(rows, ((out_features, in_features),), out_features * in_features)


PLAIN_PRODUCTS = (
    plain_product(4096, 4096, 4096),
    plain_product(2048, 2048, 2048),
    plain_product(2048, 2048, 4096),
    plain_product(4096, 512, 4096),
    plain_product(1536, 3072, 512),
    plain_product(1024, 1024, 1024),
)
"""Where libraries were seen to multiply fastest, whatever a model's own shapes are."""


class Grid:
    """Makes cells one after the other; every method is called in the thread that measures.

    `set_threads` is torch's own, given here so that a fake can stand for it; on an accelerator threads stay one.
    `check` is called before each pass, and raises to stop the probe there.
    """

    def __init__(
        self,
        device: torch.device,
        timer: Timer,
        array_bytes: int,
        thread_counts: Sequence[int],
        cache_bytes: int | None = None,
        check: Callable[[], None] = lambda: None,
        set_threads: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        self.array_bytes = array_bytes
        self._device = device
        self._timer = timer
        self._thread_counts = tuple(thread_counts) if device.type == "cpu" else (1,)
        self._few_rows_bytes = max(FEW_ROWS_BYTES, ROOF_CACHES * (cache_bytes or 0))
        self._check = check
        self._set_threads = set_threads
        self._array: torch.Tensor | None = None
        self._dtype = ""
        self._best: tuple[str, int] | None = None

    def reads(self, quick: bool) -> Iterator[Cell]:
        """Every kernel at every thread count, all threads first.

        In a quick probe only the one that is best in one pass with all threads, and with fewer its passes are few.
        """
        array = self._filled(READ_DTYPE)
        best, chosen = 0.0, ""
        for threads in reversed(self._thread_counts):
            kernels, least = read_kernels(array, threads), PASSES
            if quick and not chosen:
                kernels = [min(kernels, key=lambda kernel: self._once(kernel, threads))]
                chosen = kernels[0].name.removesuffix(OWN_SLICES)
            elif quick:
                kernels, least = [kernel for kernel in kernels if kernel.name == chosen], LEAST_PASSES
            for kernel in kernels:
                cell = self._cell(Work.READ, kernel, threads, self.array_bytes, least)
                if cell.best > best:
                    best, self._best = cell.best, (kernel.name, threads)
                yield cell

    def read_again(self, first: Cell) -> Cell:
        """The same kernel, threads and passes as `first`, to see whether the box is still what it was."""
        kernel = next(k for k in read_kernels(self._filled(READ_DTYPE), first.threads) if k.name == first.kernel)
        return self._cell(Work.READ, kernel, first.threads, self.array_bytes, len(first.seconds))

    def sizes(self) -> Iterator[Cell]:
        """The best read kernel over arrays of growing size, so that caches show as plateaus."""
        array = self._filled(READ_DTYPE)
        name, threads = self._best or ("sum", self._thread_counts[-1])
        for size in SIZES:
            if size >= self.array_bytes:
                return
            part = array[: size // array.element_size()]
            kernel = next((k for k in read_kernels(part, threads) if k.name == name), None)
            if kernel is None:
                continue
            self._once(kernel, threads)
            times = max(1, round(SIZE_PASS_S / max(self._once(kernel, threads), 1e-7)))
            yield self._cell(Work.SIZE, repeated(kernel, times), threads, size, PASSES)

    def copy(self) -> Cell:
        """A copy, which writes as much as it reads: shown, never the roof."""
        threads = self._thread_counts[-1]
        return self._cell(Work.COPY, copy_kernel(self._filled(READ_DTYPE)), threads, self.array_bytes, PASSES)

    def products(self, dtype: str, shapes: Sequence[tuple[int, int]], rows: Sequence[int]) -> Iterator[Cell]:
        """Matrix products over the shapes in turn, at all threads: few rows over more weights than a cache holds.

        With more than one count of rows plain products are tried as well, of those that take no longer than CELL_S
        at the best rate so far, and then the fastest of them all once more.
        """
        array = self._filled(dtype)
        ladder = [Product(count, tuple(shapes), self._most_weights(count, array)) for count in rows]
        fastest, best = ladder[0], 0.0
        for product in (*ladder, *(PLAIN_PRODUCTS if len(rows) > 1 else ())):
            if product in PLAIN_PRODUCTS and product.flop > CELL_S * best:
                continue
            for cell in self._product(array, dtype, product):
                if cell.best > best:
                    fastest, best = product, cell.best
                yield cell
        if len(rows) > 1:
            yield from self._product(array, dtype, fastest)

    def matrix_vector(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """One row times one matrix after the other, at each thread count, as a decode step multiplies."""
        array = self._filled(dtype)
        weights = matrices(array, shapes, self._few_rows_bytes // array.element_size())
        if not weights:
            return
        amount = float(sum(weight.numel() * weight.element_size() for weight in weights))
        for threads in self._thread_counts[-1:] if quick else self._thread_counts:
            run = product_kernel(weights, 1).run
            kernel = Kernel("matrix-vector product", amount, run)
            yield self._cell(Work.GEMV, kernel, threads, int(amount), PASSES, dtype=dtype, shape=_shapes(shapes))

    def close(self) -> None:
        """Give the array's memory back."""
        self._array = None
        gc.collect()

    def _most_weights(self, rows: int, array: torch.Tensor) -> int:
        return self._few_rows_bytes // array.element_size() if rows < FEW_ROWS else int(PRODUCT_FLOP / (2 * rows))

    def _product(self, array: torch.Tensor, dtype: str, product: Product) -> Iterator[Cell]:
        weights = matrices(array, product.shapes, product.most_weights)
        if not weights:
            return
        size = sum(weight.numel() for weight in weights) * array.element_size()
        rows, threads = product.rows, self._thread_counts[-1]
        kernel = product_kernel(weights, rows)
        shape = _shapes([(weight.shape[0], weight.shape[1]) for weight in weights])
        yield self._cell(Work.GEMM, kernel, threads, size, LEAST_PASSES, dtype=dtype, rows=rows, shape=shape)

    def _cell(
        self,
        work: Work,
        kernel: Kernel,
        threads: int,
        size: int,
        least: int,
        *,
        dtype: str = READ_DTYPE,
        rows: int = 1,
        shape: str = "",
    ) -> Cell:
        """`least` passes, and up to PASSES of them as far as CELL_S allows."""
        within_s = CELL_S if least < PASSES else 0.0
        seconds = self._timer.seconds(self._checked(kernel, threads), least, PASSES, within_s)
        return Cell(work, kernel.name, dtype, threads, size, kernel.amount, tuple(seconds), rows, shape)

    def _once(self, kernel: Kernel, threads: int) -> float:
        return self._timer.once(self._checked(kernel, threads))

    def _checked(self, kernel: Kernel, threads: int) -> Run:
        """The kernel's pass, at so many threads, unless the probe is to stop."""
        # Set for each cell: threads that torch has seen begin since may have changed what it gives this one.
        self._set_threads(threads)

        def run() -> object:
            self._check()
            return kernel.run()

        return run

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
