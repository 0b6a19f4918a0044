"""What the screen knows of one run, built from its events alone."""

import logging
from dataclasses import dataclass, field

from workbench.errors import WorkbenchError
from workbench.experiments.events import (
    Event,
    Finished,
    LadderMeasured,
    PointFailed,
    PointsForetold,
    Predicted,
    Progress,
    RowMeasured,
    Started,
)
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings
from workbench.quantity import format_duration
from workbench.runs.ladder import Ladder
from workbench.runs.row import Row
from workbench.runs.run import Run
from workbench.runs.store import Store

log = logging.getLogger(__name__)


@dataclass
class LiveRun:
    """A run as it unfolds: what it was asked, predicted, measured, and how it ended."""

    settings: RunSettings
    run: Run | None = None
    predicted: Predicted | None = None
    progress: Progress | None = None
    rows: list[Row] = field(default_factory=list)
    finished: Finished | None = None
    ladder: Ladder | None = None
    failure: str = ""
    stopping: bool = False
    foretold: bool = False

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Started(run):
                self.run = run
            case PointsForetold():
                self.foretold = True
            case Predicted():
                self.predicted = event
            case Progress():
                self.progress = event
            case RowMeasured(row) | PointFailed(row):
                self.rows.append(row)
            case LadderMeasured(_, ladder):
                self.ladder = ladder
            case Finished():
                self.finished = event

    @property
    def over(self) -> bool:
        """Whether nothing more will be measured."""
        return self.finished is not None or bool(self.failure)

    @property
    def was_foretold(self) -> bool:
        """Whether any of its points was predicted from timed operations."""
        return self.foretold or any(row.predicted_from for row in self.rows)

    @property
    def measuring(self) -> tuple[int, int] | None:
        """The prompt length, or context, and the batch being measured; None between points."""
        if self.over or self.progress is None or len(self.rows) >= self.progress.point:
            return None
        prompt = self.progress.prompt_tokens
        return None if prompt is None else (prompt, self.progress.batch)

    @property
    def measured(self) -> list[Row]:
        """The rows that did not fail: what a point came to before it failed is no figure of it."""
        return [row for row in self.rows if row.status == "ok"]

    @property
    def best_read_gb_per_s(self) -> float | None:
        """The most bytes a second a decode step of this run has moved."""
        rates = (r.bytes_per_step / r.tpot_ms / 1e6 for r in self.measured if r.bytes_per_step and r.tpot_ms)
        return max(rates, default=None)

    @property
    def best_gflop_per_s(self) -> float | None:
        """The most operations a second a prefill of this run has done."""
        return max((r.prefill_gflop_per_s for r in self.measured if r.prefill_gflop_per_s is not None), default=None)

    def summary(self) -> str:
        """Where the run stands, in one line."""
        if self.failure:
            return f"failed · {self.failure}"
        if self.finished is not None:
            ended = (self.finished.status, self.finished.note, self.finished.run.run_id)
            return " · ".join(part for part in ended if part)
        progress = self.progress
        if progress is None:
            return "starting"
        if not progress.point:
            left = "" if progress.left_s is None else f" · {format_duration(progress.left_s)} left"
            return f"stopping · {progress.stage}" if self.stopping else f"{progress.stage}{left}"
        if isinstance(self.settings, GapSettings):
            trying = f"{progress.stage}, {progress.point} of {progress.points}"
            parts = [f"round {progress.repeat}" if progress.repeat else trying]
        else:
            parts = [f"point {progress.point} of {progress.points}"]
        if progress.prompt_tokens is not None and isinstance(self.settings, BatchSettings | GapSettings):
            parts.append(f"context {progress.prompt_tokens:,}, batch {progress.batch:,}")
        elif progress.prompt_tokens is not None:
            parts.append(f"prompt {progress.prompt_tokens:,}")
        if progress.repeats and not isinstance(self.settings, GapSettings):
            parts.append(f"repeat {progress.repeat} of {progress.repeats}")
        if self.stopping:
            parts.append("stopping")
        elif progress.left_s is not None:
            parts.append(f"{format_duration(progress.left_s)} left")
        return " · ".join(parts)


def mark_interrupted(live: LiveRun | None) -> None:
    """Mark the run interrupted in the store, where the measuring thread did not get to it."""
    if live is None or live.run is None:
        return
    try:
        with Store() as store:
            store.mark_interrupted(live.run.run_id)
    except WorkbenchError:
        log.exception("the run could not be marked as interrupted; its rows are kept")
