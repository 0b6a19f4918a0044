"""Predicting a run's points before anything of it is measured: operations that matter are timed, and summed."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from workbench.experiments.batch_plan import BatchPlan
from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.events import Event, OperationsTimed, PointsForetold, Progress
from workbench.experiments.gap.variant import AS_LOADED
from workbench.experiments.operation_timer import OperationTimer
from workbench.experiments.plan import LoadPlan, Plan, middle_context
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.hardware.load import BUSY_SHARE
from workbench.hardware.machine import runs_in_host_memory, this_machine, usable_cores
from workbench.hardware.timings import FRAMEWORK, Conditions, Table, Timing
from workbench.predictions.age import ago
from workbench.predictions.ledger import Entry, Phase, entries, spread
from workbench.predictions.passes import Pass, can_be_predicted, decode_step, prefill
from workbench.predictions.prediction import PointPrediction, Prediction, predicted
from workbench.predictions.timing_pace import TimingPace, pass_seconds
from workbench.quantity import Quantity
from workbench.runner import Cancelled, CancelToken, Experiment
from workbench.runs.foretold import Foretold
from workbench.runs.measured_device import ASSUMED_READ, assumed_compute
from workbench.runs.store import Store

TRIES, AGAIN_WITHIN_S = 2, 20.0
"""Beside other load operations are timed once more, where the first time took no longer than this."""
LEAST_JUDGED_S = 0.5
"""The system counts what others took in hundredths of a second: of less time than this that says nothing."""
TELL_AFTER_S = 3.0
"""Where the timing stands is told no more often."""
FRESH = timedelta(minutes=10)
"""A cell as old as this is timed again before a run: a shared box is another one an hour later."""


@dataclass(frozen=True)
class PointPasses:
    """A point's two passes, where they are predicted: its prefill, and its middle decode step."""

    prompt_tokens: int
    batch: int
    prefill: Pass | None
    step: Pass

    @property
    def passes(self) -> Iterator[Pass]:
        """Both, the step first."""
        yield self.step
        if self.prefill is not None:
            yield self.prefill


def foretold(at: PointPasses, of: PointPrediction) -> Foretold:
    """A point's prediction as it is kept."""
    source = "" if of.tpot is None else of.tpot.time.source
    return Foretold(at.prompt_tokens, at.batch, *_milliseconds(of.ttft), *_milliseconds(of.tpot), source=source)


