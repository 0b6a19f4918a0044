"""The batch sweep: decode steps of b sequences together, over batches and the tokens each sequence holds."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from math import ceil
from statistics import mean, median

from workbench.ceilings import decode, experts, kv_cache, memory_fit, prefill
from workbench.ceilings.batch import limit
from workbench.engines.engine import BatchTiming, BoxRates, PointError
from workbench.experiments.batch_plan import BatchPlan, Point, lengths, most_passes, pass_seconds, plan_batch
from workbench.experiments.events import Event, PointFailed, PointFloor, Predicted, Progress, RowMeasured
from workbench.experiments.gap.variant import Stored
from workbench.experiments.judging import judged
from workbench.experiments.measured_run import Around, Load, MeasuredRun, measured_run, point_row, under_ceiling
from workbench.experiments.operation_timer import OperationTimer
from workbench.experiments.pace import Pace
from workbench.experiments.plan import middle_context
from workbench.experiments.repeats import LEAST_REPEATS, warm_ups
from workbench.experiments.served import goodput, with_streams
from workbench.experiments.settings import BatchSettings
from workbench.experiments.sittings import Earlier
from workbench.experiments.timed_columns import with_steps
from workbench.experiments.window import TimedWindow
from workbench.models.model import DTYPE_BYTES
from workbench.quantity import Quantity
from workbench.runner import Experiment
from workbench.runs.doubling import doublings, figure
from workbench.runs.measured_device import calibrated_product
from workbench.runs.row import BATCH, Row
from workbench.runs.samples import Samples


def batch_sweep(
    settings: BatchSettings,
    load: Load,
    window: TimedWindow,
    earlier: Earlier | None = None,
    timer: OperationTimer | None = None,
) -> Experiment:
    """The experiment that sweeps `settings` on what `load` makes ready, inside `window`.

    With what `earlier` sittings left of a run, only its missing points are measured.
    It raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def stopped(planned: BatchPlan, rows: list[Row]) -> str:
        return f"stopped after {len(rows)} of {len(planned.points)} batches"

    return measured_run(BATCH, lambda: plan_batch(settings), load, window, _measure, figures, stopped, earlier, timer)


@dataclass
class _Taken:
    """The passes of one point so far, or why there are no more."""

    timings: list[BatchTiming] = field(default_factory=list)
    status: str = "ok"
    fits: bool = True

    @property
    def samples(self) -> Samples:
        """The steps, the warm-up of each pass apart."""
        warmed = [_warmed(timing) for timing in self.timings]
        return Samples(
            tpot_s=tuple(step for each in warmed for step in each.tpot_s),
            dropped_tpot_s=tuple(step for each in warmed for step in each.dropped_tpot_s),
        )

    def enough(self, settings: BatchSettings, spent_s: float) -> bool:
        """Whether the point needs no further pass, with the seconds it took; a fixed count is one of passes."""
        if settings.rule.fixed:
            return len(self.timings) >= settings.rule.least
        return settings.rule.enough((self.samples.tpot_s,), spent_s)

    def passes_left(self, settings: BatchSettings, seconds: float) -> int:
        """How many passes the point will still take, of which one takes so long, as far as its samples tell."""
        rule, steps = settings.rule, settings.steps
        if rule.fixed:
            return rule.least - len(self.timings)
        return max(1, ceil(rule.expected((self.samples.tpot_s,), seconds / steps) / steps) - len(self.timings))


def _warmed(timing: BatchTiming) -> Samples:
    """The steps of one pass, those of its warm-up apart; of few steps none are, nor of streams, which run at once."""
    steps = timing.step_s
    if timing.streams is not None:
        return Samples(tpot_s=steps)
    k = min(warm_ups([(step,) for step in steps]), max(0, len(steps) - LEAST_REPEATS))
    return Samples(tpot_s=steps[k:], dropped_tpot_s=steps[:k])


