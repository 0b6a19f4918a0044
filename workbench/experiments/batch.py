"""The batch sweep: decode steps of b sequences together, over batches and the tokens each sequence holds."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress
from statistics import mean, median

from workbench.ceilings import decode, experts, kv_cache, memory_fit, prefill
from workbench.ceilings.batch import limit
from workbench.engines.engine import BatchTiming, BoxRates, PointError
from workbench.experiments.batch_plan import BatchPlan, Point, lengths, plan_batch, point_seconds
from workbench.experiments.events import Event, PointFailed, PointFloor, Predicted, Progress, RowMeasured
from workbench.experiments.judging import judged
from workbench.experiments.measured_run import Around, Load, MeasuredRun, measured_run, point_row
from workbench.experiments.plan import middle_context
from workbench.experiments.repeats import LEAST_REPEATS, warm_ups
from workbench.experiments.settings import BatchSettings
from workbench.experiments.sittings import Earlier
from workbench.experiments.window import TimedWindow
from workbench.models.model import DTYPE_BYTES
from workbench.quantity import Quantity
from workbench.runner import Experiment
from workbench.runs.basis import Basis, on_basis
from workbench.runs.doubling import doublings, figure
from workbench.runs.measured_device import calibrated_product
from workbench.runs.row import BATCH, Row, Samples


def batch_sweep(settings: BatchSettings, load: Load, window: TimedWindow, earlier: Earlier | None = None) -> Experiment:
    """The experiment that sweeps `settings` on what `load` makes ready, inside `window`.

    With what `earlier` sittings left of a run, only its missing points are measured.
    It raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def stopped(planned: BatchPlan, rows: list[Row]) -> str:
        return f"stopped after {len(rows)} of {len(planned.points)} batches"

    return measured_run(BATCH, lambda: plan_batch(settings), load, window, _measure, figures, stopped, earlier)


@dataclass(frozen=True)
class _Measurement:
    """What was found at one point, or why nothing was."""

    timing: BatchTiming | None = None
    status: str = "ok"
    fits: bool = True

    @property
    def samples(self) -> Samples:
        """The steps, of those dropped as warm-up apart; of few steps none are."""
        steps = () if self.timing is None else self.timing.step_s
        k = min(warm_ups([(step,) for step in steps]), max(0, len(steps) - LEAST_REPEATS))
        return Samples(tpot_s=steps[k:], dropped_tpot_s=steps[:k])


def _measure(sweep: MeasuredRun[BatchPlan]) -> Iterator[Event]:
    planned, settings = sweep.planned, sweep.planned.settings
    points = planned.points
    yield Progress("reading the box's rates", points=len(points))
    rates = sweep.read(sweep.loaded.box_rates)
    few_rows = {b: calibrated_product(sweep.loaded.labels.device, settings.dtype, b) for b in settings.batches}
    sweep.cancel.check()
    beside_loaded = sweep.loaded.free_bytes()
    needs = [planned.need_at(point) for point in points]
    fitting = [need.beside_loaded <= beside_loaded for need in needs]
    yield Predicted(
        floors=tuple(_floor(planned, point, rates, few_rows[point.batch]) for point in points),
        read_rate=rates.read,
        product_rate=rates.product,
        resident_bytes=max((need.total for need in compress(needs, fitting)), default=planned.need.total),
    )
    yield Progress("warming up", points=len(points))
    with suppress(PointError):
        _batch(sweep, Point(min(settings.contexts), 1), seed=0)
    before = rates.read
    seconds = [
        point_seconds(settings, planned.resident, point, rates.read, rates.product) if fits and lacking else 0.0
        for point, fits, lacking in zip(points, fitting, sweep.missing, strict=True)
    ]
    slowdown, measured_s, measured_floor_s = 1.0, 0.0, 0.0
    for i, point in compress(enumerate(points), sweep.missing):
        sweep.cancel.check()
        sweep.begin_point()
        yield Progress(
            "measuring",
            point=i + 1,
            points=len(points),
            prompt_tokens=point.context,
            left_s=slowdown * sum(seconds[i:]),
            batch=point.batch,
        )
        begun = time.monotonic()
        found = _at(sweep, point, seed=i + 1)
        if found.timing is not None and seconds[i]:
            measured_s += time.monotonic() - begun
            measured_floor_s += seconds[i]
            slowdown = measured_s / measured_floor_s
        # A point that was not run took no time in which the rates could have moved.
        after = sweep.read(sweep.loaded.read_again) if found.fits else before
        row = _row(sweep, point, found, Around(before, after, rates.product), few_rows[point.batch])
        before = after
        if found.timing is None:
            yield PointFailed(row, Samples(), found.status.partition(": ")[2])
        else:
            samples = found.samples
            yield RowMeasured(judged(row, samples), samples)


