"""The probe of the box: cells of a grid one after the other, judged together, kept as a calibration."""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from workbench.engines.engine import check_room_for_torch
from workbench.experiments.events import Calibrated, CellMeasured, Event, Progress
from workbench.experiments.settings import DEFAULT_MODEL, check_device
from workbench.experiments.window import TimedWindow
from workbench.hardware.accelerator_clocks import AcceleratorClocks, read_clocks
from workbench.hardware.caches import instructions
from workbench.hardware.calibration import Calibration, Cell, drift_between, judged
from workbench.hardware.load import Load, LoadReading, load_between, read_load
from workbench.hardware.machine import this_machine, usable_cores
from workbench.models.matrices import matrix_shapes
from workbench.models.resolve import resolve
from workbench.runner import Cancelled, CancelToken, Experiment
from workbench.runs.run import new_run_id, now

DTYPES = ("float32", "bfloat16", "float16")
QUICK_DTYPES = ("float32",)


@dataclass(frozen=True)
class ProbeSettings:
    """What is probed: a device, and the model whose shapes are multiplied; `quick` takes seconds, not a minute."""

    model: str = DEFAULT_MODEL
    device: str = "auto"
    quick: bool = False


class ProbeGrid(Protocol):
    """The grid on one device: each method measures one cell after the other, in the thread that asks."""

    @property
    def device(self) -> str:
        """The device's label."""

    @property
    def memory_bytes(self) -> int:
        """Memory the device has."""

    @property
    def cache_bytes(self) -> int | None:
        """Its last-level cache, None where unknown."""

    def reads(self, quick: bool) -> Iterator[Cell]:
        """Read kernels by threads; the first cell is the one measured again at the end."""

    def read_again(self, first: Cell) -> Cell:
        """That cell once more, to see whether the box is still what it was."""

    def sizes(self) -> Iterator[Cell]:
        """The best read kernel over growing arrays."""

    def copy(self) -> Cell:
        """A copy."""

    def matrix_vector(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """One row times the shapes' matrices."""

    def products(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """Many rows times them."""

    def close(self) -> None:
        """Give its memory back."""


OpenGrid = Callable[[ProbeSettings, CancelToken], ProbeGrid]
"""Opens a grid that stops, raising Cancelled, before the next pass once its token is set."""


def thread_counts(cores: int) -> tuple[int, ...]:
    """One thread, half of the cores and all of them, each once, in that order."""
    return tuple(sorted({1, max(1, cores // 2), cores}))


def open_torch_grid(settings: ProbeSettings, cancel: CancelToken) -> ProbeGrid:
    """The grid on the device of the settings, in the thread that measures: torch takes seconds to import."""
    check_room_for_torch()
    with _lasting():
        from workbench.engines.probing import open_grid

    return open_grid(settings.device, settings.quick, thread_counts(usable_cores()), cancel.check)


@contextmanager
def _lasting() -> Iterator[None]:
    """Import torch without looking for garbage in what it makes, now and as the process ends: a third of a second."""
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def probe(settings: ProbeSettings, window: TimedWindow, open_grid: OpenGrid = open_torch_grid) -> Experiment:
    """The experiment that probes the box, each cell inside `window`; stopped, it keeps what was measured.

    It raises SettingsError and ModelError before it starts.
    """

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        check_device(settings.device)
        model = resolve(settings.model)
        shapes = matrix_shapes(model)
        begun = read_load()
        yield Progress("starting torch and filling memory")
        grid = open_grid(settings, cancel)
        try:
            taken = _Taken(settings, model.name, grid, window, cancel, begun)
            with suppress(Cancelled):
                yield from taken.cells_of(shapes)
            if taken.cells:
                yield Calibrated(taken.calibration())
        finally:
            grid.close()

    return experiment


class _Taken:
    """A probe under way: the cells so far, and the load beside them."""

    def __init__(
        self,
        settings: ProbeSettings,
        model: str,
        grid: ProbeGrid,
        window: TimedWindow,
        cancel: CancelToken,
        begun: LoadReading,
    ) -> None:
        self.cells: list[Cell] = []
        self._settings = settings
        self._model = model
        self._grid = grid
        self._window = window
        self._cancel = cancel
        self._taken_at = now()
        self._clocks_before = self._clocks()
        self._ready = read_load()
        self._load_before = load_between(begun, self._ready)
        self._load_after: Load | None = None
        self._drift: float | None = None
        self._complete = False

    def cells_of(self, shapes: Sequence[tuple[int, int]]) -> Iterator[Event]:
        """Measure the grid; raises Cancelled before the next pass."""
        quick, grid = self._settings.quick, self._grid
        yield from self._measured("reading memory", grid.reads(quick))
        if not quick:
            yield from self._measured("reading arrays of growing size", grid.sizes())
            yield from self._measured("copying", _one(grid.copy))
        for dtype in QUICK_DTYPES if quick else DTYPES:
            yield from self._measured(f"matrix-vector products, {dtype}", grid.matrix_vector(dtype, shapes, quick))
            yield from self._measured(f"matrix products, {dtype}", grid.products(dtype, shapes, quick))
            yield Progress("reading the first again")
            self._read_again(self.cells[0])
        self._complete = True

    def _read_again(self, first: Cell) -> None:
        before = read_load()
        self._cancel.check()
        with self._window.timed(lambda _: None):
            drift = drift_between(first, self._grid.read_again(first))
        self._load_after = load_between(before, read_load())
        self._drift = max((drift, self._drift or 0.0), key=abs)

    def calibration(self) -> Calibration:
        """What the cells come to so far."""
        return Calibration(
            calibration_id=new_run_id(),
            taken_at=self._taken_at,
            machine=str(this_machine()),
            device=self._grid.device,
            quick=self._settings.quick,
            complete=self._complete,
            model=self._model,
            memory_bytes=self._grid.memory_bytes,
            last_level_cache_bytes=self._grid.cache_bytes,
            instructions=instructions() if self._grid.device == "cpu" else (),
            cells=judged(self.cells, self._grid.cache_bytes),
            load=load_between(self._ready, read_load()),
            load_before=self._load_before,
            load_after=self._load_after,
            drift=self._drift,
            clocks=(*self._clocks_before, *self._clocks()),
        )

    def _clocks(self) -> tuple[AcceleratorClocks, ...]:
        return read_clocks() if self._grid.device.startswith("cuda") else ()

    def _measured(self, stage: str, cells: Iterator[Cell]) -> Iterator[Event]:
        yield Progress(stage)
        while True:
            self._cancel.check()
            with self._window.timed(lambda _: None):
                cell = next(cells, None)
            if cell is None:
                return
            self.cells.append(cell)
            yield CellMeasured(cell)


def _one(measure: Callable[[], Cell]) -> Iterator[Cell]:
    yield measure()
