"""A run as a line of a list, the same on screen and on the command line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.quantity import Origin, Quantity, Unit
from workbench.record import cells, headed, written
from workbench.runs.run import Run

MEASURED, EXTRAPOLATED = "measured", "extrapolated"
"""What the figures of a run are: of the model itself, or what follows from slices of it."""


@dataclass(frozen=True)
class ListedRun:
    """What tells a run from others: when, what of, on what, how far it came and the most it reached.

    `rows` are those measured, of so many `points`; `failed` those that failed, None where none did.
    """

    run_id: str = headed("run")
    started_at: str = headed("started")
    kind: str = headed("kind")
    model: str = headed("model")
    dtype: str | None = headed("dtype")
    device: str | None = headed("device")
    rows: int = headed("rows")
    points: int = headed("of")
    failed: int | None = headed("failed")
    best_tokens_per_s: Quantity | None = headed("best tok/s")
    figures: str = headed("figures")
    status: str = headed("status")
    sittings: int = headed("sittings")
    machine: str = headed("machine")
    note: str = headed("note")


def listed(run: Run) -> ListedRun:
    """A run as its line."""
    best = run.best_tokens_per_s
    # Other engines name their cache and device themselves, and none of it is known before the first row.
    asked = run.settings if run.settings.get("engine", TRANSFORMERS) == TRANSFORMERS else {}
    return ListedRun(
        run_id=run.run_id,
        started_at=run.started_at,
        kind=run.kind,
        model=run.model,
        dtype=run.dtype or asked.get("dtype"),
        device=run.device or asked.get("device"),
        rows=run.rows - run.failed,
        points=len(run.points),
        failed=run.failed or None,
        best_tokens_per_s=None
        if best is None
        else Quantity("most tokens a second of all sequences", best, Unit.TOKENS_PER_SECOND, Origin.MEASURED),
        figures=EXTRAPOLATED if run.settings.get("layers") else MEASURED,
        status=run.status.value,
        sittings=run.sitting,
        machine=run.machine,
        note=run.note,
    )


def matching(runs: Iterable[ListedRun], words: str) -> Sequence[ListedRun]:
    """The runs whose line holds each of these words, in upper or lower case."""
    asked = words.lower().split()
    return [run for run in runs if all(word in _text(run) for word in asked)]


def _text(run: ListedRun) -> str:
    return " ".join(written(cell) for cell in cells(run).values()).lower()
