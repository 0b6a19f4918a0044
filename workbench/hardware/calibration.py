"""What a probe found of a box: every cell of its grid with every sample, and the figures they come to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log
from statistics import median

from workbench.hardware.accelerator_clocks import AcceleratorClocks
from workbench.hardware.caches import Residence, residence
from workbench.hardware.load import Load
from workbench.quantity import Origin, Quantity, Unit
from workbench.record import headed

PARTS_MARGIN = 1.15
"""How much more than as many single threads several may reach before it can only have been a cache."""
DRIFT_SHARE = 0.05
CACHE_RATE = 1.25
"""An array that is read this many times as fast as memory came from a cache."""
GEMV_SHARE = 0.7
"""Matrix-vector products that read less of what memory gives are bound by something else."""
FEW_ROWS = 8


class Work(StrEnum):
    """What a cell of the grid times."""

    READ = "read"
    SIZE = "size"
    COPY = "copy"
    GEMV = "gemv"
    GEMM = "gemm"


@dataclass(frozen=True)
class Cell:
    """One kernel in one setting: the seconds of every pass kept, the first dropped beforehand.

    `amount` is what one pass does, in bytes for reads, copies and matrix-vector products, in FLOP for products;
    `array_bytes` what it goes over; `rows` the rows of a product. `rejected` says why it counts for nothing.
    """

    work: Work
    kernel: str
    dtype: str
    threads: int
    array_bytes: int
    amount: float
    seconds: tuple[float, ...]
    rows: int = 1
    shape: str = ""
    rejected: str = ""

    @property
    def unit(self) -> Unit:
        """Of its rates."""
        return Unit.FLOP_PER_SECOND if self.work is Work.GEMM else Unit.BYTES_PER_SECOND

    @property
    def best(self) -> float:
        """The best rate, in units of `amount` a second."""
        return self.amount / min(self.seconds)

    @property
    def median(self) -> float:
        """The median rate."""
        return self.amount / median(self.seconds)


@dataclass(frozen=True)
class CellLine:
    """A cell as a table shows it."""

    work: Work = headed("work")
    kernel: str = headed("kernel")
    dtype: str = headed("dtype")
    threads: int = headed("threads")
    rows: int = headed("rows")
    array_bytes: Quantity = headed("over")
    best: Quantity = headed("best")
    median: Quantity = headed("median")
    samples: int = headed("passes")
    note: str = headed("note")


def cell_line(cell: Cell, cache_bytes: int | None = None) -> CellLine:
    """The cell's figures as quantities; of growing arrays the note says where each lives."""
    lives = residence(cell.array_bytes, cache_bytes) if cell.work is Work.SIZE else None
    passes = len(cell.seconds)

    def rate(name: str, value: float) -> Quantity:
        source = f"{cell.kernel}, the probe"
        return Quantity(f"{name} rate of {passes} passes", value, cell.unit, Origin.MEASURED, source=source)

    return CellLine(
        work=cell.work,
        kernel=cell.kernel,
        dtype=cell.dtype,
        threads=cell.threads,
        rows=cell.rows,
        array_bytes=Quantity("bytes gone over", cell.array_bytes, Unit.BYTES, Origin.ARITHMETIC, source="the probe"),
        best=rate("best", cell.best),
        median=rate("median", cell.median),
        samples=passes,
        note=cell.rejected or lives or cell.shape,
    )


