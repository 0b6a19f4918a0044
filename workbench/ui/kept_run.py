"""A run out of the store as its pane shows it: with its rows as they were, and the floors that its rows carry."""

from collections.abc import Sequence

from workbench.experiments import batch, prefill_decode
from workbench.experiments.events import Finished, PointFloor, Predicted
from workbench.experiments.settings import BatchSettings, RunSettings, SweepSettings
from workbench.experiments.sittings import kept_settings
from workbench.quantity import Origin, Quantity, Unit
from workbench.runs.ladder import Ladder
from workbench.runs.row import Row
from workbench.runs.run import Run
from workbench.ui.live_run import LiveRun


def kept_run(run: Run, rows: Sequence[Row], ladder: Ladder | None = None) -> LiveRun:
    """The run as it ended, with its ladder where it has one; raises SettingsError where its settings can't be read."""
    settings = kept_settings(run)
    return LiveRun(
        settings,
        run=run,
        predicted=_predicted(rows),
        rows=list(rows),
        finished=Finished(run, run.status, _figures(settings, rows), run.note),
        ladder=ladder,
    )


def _figures(settings: RunSettings, rows: Sequence[Row]) -> tuple[Quantity, ...]:
    match settings:
        case BatchSettings():
            return batch.figures(rows)
        case SweepSettings():
            return prefill_decode.figures(rows)
        case _:
            return ()


def _predicted(rows: Sequence[Row]) -> Predicted | None:
    """The floors of each row, on the rates it was measured with, or its ceiling's; None where no row has them."""
    known = [row for row in rows if _read_rate(row) and (row.bytes_per_step or row.ttft_floor_ms)]
    if not known:
        return None
    return Predicted(
        floors=tuple(_floor(row) for row in known),
        read_rate=Quantity("B", _read_rate(known[0]), Unit.BYTES_PER_SECOND, Origin.MEASURED, "B"),
        product_rate=Quantity("C", (known[0].peak_gflop_per_s or 0) * 1e9, Unit.FLOP_PER_SECOND, Origin.MEASURED, "C"),
        resident_bytes=max(row.predicted_resident_bytes or 0 for row in known),
    )


def _read_rate(row: Row) -> float:
    """B in bytes/s: as it was around the row, or for a row of another tool its ceiling's; 0 where neither is known."""
    imported = row.calibrated_gb_per_s if row.vendor_gb_per_s is None else row.vendor_gb_per_s
    return (row.read_gb_per_s or row.ceiling_read_gb_per_s or imported or 0.0) * 1e9


def _floor(row: Row) -> PointFloor:
    B, C = _read_rate(row), (row.peak_gflop_per_s or 0) * 1e9
    step_s = max((row.bytes_per_step or 0) / B, (row.step_flop or 0) / C if C else 0.0)
    return PointFloor(
        prompt_tokens=row.prompt_tokens,
        ttft=Quantity("least TTFT", (row.ttft_floor_ms or 0) / 1e3, Unit.SECONDS, Origin.ARITHMETIC),
        tpot=Quantity("least step", step_s, Unit.SECONDS, Origin.ARITHMETIC),
        batch=row.batch,
        predicted_ttft=_predicted_time(row.predicted_ttft_ms),
        predicted_step=_predicted_time(row.predicted_tpot_ms),
        memory_bytes=row.predicted_resident_bytes,
    )


def _predicted_time(ms: float | None) -> Quantity | None:
    return None if not ms else Quantity("predicted time", ms / 1e3, Unit.SECONDS, Origin.ARITHMETIC)