def _measure(sweep: MeasuredRun[BatchPlan]) -> Iterator[Event]:
    planned, settings = sweep.planned, sweep.planned.settings
    points = planned.points
    yield Progress("reading the box's rates", points=len(points))
    rates = sweep.read(sweep.loaded.box_rates)
    few_rows = {b: _few_rows(sweep, b) for b in settings.batches}
    sweep.cancel.check()
    beside_loaded = sweep.loaded.free_bytes()
    needs = [planned.need_at(point) for point in points]
    fitting = [need.beside_loaded <= beside_loaded for need in needs]
    yield Predicted(
        floors=tuple(_floor(sweep, point, rates, few_rows[point.batch]) for point in points),
        read_rate=rates.read,
        product_rate=rates.product,
        resident_bytes=max((need.total for need in compress(needs, fitting)), default=planned.need.total),
    )
    yield Progress("warming up", points=len(points))
    with suppress(PointError):
        _pass(sweep, Point(min(settings.contexts), 1), seed=0)
    before = rates.read
    to_run = zip(points, fitting, sweep.missing, strict=True)
    floors_s = [_expected_s(sweep, point, rates) if fits and lacking else 0.0 for point, fits, lacking in to_run]
    pace = Pace(floors_s, partial(_Taken().passes_left, settings), partial(most_passes, settings))
    for i, point in compress(enumerate(points), sweep.missing):
        sweep.cancel.check()
        sweep.begin_point()
        taken = _begun(sweep, point)
        while taken.status == "ok" and not taken.enough(settings, sweep.spent_s):
            yield Progress(
                "measuring",
                point=i + 1,
                points=len(points),
                prompt_tokens=point.context,
                left_s=pace.left_s(i, taken.passes_left(settings, pace.pass_s(i))),
                batch=point.batch,
            )
            asked = sweep.spent_s
            try:
                taken.timings.append(_pass(sweep, point, seed=(i + 1) * 1000 + len(taken.timings)))
            except PointError as error:
                taken.status = f"failed: {error}"
            else:
                pace.took(i, sweep.spent_s - asked)
        # A point that was not run took no time in which the rates could have moved.
        after = sweep.read(sweep.loaded.read_again) if taken.fits else before
        row = _row(sweep, point, taken, Around(before, after, rates.product), few_rows[point.batch])
        before = after
        if taken.status == "ok":
            pace.done(len(taken.timings))
            yield RowMeasured(judged(row, taken.samples, settings.rule.precision), taken.samples)
        else:
            yield PointFailed(row, taken.samples, taken.status.partition(": ")[2])


def _expected_s(sweep: MeasuredRun[BatchPlan], point: Point, rates: BoxRates) -> float:
    """Seconds of one pass of a point: its prefill's least, and its steps as predicted from timed operations."""
    settings, resident = sweep.planned.settings, sweep.planned.resident
    predicted = sweep.predictions.step(point.context, point.batch) if settings.layers is None else None
    return pass_seconds(settings, resident, point, rates.read, rates.product, predicted)


def _few_rows(sweep: MeasuredRun[BatchPlan], b: int) -> Quantity | None:
    """What b rows get of C by the probe, which multiplies by weights of one dtype and by no packed ones."""
    settings = sweep.planned.settings
    if settings.variant.stored is not Stored.AS_LOADED:
        return None
    return calibrated_product(sweep.loaded.labels.device, settings.dtype, b)


def _begun(sweep: MeasuredRun[BatchPlan], point: Point) -> _Taken:
    """One point before its first pass, refused where there is no memory for it."""
    free, need = sweep.loaded.free_bytes(), sweep.planned.need_at(point)
    if need.beside_loaded <= free:
        return _Taken()
    most = sweep.planned.largest_batch(point.context, free)
    held = need.weights + need.engine
    status = (
        f"refused: needs {need.total / 1e9:,.1f} GB, {need.cache / 1e9:,.1f} of them for the caches, and there are "
        f"{(free + held) / 1e9:,.1f} GB; the largest batch that fits is {most:,}"
    )
    return _Taken(status=status, fits=False)


