"""The prefill/decode sweep: one request in its two phases, timed apart, over prompt lengths."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from statistics import median

from workbench.ceilings import decode, kv_cache, prefill
from workbench.ceilings.prefill import Clock
from workbench.engines.engine import BoxRates, PointError, RequestTiming
from workbench.experiments.events import Event, PointFailed, PointFloor, Predicted, Progress, RowMeasured
from workbench.experiments.judging import judged
from workbench.experiments.measured_run import Around, Load, MeasuredRun, measured_run, point_row, under_ceiling
from workbench.experiments.operation_timer import OperationTimer
from workbench.experiments.pace import Pace
from workbench.experiments.plan import Plan, middle_context, plan, request_seconds
from workbench.experiments.repeats import warm_ups
from workbench.experiments.served import with_requests
from workbench.experiments.settings import SweepSettings
from workbench.experiments.sittings import Earlier
from workbench.experiments.timed_columns import with_prefills
from workbench.experiments.window import TimedWindow
from workbench.quantity import Origin, Quantity, Unit
from workbench.runner import Experiment
from workbench.runs.judgement import Judgement
from workbench.runs.row import PREFILL_DECODE, Row
from workbench.runs.samples import Samples

WARM_UP_TOKENS = 16
WARM_UP_NEW_TOKENS = 17
OF_DISTURBED = "of rows beside which others computed"


def sweep(
    settings: SweepSettings,
    load: Load,
    window: TimedWindow,
    earlier: Earlier | None = None,
    timer: OperationTimer | None = None,
) -> Experiment:
    """The experiment that sweeps `settings` on what `load` makes ready, inside `window`.

    With what `earlier` sittings left of a run, only its missing points are measured.
    It raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def stopped(planned: Plan, rows: list[Row]) -> str:
        return f"stopped after {len(rows)} of {len(planned.settings.prompts)} prompt lengths"

    planned = partial(plan, settings)
    return measured_run(PREFILL_DECODE, planned, load, window, _measure, figures, stopped, earlier, timer)


def _request(sweep: MeasuredRun[Plan], prompt_tokens: int, new_tokens: int, seed: int) -> RequestTiming:
    """One timed request on tokens of its own."""
    sweep.cancel.check()
    return sweep.timed(
        lambda: sweep.loaded.request(new_tokens, sweep.cancel),
        lambda timing: Samples((timing.ttft_s,), (timing.tpot_s,)),
        lambda: sweep.loaded.prepare(prompt_tokens, seed),
    )


def _measure(sweep: MeasuredRun[Plan]) -> Iterator[Event]:
    settings = sweep.planned.settings
    points = len(settings.prompts)
    yield Progress("reading the box's rates", points=points)
    rates = sweep.read(sweep.loaded.box_rates)
    before = rates.read
    sweep.cancel.check()
    yield Predicted(
        floors=tuple(_floor(sweep, n, rates) for n in settings.prompts),
        read_rate=rates.read,
        product_rate=rates.product,
        resident_bytes=sweep.planned.need.total,
    )
    yield Progress("warming up", points=points)
    warm_up = min(WARM_UP_TOKENS, max(settings.prompts)), min(WARM_UP_NEW_TOKENS, settings.new_tokens)
    with suppress(PointError):
        _request(sweep, *warm_up, seed=0)
    rule = settings.rule
    missing = zip(settings.prompts, sweep.missing, strict=True)
    floors_s = [_expected_s(sweep, n, rates) if lacking else 0.0 for n, lacking in missing]
    pace = Pace(floors_s, partial(rule.expected, _Taken().series), rule.most_in)
    for i, n in compress(enumerate(settings.prompts), sweep.missing):
        sweep.begin_point()
        taken, failure = _Taken(), ""
        while not rule.enough(taken.series, sweep.spent_s):
            repeat, expected = taken.repeats + 1, rule.expected(taken.series, pace.pass_s(i))
            left_s = pace.left_s(i, max(0, expected - taken.repeats))
            yield Progress("measuring", i + 1, points, repeat, max(repeat, expected), n, left_s)
            asked = sweep.spent_s
            try:
                taken.timings.append(_request(sweep, n, settings.new_tokens, seed=(i + 1) * 1000 + len(taken.timings)))
            except PointError as error:
                failure = str(error)
                break
            pace.took(i, sweep.spent_s - asked)
        if not failure:
            pace.done(taken.repeats)
        after = sweep.read(sweep.loaded.read_again)
        row = _row(sweep, n, taken, Around(before, after, rates.product))
        before = after
        if failure:
            yield PointFailed(replace(row, status=f"failed: {failure}"), taken.samples, failure)
        else:
            yield RowMeasured(judged(row, taken.samples, rule.precision), taken.samples)