def _milliseconds(of: Prediction | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if of is None else (of.seconds * 1e3, of.low_s * 1e3, of.high_s * 1e3)


def point_passes(planned: LoadPlan) -> tuple[PointPasses, ...]:
    """The passes of each point of a run; none where its operations aren't known, and none of other experiments.

    In a variant the operations are others than those that are timed.
    """
    model = planned.resident
    if not can_be_predicted(model) or planned.settings.variant != AS_LOADED:
        return ()
    match planned:
        case Plan(settings=settings):
            return tuple(
                PointPasses(n, 1, prefill(model, n), decode_step(model, middle_context(n, settings.new_tokens)))
                for n in settings.prompts
            )
        case BatchPlan(settings=settings):
            return tuple(
                PointPasses(
                    at.context,
                    at.batch,
                    None,
                    decode_step(model, middle_context(at.context, settings.new_tokens), at.batch),
                )
                for at in planned.points
                if planned.need_at(at).total <= planned.available
            )
    return ()


@dataclass(frozen=True)
class Predictions:
    """A run's predictions by prompt length or context, and batch: as they are kept, and with what they rest on."""

    kept: Mapping[tuple[int, int], Foretold]
    figures: Mapping[tuple[int, int], PointPrediction]

    def columns(self, prompt_tokens: int, batch: int = 1) -> Mapping[str, Any]:
        """The columns of a point's row; empty where nothing was predicted of it."""
        found = self.kept.get((prompt_tokens, batch))
        return {} if found is None else found.columns

    def ttft(self, prompt_tokens: int) -> Quantity | None:
        """The time predicted of a prefill."""
        found = self.figures.get((prompt_tokens, 1))
        return None if found is None or found.ttft is None else found.ttft.time

    def step(self, prompt_tokens: int, batch: int = 1) -> Quantity | None:
        """The time predicted of a decode step."""
        found = self.figures.get((prompt_tokens, batch))
        return None if found is None or found.tpot is None else found.tpot.time


NONE_MADE = Predictions({}, {})


def foretell(
    planned: LoadPlan,
    run_id: str,
    timer: OperationTimer,
    store: Callable[[], Store],
    window: TimedWindow,
    cancel: CancelToken,
    *,
    renew: bool | None = None,
    then_s: float = 0.0,
) -> Generator[Event, None, Predictions]:
    """Time the operations that the run's points lack, and sum each point's; what was kept of it before stays.

    `renew` times all of them again whatever their age, or with False only those that were never timed. What was timed
    beside other load is timed once more, unless that took long; where it was there still, it counts for this run and
    is not kept. `then_s` is about how long the rest of the run takes afterwards. Raises Cancelled.
    """
    points, settings, model = point_passes(planned), planned.settings, planned.resident
    under = timer.conditions(settings) if points else None
    if under is None:
        return NONE_MADE
    with store() as opened:
        earlier = {(p.prompt_tokens, p.batch): p for p in opened.predicted.points(run_id)}
        known, ledger = opened.predicted.timings(under), entries(opened.predicted_rows(str(this_machine())))
        others = [] if known else [each for each in opened.predicted.timed_conditions() if each.dtype == under.dtype]
    size = partial(timer.working_bytes, settings, model)
    recent, busy, quiet = list(_recent(known, renew)), list[Timing](), list[Timing]()
    words = _timing_words(model.name, known, under, others)
    begun = time.monotonic()
    for number in range(TRIES):
        lacking = _lacking(points, Table((*recent, *quiet)), size)
        if not lacking or (number and time.monotonic() - begun > AGAIN_WITHIN_S):
            break
        pace = _timing_pace(planned, lacking)
        yield Progress(words, left_s=pace.guessed_s + then_s)
        tried = told = time.monotonic()
        for cells in _in_windows(timer.time(settings, model, lacking, cancel), window):
            pace.took(cells)
            if cells[0].other_load > BUSY_SHARE:
                busy += cells
            else:
                quiet += cells
                yield OperationsTimed(cells)
            if time.monotonic() - told >= TELL_AFTER_S:
                told = time.monotonic()
                left_s = pace.left_s(told - tried) + then_s
                # What goes on though nothing is left has no time that could be told.
                yield Progress(str(pace), left_s=left_s or None)
        words = f"timing operations of {model.name} once more: other programs took their share of the cores meanwhile"
    table = Table((*known, *busy, *quiet))
    made = {(at.prompt_tokens, at.batch): predict_point(at, table, size, ledger, model.name) for at in points}
    kept = {
        (at.prompt_tokens, at.batch): foretold(at, made[at.prompt_tokens, at.batch])
        for at in points
        if made[at.prompt_tokens, at.batch].tpot is not None
    } | earlier
    yield PointsForetold(run_id, tuple(kept.values()), tuple(made[at] for at in kept if at in made))
    return Predictions(kept, made)


def _timing_pace(planned: LoadPlan, lacking: Sequence[Pass]) -> TimingPace:
    settings, model = planned.settings, planned.resident
    C = assumed_compute(settings.threads or usable_cores())
    each_s = [pass_seconds(each, model, settings.element_bytes, ASSUMED_READ, C) for each in lacking]
    return TimingPace(lacking, each_s)


def timing_seconds(planned: LoadPlan, store: Callable[[], Store], *, renew: bool | None = None) -> float:
    """About how long timing the operations that a run's points lack takes, before it; without torch, so roughly.

    Zero where none is lacking, or none can be timed. `renew` is that of `foretell`.
    """
    settings = planned.settings
    if settings.engine != TRANSFORMERS or not runs_in_host_memory(settings.device):
        return 0.0
    passes = dict.fromkeys(each for at in point_passes(planned) for each in at.passes)
    threads, machine = settings.threads or usable_cores(), str(this_machine())
    with store() as opened:
        known = {
            timing.operation
            for under in opened.predicted.timed_conditions()
            if (under.machine, under.dtype, under.threads) == (machine, settings.dtype, threads)
            for timing in _recent(opened.predicted.timings(under), renew)
        }
    lacking = [each for each in passes if any(o.task not in FRAMEWORK and o not in known for o in each.counts)]
    return _timing_pace(planned, lacking).guessed_s if lacking else 0.0


def _timing_words(model: str, known: Sequence[Timing], under: Conditions, others: Sequence[Conditions]) -> str:
    """What is timed, and why again: the box is in another state than it was, or was long ago in this one."""
    if others:
        nearest = min(others, key=lambda each: each.apart_from(under).count(", "))
        was, is_now = nearest.apart_from(under), under.apart_from(nearest)
        return f"timing the operations of {model} again: they were with {was}; now {is_now}"
    if known and (age := datetime.now().astimezone() - _newest(known)) >= FRESH:
        return f"timing the operations of {model}: the last times are of {ago(age)} ago"
    return f"timing the operations of {model}, from which its times are predicted"


def _newest(known: Sequence[Timing]) -> datetime:
    return max(datetime.fromisoformat(timing.taken_at) for timing in known)


def _in_windows(batches: Iterator[tuple[Timing, ...]], window: TimedWindow) -> Iterator[tuple[Timing, ...]]:
    """Each batch of cells, timed while nothing else of ours runs, with the load that others were since the first."""
    beside = Disturbance()

    def record(found: Disturbance) -> None:
        nonlocal beside
        beside = beside + found

    while True:
        with window.timed(record):
            cells = next(batches, None)
        if cells is None:
            return
        if cells:
            load = beside.other_load if beside.open_s >= LEAST_JUDGED_S else None
            yield tuple(replace(cell, other_load=load or 0.0) for cell in cells)


def predict_point(
    at: PointPasses, table: Table, size: Callable[[Pass], int], ledger: Sequence[Entry], model: str
) -> PointPrediction:
    """Both times of a point, their intervals as wide as other models' misses; `size` is a pass's working bytes."""
    ttft = None
    if at.prefill is not None:
        ttft = predicted(at.prefill, table, size(at.prefill), spread(ledger, Phase.PREFILL, model))
    return PointPrediction(ttft, predicted(at.step, table, size(at.step), spread(ledger, Phase.DECODE, model)))


def _recent(known: Iterable[Timing], renew: bool | None) -> Iterator[Timing]:
    """The cells that need no renewal."""
    since = datetime.now().astimezone() - FRESH
    for timing in known:
        if renew is False or (renew is None and datetime.fromisoformat(timing.taken_at) >= since):
            yield timing


def _lacking(points: Sequence[PointPasses], table: Table, size: Callable[[Pass], int]) -> list[Pass]:
    """The passes with an operation that has no cell of its own, each once."""
    found: dict[Pass, None] = {}
    for at in points:
        for each in at.passes:
            estimates = (table.estimate(operation, size(each)) for operation in each.counts)
            if not all(estimate is not None and estimate.timed for estimate in estimates):
                found[each] = None
    return list(found)


def predict(
    planned: LoadPlan, timer: OperationTimer, store: Callable[[], Store], window: TimedWindow, *, renew: bool
) -> Experiment:
    """The experiment that predicts a run's points and measures none of them.

    With `renew` every operation that matters is timed again, else only those that never were.
    """

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        with suppress(Cancelled):
            yield from foretell(planned, "", timer, store, window, cancel, renew=renew)

    return experiment
