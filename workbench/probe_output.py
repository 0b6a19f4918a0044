"""How the command line prints a probe: cells as they are measured, then what they come to."""

from typing import Any

from workbench.experiments.events import Calibrated, CellMeasured, Event, Progress
from workbench.hardware.caches import Residence
from workbench.hardware.calibration import Calibration, Cell, Work, cell_line, findings
from workbench.hardware.load import Load
from workbench.output import Format, note, print_json, print_records, print_table
from workbench.quantity import Quantity, explain
from workbench.record import written

GIGA = 1e9


class ProbePrinter:
    """Progress to standard error, the calibration to standard output in the format chosen."""

    def __init__(self, chosen: Format) -> None:
        self._format = chosen
        self.calibrated = False

    def show(self, event: Event) -> None:
        """Print one event."""
        match event:
            case Progress():
                note(event.stage)
            case CellMeasured(cell):
                note(f"  {_cell_words(cell)}")
            case Calibrated(calibration):
                self.calibrated = True
                self._print(calibration)
            case _:
                pass

    def left_behind(self) -> None:
        """Nothing: what was measured is printed only when it has been judged as a whole."""

    def kept(self) -> str:
        """What a signal that stopped the probe left."""
        if self.calibrated:
            return "Stopped; what was read so far is kept as a calibration of this machine."
        return "Stopped before anything was kept."

    def _print(self, found: Calibration) -> None:
        match self._format:
            case Format.JSON:
                print_json(probe_record(found))
            case Format.CSV:
                print_records([cell_line(cell, found.last_level_cache_bytes) for cell in found.cells], Format.CSV)
            case _:
                _print_summary(found)


def probe_record(found: Calibration) -> dict[str, Any]:
    """A calibration in the keys that `workbench probe --format json` prints; GB/s and GFLOP/s."""
    read, reads = found.read, found.of(Work.READ)
    return {
        "calibration_id": found.calibration_id,
        "taken_at": found.taken_at,
        "machine": found.machine,
        "device": found.device,
        "model": found.model,
        "quick": found.quick,
        "complete": found.complete,
        "quiet": found.quiet,
        "origin": "measured",
        "read_gb_s": {
            "best": None if read is None else read.value / GIGA,
            "median": None if found.read_median is None else found.read_median / GIGA,
            "by_kernel": {
                kernel: max(c.best for c in reads if c.kernel == kernel) / GIGA
                for kernel in dict.fromkeys(c.kernel for c in reads)
            },
            "by_threads": {
                str(t): max(c.best for c in reads if c.threads == t) / GIGA for t in sorted({c.threads for c in reads})
            },
            "by_size": {str(c.array_bytes): c.best / GIGA for c in found.of(Work.SIZE)},
            "copy": next((c.best / GIGA for c in found.of(Work.COPY)), None),
        },
        "gemv_gb_s": {dtype: _giga(found.gemv(dtype)) for dtype in found.dtypes(Work.GEMV)},
        "gemm_gflop_s": {dtype: _giga(found.gemm(dtype)) for dtype in found.dtypes(Work.GEMM)},
        "gemm_gflop_s_by_rows": {
            dtype: {str(rows): rate / GIGA for rows, rate in found.product_rates(dtype).items()}
            for dtype in found.dtypes(Work.GEMM)
        },
        "load": {
            **_load_record(found.load),
            "before": _load_record(found.load_before),
            "after": None if found.load_after is None else _load_record(found.load_after),
        },
        "clocks": found.clocks,
        "drift": found.drift,
        "last_level_cache_bytes": found.last_level_cache_bytes,
        "instructions": list(found.instructions),
        "findings": list(findings(found)),
        "cells": [cell_line(cell, found.last_level_cache_bytes) for cell in found.cells],
    }


def _load_record(load: Load) -> dict[str, float | None]:
    return {
        "other_cpu_percent": 100 * load.other_share,
        "steal_percent": 100 * load.stolen_share,
        "frequency_mhz": load.frequency_mhz,
        "available_bytes": load.available_bytes,
        "memory_pressure_percent": load.memory_pressure,
    }