def _expected_s(sweep: MeasuredRun[Plan], n: int, rates: BoxRates) -> float:
    """Seconds of one request of a prompt length: as predicted from timed operations, else its least."""
    settings = sweep.planned.settings
    ttft, step = sweep.predictions.ttft(n), sweep.predictions.step(n)
    if ttft is not None and step is not None and settings.layers is None:
        return ttft.value + step.value * (settings.new_tokens - 1)
    return request_seconds(settings, sweep.planned.resident, n, rates.read, rates.product)


@dataclass
class _Taken:
    """The requests of one point so far; the first may have been its warm-up."""

    timings: list[RequestTiming] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """How many requests came before those that count."""
        return warm_ups([(x.ttft_s, x.ttft_s + x.decode_s) for x in self.timings])

    @property
    def samples(self) -> Samples:
        """TTFT and TPOT of each request, of those dropped apart."""
        ttft, tpot = tuple(x.ttft_s for x in self.timings), tuple(x.tpot_s for x in self.timings)
        k = self.dropped
        return Samples(ttft[k:], tpot[k:], ttft[:k], tpot[:k])

    @property
    def series(self) -> tuple[Sequence[float], ...]:
        """The samples of each figure that has to be precise."""
        return self.samples.ttft_s, self.samples.tpot_s

    @property
    def repeats(self) -> int:
        """How many requests count."""
        return len(self.timings) - self.dropped


def _floor(sweep: MeasuredRun[Plan], n: int, rates: BoxRates) -> PointFloor:
    model, settings = sweep.planned.resident, sweep.planned.settings
    t, element_bytes = middle_context(n, settings.new_tokens), settings.element_bytes
    return PointFloor(
        prompt_tokens=n,
        ttft=prefill.seconds(model, n, rates.read, rates.product),
        tpot=decode.step_seconds(model, t, element_bytes, rates.read, rates.product),
        predicted_ttft=sweep.predictions.ttft(n),
        predicted_step=sweep.predictions.step(n),
    )


def _row(sweep: MeasuredRun[Plan], n: int, taken: _Taken, rates: Around) -> Row:
    settings, model = sweep.planned.settings, sweep.planned.resident
    t = middle_context(n, settings.new_tokens)
    F = int(prefill.flop(model, n).value)
    row = point_row(
        sweep,
        rates,
        prompt_tokens=n,
        context_tokens=t,
        batch=1,
        new_tokens=settings.new_tokens,
        repeats=taken.repeats,
        dropped=taken.dropped,
        bytes_per_step=int(decode.bytes_per_step(model, t, settings.element_bytes).value),
        bound_by=prefill.binding_clock(model, n, rates.read.value, rates.product.value),
        ttft_floor_ms=prefill.seconds(model, n, rates.read, rates.product).value * 1e3,
        prefill_flop=F,
        prefill_parameters=prefill.multiplied_parameters(model),
        head_flop=2 * model.head_parameters,
        attention_flop=prefill.attention_flop(model, n),
        weight_bytes=int(decode.weights_read(model).value),
        cache_bytes=kv_cache.cache_bytes(model, t, settings.element_bytes),
        predicted_resident_bytes=sweep.planned.need.total,
        **sweep.predictions.columns(n),
    )
    if not taken.timings:
        return under_ceiling(row, sweep)
    ttfts, tpots = taken.series
    tpot = min(tpots)
    row = replace(
        with_prefills(row, ttfts),
        tpot_ms=tpot * 1e3,
        tpot_median_ms=median(tpots) * 1e3,
        decode_tokens_per_s=1 / tpot,
        total_tokens_per_s=1 / tpot,
    )
    return under_ceiling(with_requests(row, taken.timings[taken.dropped :]), sweep)


