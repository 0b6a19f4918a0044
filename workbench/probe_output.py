"""How the command line prints a probe: cells as they are measured, then what they come to."""

from typing import Any

from workbench.experiments.events import Calibrated, CellMeasured, Event, Progress
from workbench.hardware.calibration import Calibration, Cell, Work, cell_line, findings
from workbench.output import Format, note, print_json, print_records, print_table
from workbench.quantity import Quantity, explain

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

    def _print(self, found: Calibration) -> None:
        match self._format:
            case Format.JSON:
                print_json(probe_record(found))
            case Format.CSV:
                print_records([cell_line(cell) for cell in found.cells], Format.CSV)
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
            dtype: {str(c.rows): c.best / GIGA for c in found.of(Work.GEMM) if c.dtype == dtype}
            for dtype in found.dtypes(Work.GEMM)
        },
        "load": {
            "other_cpu_percent": 100 * found.load.other_share,
            "steal_percent": 100 * found.load.stolen_share,
            "before_other_cpu_percent": 100 * found.load_before.other_share,
            "frequency_mhz": found.load.frequency_mhz,
            "available_bytes": found.load.available_bytes,
            "memory_pressure_percent": found.load.memory_pressure,
        },
        "drift": found.drift,
        "last_level_cache_bytes": found.last_level_cache_bytes,
        "instructions": list(found.instructions),
        "findings": list(findings(found)),
        "cells": [cell_line(cell) for cell in found.cells],
    }


def _print_summary(found: Calibration) -> None:
    instructions = f" · {', '.join(found.instructions)}" if found.instructions else ""
    print(f"{found.machine} · {found.device}{instructions}")
    cache = found.last_level_cache_bytes
    print(f"last-level cache {'not known' if cache is None else f'{cache / 1e6:,.0f} MB'} · probed {found.taken_at}\n")
    if found.read is not None:
        print(next(explain(found.read)))
    print()
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
            print_table(_HEADINGS[work], [_line(cell) for cell in cells], left=(0,))
            print()
    for sentence in findings(found):
        print(f"! {sentence}")


_RATES = ("best", "median", "passes", "")
_HEADINGS = {
    Work.READ: ("kernel", "threads", *_RATES),
    Work.SIZE: ("MB", "threads", *_RATES),
    Work.COPY: ("kernel", "threads", *_RATES),
    Work.GEMV: ("dtype", "threads", *_RATES),
    Work.GEMM: ("dtype", "rows", *_RATES),
}


def _line(cell: Cell) -> tuple[str, ...]:
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
    return (*lead, *rates, f"! {cell.rejected}" if cell.rejected else "")


def _cell_words(cell: Cell) -> str:
    unit = "GFLOP/s" if cell.work is Work.GEMM else "GB/s"
    rows = f", {cell.rows:,} rows" if cell.work is Work.GEMM else ""
    size = f", {cell.array_bytes / 1e6:,.1f} MB" if cell.work is Work.SIZE else ""
    return f"{cell.kernel}{rows}{size}, threads {cell.threads}: {cell.best / GIGA:,.1f} {unit}"


def _giga(figure: Quantity | None) -> float | None:
    return None if figure is None else figure.value / GIGA