def _at(sweep: MeasuredRun[BatchPlan], point: Point, seed: int) -> _Measurement:
    """One point, unless there is no memory for it."""
    free, need = sweep.loaded.free_bytes(), sweep.planned.need_at(point)
    if need.beside_loaded > free:
        most = sweep.planned.largest_batch(point.context, free)
        held = need.weights + need.engine
        status = (
            f"refused: needs {need.total / 1e9:,.1f} GB, {need.cache / 1e9:,.1f} of them for the caches, and there are "
            f"{(free + held) / 1e9:,.1f} GB; the largest batch that fits is {most:,}"
        )
        return _Measurement(status=status, fits=False)
    try:
        return _Measurement(_batch(sweep, point, seed))
    except PointError as error:
        return _Measurement(status=f"failed: {error}")


def _batch(sweep: MeasuredRun[BatchPlan], point: Point, seed: int) -> BatchTiming:
    settings = sweep.planned.settings
    return sweep.timed(
        lambda: sweep.loaded.batch(lengths(settings, point), settings.steps, seed=seed, cancel=sweep.cancel)
    )


def _floor(planned: BatchPlan, point: Point, rates: BoxRates, few_rows: Quantity | None) -> PointFloor:
    model, element_bytes = planned.resident, DTYPE_BYTES[planned.settings.dtype]
    t, b = middle_context(point.context, planned.settings.new_tokens), point.batch
    expected = few_rows and decode.step_seconds(model, t, element_bytes, rates.read, few_rows, b)
    # A bound takes the best C known: a probe in a quicker minute must not predict more than the bound allows.
    best = max((C for C in (rates.product, few_rows) if C is not None), key=lambda C: C.value)
    return PointFloor(
        prompt_tokens=point.context,
        ttft=prefill.seconds(model, point.context, rates.read, rates.product, b),
        tpot=decode.step_seconds(model, t, element_bytes, rates.read, best, b),
        batch=b,
        predicted_step=expected,
        memory_bytes=planned.need_at(point).total,
    )


def _row(
    sweep: MeasuredRun[BatchPlan],
    point: Point,
    found: _Measurement,
    rates: Around,
    few_rows: Quantity | None,
) -> Row:
    settings, model, timing = sweep.planned.settings, sweep.planned.resident, found.timing
    steps = found.samples.tpot_s
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
        dropped=len(found.samples.dropped_tpot_s),
        bytes_per_step=int(W + kt),
        weight_bytes=int(W),
        cache_bytes=kt,
        step_flop=int(F),
        bound_by=limit(W, kt, F, rates.read.value, C.value, found.fits),
        few_rows_gflop_per_s=few_rows and few_rows.value / 1e9,
        predicted_tpot_ms=predicted and predicted.value * 1e3,
        experts_expected=expected and expected.value,
        memory_needed_bytes=int(memory_fit.needed(model, longest, element_bytes, b).value),
        predicted_resident_bytes=sweep.planned.need_at(point).total,
        status=found.status,
    )
    if timing is None:
        return on_basis(row, Basis.MINUTE)
    step = median(steps)
    row = replace(
        row,
        tpot_ms=min(steps) * 1e3,
        tpot_median_ms=step * 1e3,
        step_ms=step * 1e3,
        decode_tokens_per_s=1 / step,
        total_tokens_per_s=b / step,
        prefill_ms=timing.prefill_s * 1e3,
        experts_touched=mean(timing.experts_touched) if timing.experts_touched else None,
    )
    return on_basis(replace(row, flags="; ".join(_mixed(settings, point))), Basis.MINUTE)


def _mixed(settings: BatchSettings, point: Point) -> Iterator[str]:
    held = lengths(settings, point)
    if min(held) < max(held):
        yield f"sequences of {min(held):,} to {max(held):,} tokens; the engine pads them to the longest"


def figures(rows: Sequence[Row]) -> tuple[Quantity, ...]:
    """How far doubling the batch pays, for each context."""
    return tuple(figure(each) for each in doublings(rows))