def _print_summary(found: Calibration) -> None:
    instructions = f" · {', '.join(found.instructions)}" if found.instructions else ""
    print(f"{found.machine} · {found.device}{instructions}")
    cache = found.last_level_cache_bytes
    print(f"last-level cache {'not known' if cache is None else f'{cache / 1e6:,.0f} MB'} · probed {found.taken_at}\n")
    if found.read is not None:
        print(next(explain(found.read)) + "\n")
    for work, heading in (
        (Work.READ, "reads, GB/s: the best counts"),
        (Work.SIZE, "the best kernel over growing arrays, GB/s"),
        (Work.COPY, "copy, GB/s read and written: never the roof"),
        (Work.GEMV, f"matrix-vector products over the shapes of {found.model}, GB/s of weights"),
        (Work.GEMM, f"matrix products over the shapes of {found.model}, GFLOP/s"),
    ):
        cells = [cell for cell in found.cells if cell.work is work]
        if cells:
            print(heading)
            lines = [_line(cell, found.residence(cell.array_bytes)) for cell in cells]
            print_table(_HEADINGS[work], lines, left=(0, len(_HEADINGS[work]) - 1))
            print()
    _print_load(found)
    for sentence in findings(found):
        print(f"! {sentence}")


def _print_load(found: Calibration) -> None:
    print("the box meanwhile, at the end of each")
    loads = (("before", found.load_before), ("during", found.load), ("after", found.load_after))
    lines = [(when, *_load_words(load)) for when, load in loads if load is not None]
    print_table(("", "others, %", "hypervisor, %", "MHz", "GB free", "waits for memory, %"), lines, left=(0,))
    for clocks in found.clocks:
        print(clocks)
    if found.drift is not None:
        print(f"the first cell measured again, where it was farthest off: {found.drift:+.1%}")
    print()


def _load_words(load: Load) -> tuple[str, ...]:
    return (
        f"{100 * load.other_share:.0f}",
        f"{100 * load.stolen_share:.0f}",
        written(None if load.frequency_mhz is None else round(load.frequency_mhz)),
        f"{load.available_bytes / GIGA:,.1f}",
        written(load.memory_pressure),
    )


_RATES = ("best", "median", "passes", "")
_HEADINGS = {
    Work.READ: ("kernel", "threads", *_RATES),
    Work.SIZE: ("MB", "threads", *_RATES),
    Work.COPY: ("kernel", "threads", *_RATES),
    Work.GEMV: ("dtype", "threads", *_RATES),
    Work.GEMM: ("dtype", "rows", *_RATES),
}


def _line(cell: Cell, lives: Residence | None) -> tuple[str, ...]:
    match cell.work:
        case Work.SIZE:
            lead = (f"{cell.array_bytes / 1e6:,.1f}", str(cell.threads))
        case Work.GEMV:
            lead = (cell.dtype, str(cell.threads))
        case Work.GEMM:
            lead = (cell.dtype, f"{cell.rows:,}")
        case _:
            lead = (cell.kernel, str(cell.threads))
    rates = (f"{cell.best / GIGA:,.1f}", f"{cell.median / GIGA:,.1f}", str(len(cell.seconds)))
    note = f"! {cell.rejected}" if cell.rejected else lives if cell.work is Work.SIZE else None
    return (*lead, *rates, note or "")


def _cell_words(cell: Cell) -> str:
    unit = "GFLOP/s" if cell.work is Work.GEMM else "GB/s"
    rows = f", {cell.rows:,} rows" if cell.work is Work.GEMM else ""
    size = f", {cell.array_bytes / 1e6:,.1f} MB" if cell.work is Work.SIZE else ""
    return f"{cell.kernel}{rows}{size}, threads {cell.threads}: {cell.best / GIGA:,.1f} {unit}"


def _giga(figure: Quantity | None) -> float | None:
    return None if figure is None else figure.value / GIGA