def figures(rows: Sequence[Row]) -> tuple[Quantity, ...]:
    """Effective bandwidth, best arithmetic rate and n*, as the rows themselves show them.

    Rows beside which others computed are only taken where there are no other ones, and the figures then say so.
    """
    decoded = [row for row in rows if row.status == "ok" and row.tpot_ms and row.bytes_per_step and row.weight_bytes]
    prefilled = [row for row in rows if row.status == "ok" and row.prefill_gflop_per_s]
    if not decoded or not prefilled:
        return ()
    shortest = min(_undisturbed(decoded), key=lambda row: row.prompt_tokens)
    fastest = max(_undisturbed(prefilled), key=lambda row: row.prefill_gflop_per_s or 0.0)
    assert shortest.bytes_per_step is not None
    assert shortest.tpot_ms is not None
    assert fastest.prefill_gflop_per_s is not None
    assert shortest.weight_bytes is not None
    assert shortest.prefill_parameters is not None
    found = crossover(
        W=shortest.weight_bytes,
        N=shortest.prefill_parameters,
        step_bytes=shortest.bytes_per_step,
        step_seconds=shortest.tpot_ms / 1e3,
        step_prompt=shortest.prompt_tokens,
        flop_per_second=fastest.prefill_gflop_per_s * 1e9,
        flop_prompt=fastest.prompt_tokens,
        compute_bound=fastest.bound_by == Clock.MATHS,
    )
    if Judgement.DISTURBED not in (shortest.judgement, fastest.judgement):
        return found
    return tuple(replace(each, name=f"{each.name}, {OF_DISTURBED}") for each in found)


def _undisturbed(rows: Sequence[Row]) -> Sequence[Row]:
    """Those beside which nothing else computed, all where there are none."""
    return [row for row in rows if row.judgement != Judgement.DISTURBED] or rows


def crossover(
    *,
    W: int,
    N: int,
    step_bytes: int,
    step_seconds: float,
    step_prompt: int,
    flop_per_second: float,
    flop_prompt: int,
    compute_bound: bool,
) -> tuple[Quantity, ...]:
    """B from a decode step, C from the best prefill, and n* = W·C / (2·N·B) from both.

    n* is left out where that prefill was not bound by its arithmetic: its rate is then no limit yet.
    """
    B = Quantity(
        "bandwidth the decode steps show",
        step_bytes / step_seconds,
        Unit.BYTES_PER_SECOND,
        Origin.MEASURED,
        "B effective",
        "(W + k·t) / TPOT",
        (
            Quantity("bytes of the step", step_bytes, Unit.BYTES, Origin.ARITHMETIC, "W + k·t"),
            Quantity("best decode step", step_seconds, Unit.SECONDS, Origin.MEASURED, "TPOT"),
        ),
        f"the decode steps after a prompt of {step_prompt:,}",
    )
    C = Quantity(
        "arithmetic rate the best prefill shows",
        flop_per_second,
        Unit.FLOP_PER_SECOND,
        Origin.MEASURED,
        "C best",
        source=f"the prefill of {flop_prompt:,} tokens",
    )
    weights = Quantity("weights read", W, Unit.BYTES, Origin.ARITHMETIC, "W")
    multiplied = Quantity(
        "parameters each prompt token is multiplied by, without the head", N, Unit.PARAMETERS, Origin.ARITHMETIC, "N"
    )
    crossing = prefill.crossover_tokens(weights, multiplied, B, C)
    return (B, C, crossing) if compute_bound else (B, C)