def _pass(sweep: MeasuredRun[BatchPlan], point: Point, seed: int) -> BatchTiming:
    settings = sweep.planned.settings
    return sweep.timed(
        lambda: sweep.loaded.batch(lengths(settings, point), settings.steps, seed=seed, cancel=sweep.cancel), _warmed
    )


def _floor(sweep: MeasuredRun[BatchPlan], point: Point, rates: BoxRates, few_rows: Quantity | None) -> PointFloor:
    planned = sweep.planned
    model, element_bytes = planned.resident, planned.settings.element_bytes
    t, b = middle_context(point.context, planned.settings.new_tokens), point.batch
    expected = few_rows and decode.step_seconds(model, t, element_bytes, rates.read, few_rows, b)
    # A bound takes the best C known: a probe in a quicker minute must not predict more than the bound allows.
    best = max((C for C in (rates.product, few_rows) if C is not None), key=lambda C: C.value)
    return PointFloor(
        prompt_tokens=point.context,
        ttft=prefill.seconds(model, point.context, rates.read, rates.product, b),
        tpot=decode.step_seconds(model, t, element_bytes, rates.read, best, b),
        batch=b,
        predicted_step=sweep.predictions.step(point.context, b) or expected,
        memory_bytes=planned.need_at(point).total,
    )


def _row(
    sweep: MeasuredRun[BatchPlan],
    point: Point,
    taken: _Taken,
    rates: Around,
    few_rows: Quantity | None,
) -> Row:
    settings, model, timings = sweep.planned.settings, sweep.planned.resident, taken.timings
    samples = taken.samples
    steps = samples.tpot_s
    element_bytes = DTYPE_BYTES[settings.dtype]
    t, b = middle_context(point.context, settings.new_tokens), point.batch
    longest = settings.longest(point.context) + settings.new_tokens
    W, kt = decode.weights_read(model, b).value, kv_cache.cache_bytes(model, t, element_bytes, b)
    F, C = decode.step_flop(model, t, b).value, few_rows or rates.product
    expected = experts.touched(model, b)
    predicted = few_rows and decode.step_seconds(model, t, element_bytes, rates.before, few_rows, b)
    row = point_row(
        sweep,
        rates,
        prompt_tokens=point.context,
        context_tokens=t,
        batch=b,
        new_tokens=settings.new_tokens,
        repeats=len(steps),
        dropped=len(samples.dropped_tpot_s),
        bytes_per_step=int(W + kt),
        weight_bytes=int(W),
        cache_bytes=kt,
        step_flop=int(F),
        bound_by=limit(W, kt, F, rates.read.value, C.value, taken.fits),
        few_rows_gflop_per_s=few_rows and few_rows.value / 1e9,
        predicted_tpot_ms=predicted and predicted.value * 1e3,
        experts_expected=expected and expected.value,
        memory_needed_bytes=int(memory_fit.needed(model, longest, element_bytes, b).value),
        predicted_resident_bytes=sweep.planned.need_at(point).total,
        status=taken.status,
    )
    row = replace(row, **sweep.predictions.columns(point.context, b))
    told = settings.endpoint.rate is None
    if not timings:
        return under_ceiling(row, sweep, told)
    touched = [layer for timing in timings for layer in timing.experts_touched]
    row = replace(
        with_steps(row, steps),
        prefill_ms=median(timing.prefill_s for timing in timings) * 1e3,
        experts_touched=mean(touched) if touched else None,
    )
    row = replace(row, flags="; ".join(filter(None, [row.flags, *_mixed(settings, point)])))
    return under_ceiling(with_streams(row, timings, settings.endpoint), sweep, told)


def _mixed(settings: BatchSettings, point: Point) -> Iterator[str]:
    held = lengths(settings, point)
    if min(held) < max(held):
        yield f"sequences of {min(held):,} to {max(held):,} tokens; the engine pads them to the longest"


def figures(rows: Sequence[Row]) -> tuple[Quantity, ...]:
    """How far doubling the batch pays, for each context, and what of a server's requests kept within limits."""
    return (*(figure(each) for each in doublings(rows)), *goodput(rows))