@dataclass(frozen=True)
class Calibration:
    """A box as one probe found it.

    `cells` are in the order they were measured; `drift` is the first cell's rate measured again after each dtype over
    what it was, less one, where it was farthest off, None where that was not reached; `model` is the one whose shapes
    were multiplied, `memory_bytes` what the device has. `load` is that of the whole probe, `load_before` while it got
    ready and `load_after` while the first cell was measured last; `clocks` are an accelerator's before and after.
    """

    calibration_id: str
    taken_at: str
    machine: str
    device: str
    quick: bool
    complete: bool
    model: str
    memory_bytes: int
    last_level_cache_bytes: int | None
    instructions: tuple[str, ...]
    cells: tuple[Cell, ...]
    load: Load
    load_before: Load
    load_after: Load | None = None
    drift: float | None = None
    clocks: tuple[AcceleratorClocks, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether nothing else disturbed it: no load to speak of, and no drift."""
        return not self.load.busy and (self.drift is None or abs(self.drift) <= DRIFT_SHARE)

    @property
    def reads_all(self) -> bool:
        """Whether every read was made: one stopped before may lack the kernel that reads fastest."""
        return self.complete or any(cell.work is not Work.READ for cell in self.cells)

    def residence(self, W: float) -> Residence | None:
        """Where a model lives whose tokens read W bytes of weights; None where the cache is not known."""
        return residence(W, self.last_level_cache_bytes)

    @property
    def read(self) -> Quantity | None:
        """B: the best rate of all that count as reads of memory."""
        cell = max(self.of(Work.READ), key=lambda cell: cell.best, default=None)
        return None if cell is None else self._figure(cell, "read rate", "B")

    @property
    def read_median(self) -> float | None:
        """The median rate of the kernel and threads that gave B."""
        cell = max(self.of(Work.READ), key=lambda cell: cell.best, default=None)
        return None if cell is None else cell.median

    def gemv(self, dtype: str) -> Quantity | None:
        """The rate at which a matrix-vector product over the model's shapes reads weights of a dtype."""
        cell = max(self._in(Work.GEMV, dtype), key=lambda cell: cell.best, default=None)
        return None if cell is None else self._figure(cell, f"matrix-vector products in {dtype}", "")

    def gemm(self, dtype: str) -> Quantity | None:
        """C: the best rate of matrix products in a dtype."""
        cell = max(self._in(Work.GEMM, dtype), key=lambda cell: cell.best, default=None)
        return None if cell is None else self._figure(cell, f"matrix products in {dtype}", "C")

    def gemm_at(self, dtype: str, rows: int) -> Quantity | None:
        """C of a product of that many rows in a dtype, logarithms interpolated between the nearest counts measured.

        Below the fewest rows and above the most it is theirs. None where only one count was measured: a rate of many
        rows says nothing of few.
        """
        best: dict[int, Cell] = {}
        for cell in self._in(Work.GEMM, dtype):
            if cell.rows not in best or cell.best > best[cell.rows].best:
                best[cell.rows] = cell
        if len(best) < 2:
            return None
        below = best[max((r for r in best if r <= rows), default=min(best))]
        above = best[min((r for r in best if r >= rows), default=max(best))]
        rate = below.best
        if below.rows < above.rows:
            along = log(rows / below.rows) / log(above.rows / below.rows)
            rate = below.best ** (1 - along) * above.best**along
        figure = self._figure(below, f"matrix products of {rows:,} rows in {dtype}", "C_b")
        between = "" if below is above else f"between {below.rows:,} and {above.rows:,} rows: "
        return replace(figure, value=rate, source=between + figure.source)

    def product_rates(self, dtype: str) -> dict[int, float]:
        """The best rate of matrix products in a dtype, in FLOP/s, by rows in growing order."""
        cells = self._in(Work.GEMM, dtype)
        return {rows: max(c.best for c in cells if c.rows == rows) for rows in sorted({c.rows for c in cells})}

    def dtypes(self, work: Work) -> tuple[str, ...]:
        """The dtypes that were measured of a kind of work."""
        return tuple(dict.fromkeys(cell.dtype for cell in self.of(work)))

    def of(self, work: Work) -> list[Cell]:
        """The cells of a kind of work that were not rejected."""
        return [cell for cell in self.cells if cell.work is work and not cell.rejected]

    def _in(self, work: Work, dtype: str) -> list[Cell]:
        return [cell for cell in self.of(work) if cell.dtype == dtype]

    def _figure(self, cell: Cell, name: str, symbol: str) -> Quantity:
        threads = "1 thread" if cell.threads == 1 else f"{cell.threads} threads"
        rows = f", {cell.rows:,} rows" if cell.work is Work.GEMM else ""
        probe = "quick probe" if self.quick else "probe"
        quiet = "" if self.quiet else "; the box was not quiet"
        return Quantity(
            name=name,
            value=cell.best,
            unit=cell.unit,
            origin=Origin.MEASURED,
            symbol=symbol,
            source=f"{cell.kernel}{rows}, {threads}, best of {len(cell.seconds)}, {probe} of {self.taken_at}{quiet}",
        )


def judged(cells: Sequence[Cell], last_level_cache_bytes: int | None) -> tuple[Cell, ...]:
    """The cells with those rejected that can't have been reads of memory.

    A read is rejected over an array of fewer than ROOF_CACHES caches, and above what as many single threads could
    read: each of several threads has at most the bandwidth that the fastest has alone. A matrix-vector product is
    rejected over weights that fit in the cache together.
    """
    alone = (cell.best for cell in cells if cell.work is Work.READ and cell.threads == 1)
    fastest_alone = max(alone, default=None)
    return tuple(_judged(cell, last_level_cache_bytes, fastest_alone) for cell in cells)


def _judged(cell: Cell, cache_bytes: int | None, alone: float | None) -> Cell:
    lives = residence(cell.array_bytes, cache_bytes)
    may_be_cached = {Work.READ: (Residence.CACHE, Residence.PARTLY), Work.GEMV: (Residence.CACHE,)}
    if cache_bytes is not None and lives in may_be_cached.get(cell.work, ()):
        return _rejected(
            cell,
            f"its {cell.array_bytes / 1e6:,.0f} MB may lie in the last-level cache of {cache_bytes / 1e6:,.0f} MB",
        )
    if cell.work is not Work.READ:
        return cell
    if alone is not None and cell.best > PARTS_MARGIN * cell.threads * alone:
        return _rejected(cell, f"more than {cell.threads} times what one thread reads alone: a cache, or a wrong clock")
    return cell


def _rejected(cell: Cell, why: str) -> Cell:
    return replace(cell, rejected=why)


def drift_between(first: Cell, again: Cell) -> float:
    """How much faster the same cell was later, as a share."""
    return again.best / first.best - 1


def findings(calibration: Calibration) -> Iterable[str]:
    """What the grid says in words."""
    if not calibration.complete:
        yield "The probe was stopped before its end: it holds what was measured until then."
    if calibration.read is None:
        yield from _why_unread(calibration)
    else:
        yield from _slow_products(calibration, calibration.read)
        yield from _caches(calibration, calibration.read)
    yield from _few_rows(calibration)
    yield from _disturbances(calibration)


def _why_unread(calibration: Calibration) -> Iterable[str]:
    reads = [cell for cell in calibration.cells if cell.work is Work.READ]
    if not reads:
        yield "Nothing was read, so B is not known."
        return
    first, free = reads[0], calibration.load.available_bytes
    yield f"No read counts as one of memory, so B is not known: {first.rejected}."
    if residence(first.array_bytes, calibration.last_level_cache_bytes) is not Residence.MEMORY:
        yield (
            f"Larger arrays need more free memory: this process may take {free / 1e9:,.1f} GB now. "
            "Free some, or raise the limit of its container, and probe again."
        )


def _slow_products(calibration: Calibration, read: Quantity) -> Iterable[str]:
    for dtype in calibration.dtypes(Work.GEMV):
        gemv = calibration.gemv(dtype)
        if gemv is not None and gemv.value < GEMV_SHARE * read.value:
            yield (
                f"Matrix-vector products in {dtype} read {gemv}, {gemv.value / read.value:.0%} of what memory gives: "
                "a decode step can't come near its ceiling with these kernels."
            )


def _caches(calibration: Calibration, read: Quantity) -> Iterable[str]:
    cached = [cell for cell in calibration.of(Work.SIZE) if cell.best > CACHE_RATE * read.value]
    if cached:
        largest, fastest = max(cell.array_bytes for cell in cached), max(cell.best for cell in cached)
        yield (
            f"Arrays of up to {largest / 1e6:,.1f} MB come at least in part from a cache, at up to "
            f"{fastest / 1e9:,.0f} GB/s; larger ones from memory, at {read}. Weights that small are not bound by B."
        )


def _few_rows(calibration: Calibration) -> Iterable[str]:
    for dtype in calibration.dtypes(Work.GEMM):
        cells = [cell for cell in calibration.of(Work.GEMM) if cell.dtype == dtype]
        peak = max(cell.best for cell in cells)
        few = [cell for cell in cells if cell.rows <= FEW_ROWS]
        if few and peak:
            most = max(few, key=lambda cell: cell.rows)
            rows = "1 row" if most.rows == 1 else f"{most.rows} rows"
            yield (
                f"{rows} in {dtype} reach {most.best / peak:.0%} of the {peak / 1e9:,.0f} GFLOP/s that many rows do."
            )


def _disturbances(calibration: Calibration) -> Iterable[str]:
    load, drift = calibration.load, calibration.drift
    if load.busy:
        yield (
            f"The box was busy: other processes took {load.other_share:.0%} of its cores and the hypervisor "
            f"{load.stolen_share:.0%}. Probe again when it is quiet."
        )
    if drift is not None and abs(drift) > DRIFT_SHARE:
        faster = "faster" if drift > 0 else "slower"
        yield f"The first cell was {abs(drift):.0%} {faster} when measured again: the rates moved meanwhile."
