"""Going on with a run that was interrupted: its settings again, its missing points, and that nothing else changed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from workbench.engines.engine import EngineLabels
from workbench.errors import SettingsError, StoreError
from workbench.experiments.settings import BatchSettings, GapSettings, SweepSettings
from workbench.hardware.machine import this_machine
from workbench.models.model import Model
from workbench.runs.ownership import check_resumable
from workbench.runs.row import BATCH, GAP, PREFILL_DECODE, Row, point_of
from workbench.runs.run import Run, RunStatus, now
from workbench.runs.store import Store

_SETTINGS: Mapping[str, type[SweepSettings | BatchSettings | GapSettings]] = {
    PREFILL_DECODE: SweepSettings,
    BATCH: BatchSettings,
    GAP: GapSettings,
}


@dataclass(frozen=True)
class Earlier:
    """What earlier sittings of a run left: the run as the store keeps it, its settings and its rows."""

    run: Run
    settings: SweepSettings | BatchSettings
    rows: tuple[Row, ...]


def earlier_sittings(store: Store, name: str) -> Earlier:
    """The run of that name, ready to be resumed.

    Raises StoreError where there is none, it is finished or a process measures it, and SettingsError where it is of a
    kind that is measured as a whole, was measured on another machine or its settings can't be read. One whose every
    point has its row is marked finished.
    """
    run = store.run(name)
    check_resumable(run)
    settings, rows = kept_settings(run), tuple(store.rows(run.run_id))
    if isinstance(settings, GapSettings):
        raise SettingsError(
            f"{run.run_id} can't be resumed: the rounds of a ladder are measured in one go, or they would not compare. "
            "`workbench gap`, or r on the Gap pane, measures it anew; its ladder stays as far as it came."
        )
    if not any(missing(run.points, rows)):
        store.mark_finished(run)
        raise StoreError(f"{run.run_id} has a row for every point: nothing is missing, and it is marked finished now.")
    if run.machine != (here := str(this_machine())):
        raise SettingsError(
            f"{run.run_id} was begun on another machine: {run.machine}. This one is {here}, and rows of one run must "
            "compare. Resume it there, or measure a new run here."
        )
    return Earlier(run, settings, rows)


def kept_settings(run: Run) -> SweepSettings | BatchSettings | GapSettings:
    """The settings a run was begun with, its model by the path it had; what this version doesn't know is passed over.

    Raises SettingsError for a kind that has no pane, and settings that can't be read.
    """
    chosen = _SETTINGS.get(run.kind)
    if chosen is None:
        raise SettingsError(f"{run.run_id} is of the kind {run.kind!r}, which can't be resumed or opened.")
    try:
        settings = msgspec.convert(run.settings, chosen)
    except msgspec.ValidationError as error:
        raise SettingsError(f"The settings of {run.run_id} can't be read: {error}. Measure a new run.") from error
    path = run.about_model.get("path")
    return replace(settings, model=path) if path and Path(path).exists() else settings


def missing(points: Iterable[tuple[int, ...]], rows: Iterable[Row]) -> tuple[bool, ...]:
    """Of each point, whether it has no row yet; one that failed has its row."""
    left = Counter(point_of(row) for row in rows)
    lacking = []
    for point in points:
        lacking.append(left[point] <= 0)
        left[point] -= 1
    return tuple(lacking)


def next_sitting(run: Run) -> Run:
    """The run as it is gone on with now."""
    return replace(run, status=RunStatus.RUNNING, note="", resumed_at=(*run.resumed_at, now()))


def about_model(model: Model) -> dict[str, Any]:
    """What tells a model from another of that name, as values JSON can hold."""
    return {
        "path": None if model.path is None else str(model.path.absolute()),
        "architecture": model.architecture,
        "quantisation": model.quantisation,
        "parameters": model.parameters,
        "file_bytes": model.file_bytes,
    }


def check_same_model(run: Run, model: Model) -> None:
    """Raise SettingsError where the model is not the one the run was begun with."""
    here = {"name": model.name, **about_model(model)}
    then = {"name": run.model, **run.about_model}
    _refuse(run.run_id, _differing({key: then[key] for key in then if key != "path"}, here), "The model is another one")


def check_same_labels(earlier: Earlier, labels: EngineLabels) -> None:
    """Raise SettingsError where the engine would give rows other labels than those the run has."""
    for row in earlier.rows[:1]:
        names = ("engine", "engine_version", "quantisation", "dtype", "device", "threads")
        then, here = ({name: getattr(labelled, name) for name in names} for labelled in (row, labels))
        _refuse(earlier.run.run_id, _differing(then, here), "It would be measured otherwise")


def _differing(then: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for key, value in then.items():
        if key in here and here[key] != value:
            yield f"{key.replace('_', ' ')} {value} then, {here[key]} now"


def _refuse(run_id: str, differing: Iterator[str], why: str) -> None:
    if differences := "; ".join(differing):
        raise SettingsError(
            f"{run_id} can't be resumed. {why}: {differences}. Rows of one run must compare: measure a new run."
        )
