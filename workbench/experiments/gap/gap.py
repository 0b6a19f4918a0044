"""Taking a pass apart: interleaved rounds of the pass whole, without its parts, and each part alone."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from workbench.ceilings import decode, kv_cache, prefill
from workbench.ceilings.batch import limit
from workbench.ceilings.split import slow_share
from workbench.engines.engine import BoxRates, PointError
from workbench.experiments.events import (
    Event,
    LadderMeasured,
    PointFailed,
    PointFloor,
    Predicted,
    Progress,
    RowMeasured,
)
from workbench.experiments.gap.floors import SlowMemory, Work, decode_work, prefill_work
from workbench.experiments.gap.gap_plan import LEAST_ROUNDS, GapPlan, pass_seconds, plan_gap
from workbench.experiments.gap.ladder import Rates, Round, ladder
from workbench.experiments.gap.parts import Dissection, Part, Sample
from workbench.experiments.gap.trying import find_fastest, try_levers
from workbench.experiments.gap.variant import Variant
from workbench.experiments.gap.verdict import with_verdict
from workbench.experiments.gap.winner import save_winner
from workbench.experiments.measured_run import Around, Load, MeasuredRun, measured_run, point_row
from workbench.experiments.settings import GapSettings
from workbench.experiments.timed_columns import with_prefills, with_steps
from workbench.experiments.window import TimedWindow
from workbench.hardware.device import Device
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.model import DTYPE_BYTES, ModelKind
from workbench.quantity import Origin, Quantity, Unit
from workbench.runner import Experiment
from workbench.runs.basis import Basis, on_basis
from workbench.runs.ladder import DECODE, PREFILL, Fastest, Ladder
from workbench.runs.measured_device import calibrated_product, device_named
from workbench.runs.row import GAP, Row
from workbench.runs.samples import Samples
from workbench.tracks import load_tracks, track_named

SEED = 7
MOST_ROUNDS = 60
LONG_S = 0.5
"""A pass is long from so many seconds on."""
NEGLIGIBLE = 0.01
"""Parts of a long pass that take less of it, run alone, are not left out of it."""
TOGETHER = 3
"""So many parts are left out between one whole long pass and the next."""
PEAK_ROWS = 1024
UNEVEN = 1.5
"""How many times the median the slowest whole pass may take before it is told."""
CHANGED = "the pass gives other logits than before it was taken apart: this ladder can't be trusted"


def gap(settings: GapSettings, load: Load, window: TimedWindow, known: Ladder | None = None) -> Experiment:
    """The experiment that takes a pass of `settings` apart on what `load` makes ready, inside `window`.

    With a ladder of that pass that is `known`, it is not taken apart again: only what is asked for is tried on it.
    It raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def stopped(_planned: GapPlan, rows: list[Row]) -> str:
        return "" if rows or known is not None else "stopped before the ladder was complete"

    def measure(sweep: MeasuredRun[GapPlan]) -> Iterator[Event]:
        if known is None:
            yield from _measure(sweep)
        else:
            yield LadderMeasured(sweep.run.run_id, known)
            yield from _acted_on(sweep, known)

    return measured_run(GAP, lambda: plan_gap(settings), load, window, measure, lambda _: (), stopped)


def work_of(planned: GapPlan) -> dict[Part, Work]:
    """What each part of the planned pass must read and do."""
    settings, model = planned.settings, planned.resident
    if settings.prefill:
        return dict(prefill_work(model, settings.context, settings.batch, settings.dtype))
    return dict(decode_work(model, settings.context + 1, settings.batch, settings.dtype))


def _measure(sweep: MeasuredRun[GapPlan]) -> Iterator[Event]:
    planned, settings = sweep.planned, sweep.planned.settings
    yield Progress("reading the box's rates", points=1)
    rates = sweep.read(sweep.loaded.box_rates)
    sweep.cancel.check()
    yield Predicted(
        floors=(_floor(planned, rates),),
        read_rate=rates.read,
        product_rate=rates.product,
        resident_bytes=planned.need.total,
    )
    yield Progress("recording the pass", points=1, prompt_tokens=settings.context, batch=settings.batch)
    sweep.begin_point()
    rounds: list[Round] = []
    try:
        dissection = sweep.loaded.dissect(
            settings.context, settings.batch, SEED, prefill=settings.prefill, cancel=sweep.cancel
        )
        yield from _rounds(sweep, dissection, rates, rounds)
    except PointError as error:
        row = _row(sweep, (), Around(rates.read, rates.read, rates.product))
        yield PointFailed(replace(row, status=f"failed: {error}"), Samples(), str(error))
        return
    after = sweep.read(sweep.loaded.box_rates)
    notes = () if dissection.full.unchanged() else (CHANGED,)
    found = _ladder(sweep, rounds, (rates, after), (*notes, *_notes(dissection)))
    wholes = [sample.wall_s for each in rounds for sample in each.wholes]
    row = _row(sweep, wholes, Around(rates.read, after.read, after.product))
    samples = Samples(ttft_s=tuple(wholes)) if settings.prefill else Samples(tpot_s=tuple(wholes))
    yield LadderMeasured(sweep.run.run_id, found)
    yield RowMeasured(row, samples)
    # What was recorded of the pass is memory that a variant may need.
    del dissection
    yield from _acted_on(sweep, found)


def _acted_on(sweep: MeasuredRun[GapPlan], ladder: Ladder) -> Iterator[Event]:
    """What the settings ask to be tried on the ladder's pass."""
    settings = sweep.planned.settings
    try:
        if settings.levers:
            yield from try_levers(sweep, ladder, settings.levers)
        if settings.fastest_within is not None:
            model = sweep.planned.model

            def save(winner: Variant, found: Fastest) -> str:
                return save_winner(settings, model.name, winner, found) if model.kind is ModelKind.PRESET else ""

            yield from find_fastest(sweep, ladder, settings.fastest_within, save)
    except PointError as error:
        yield LadderMeasured(
            sweep.run.run_id, replace(ladder, notes=(*ladder.notes, f"no lever could be tried: {error}"))
        )


def _rounds(
    sweep: MeasuredRun[GapPlan], dissection: Dissection, rates: BoxRates, rounds: list[Round]
) -> Iterator[Event]:
    """Measure rounds until the time is up, LEAST_ROUNDS at least, with the ladder as it stands after each."""
    began, limit_s = time.monotonic(), sweep.planned.settings.seconds
    while len(rounds) < MOST_ROUNDS:
        spent = time.monotonic() - began
        if len(rounds) >= LEAST_ROUNDS and spent * (1 + 1 / len(rounds)) > limit_s:
            break
        left = max(limit_s - spent, (LEAST_ROUNDS - len(rounds)) * spent / len(rounds)) if rounds else None
        yield Progress(
            "measuring",
            1,
            1,
            len(rounds) + 1,
            max(LEAST_ROUNDS, len(rounds) + 1),
            sweep.planned.settings.context,
            left,
            sweep.planned.settings.batch,
        )
        rounds.append(_round(sweep, dissection, list(Part) if len(rounds) % 2 else list(reversed(Part))))
        yield LadderMeasured(sweep.run.run_id, _ladder(sweep, rounds, (rates,), _notes(dissection)))


def _round(sweep: MeasuredRun[GapPlan], dissection: Dissection, order: Sequence[Part]) -> Round:
    """One round: the parts alone, then left out between whole passes that neighbours share; then the rest.

    Of a long pass the one with a clock around its calls is the first of the whole ones: they cost it nothing.
    """
    full, short, narrow = dissection.full, dissection.short, dissection.narrow
    every = tuple(Part)
    alone = {}
    for part in order:
        sweep.cancel.check()
        alone[part] = sweep.timed(lambda part=part: full.alone(part))  # type: ignore[misc]
    sweep.cancel.check()
    in_place = sweep.timed(full.in_place)
    long = in_place is not None and in_place.sample.own_s > LONG_S
    wholes, left_out_s = [in_place.sample if long and in_place else sweep.timed(full.whole)], {}
    for parts in _left_out_together(order, alone, wholes[0]):
        sweep.cancel.check()

        def passes(parts: Sequence[Part] = parts) -> tuple[list[Sample], Sample]:
            return [full.without([part]) for part in parts], full.whole()

        without, after = sweep.timed(passes)
        for part, out in zip(parts, without, strict=True):
            left_out_s[part] = (wholes[-1].own_s + after.own_s) / 2 - out.own_s
        wholes.append(after)
    sweep.cancel.check()
    return Round(
        wholes=tuple(wholes),
        alone=alone,
        left_out_s=left_out_s,
        in_place=in_place,
        empty=sweep.timed(lambda: full.without(every)),
        short_in_place=None if short is None else sweep.timed(short.in_place),
        short_empty=None if short is None else sweep.timed(lambda: short.without(every)),
        narrow_in_place=None if narrow is None else sweep.timed(narrow.in_place),
        B=sweep.read(sweep.loaded.read_again).value,
    )


def _left_out_together(
    order: Sequence[Part], alone: Mapping[Part, Sample], whole: Sample
) -> Iterator[tuple[Part, ...]]:
    """The parts left out between one whole pass and the next: one, or of a long pass several, if they can be told.

    What takes less than NEGLIGIBLE of a long pass when run alone is lost in the noise of the pass without it.
    """
    if whole.own_s <= LONG_S:
        yield from ((part,) for part in order)
        return
    told = [part for part in order if alone[part].own_s >= NEGLIGIBLE * whole.own_s]
    yield from (tuple(told[i : i + TOGETHER]) for i in range(0, len(told), TOGETHER))


def _ladder(
    sweep: MeasuredRun[GapPlan], rounds: Sequence[Round], taken: Sequence[BoxRates], notes: tuple[str, ...]
) -> Ladder:
    planned, settings = sweep.planned, sweep.planned.settings
    found = ladder(
        PREFILL if settings.prefill else DECODE,
        settings.context,
        settings.batch,
        work_of(planned),
        rounds,
        _rates(sweep, rounds, taken),
    )
    return with_verdict(
        replace(found, notes=(*notes, *_uneven(rounds)), run_id=sweep.run.run_id, measured_at=sweep.started_at)
    )


def _uneven(rounds: Sequence[Round]) -> tuple[str, ...]:
    """That the same pass took very different times: the intervals are as wide, and no rung is better known."""
    passes = [sample.wall_s for each in rounds for sample in each.wholes]
    times = max(passes) / median(passes)
    if times <= UNEVEN:
        return ()
    return (
        f"the slowest of {len(passes)} whole passes took {times:.1f} times the median: something else ran beside them, "
        "and the intervals are as wide; measure again on a quieter box",
    )


def _rates(sweep: MeasuredRun[GapPlan], rounds: Sequence[Round], taken: Sequence[BoxRates]) -> Rates:
    """The box at its quietest: what the probe found, or the best of this run where that is more.

    B after the last round counts for the row alone: with it the ladder would jump once it is finished.
    """
    dtype = sweep.planned.settings.dtype
    best = max((each.B for each in rounds), default=0.0)
    reads = [
        _quiet("the best read of this run's rounds", best),
        _quiet("as this run read it when it began", taken[0].read.value),
    ]
    if sweep.calibrated_gb_per_s is not None:
        reads.append(_quiet("the probe's", sweep.calibrated_gb_per_s * 1e9))
    products = [rates.product for rates in taken]
    probed_product = calibrated_product(sweep.loaded.labels.device, dtype, PEAK_ROWS)
    vendor = _vendor(sweep.planned.settings.track)
    return Rates(
        quiet_read=max(reads, key=lambda rate: rate.value),
        quiet_product=max([*products, *filter(None, [probed_product])], key=lambda rate: rate.value),
        product=median(rate.value for rate in products),
        slow=_slow_memory(sweep),
        vendor_read=None if vendor is None else vendor.bandwidth,
        vendor_product=None if vendor is None else vendor.compute_for(dtype),
    )


def _quiet(name: str, bytes_a_second: float) -> Quantity:
    return Quantity(f"B when quiet, {name}", bytes_a_second, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B_quiet")


def _slow_memory(sweep: MeasuredRun[GapPlan]) -> SlowMemory | None:
    """The slower memory a person told of, else the one the engine found weights on."""
    settings = sweep.planned.settings
    if settings.slow_share is None or settings.slow_gb_per_s is None:
        return sweep.loaded.slow_memory()
    told = slow_share(settings.slow_share, settings.slow_gb_per_s)
    return SlowMemory(dict.fromkeys(Part, told.share.value), told.rate, "share and rate as told")


def _vendor(track: str) -> Device | None:
    """The device of the track, with the figures its vendor prints; None for this machine, which has none."""
    found = track_named(track, load_tracks())
    hardware = track if found is None else found.hardware
    return None if hardware == THIS_MACHINE else device_named(hardware)


def _notes(dissection: Dissection) -> tuple[str, ...]:
    if dissection.narrow is not None:
        return ()
    return (
        "a model of this family can't be built at negligible width: the framework is timed two ways instead of three",
    )


def _floor(planned: GapPlan, rates: BoxRates) -> PointFloor:
    settings, seconds = planned.settings, pass_seconds(planned.settings, planned.resident, rates.read, rates.product)
    ttft = (
        seconds if settings.prefill else prefill.seconds(planned.resident, settings.context, rates.read, rates.product)
    )
    return PointFloor(settings.context, ttft, seconds, settings.batch, memory_bytes=planned.need.total)


def _row(sweep: MeasuredRun[GapPlan], seconds: Sequence[float], rates: Around) -> Row:
    planned, settings, model = sweep.planned, sweep.planned.settings, sweep.planned.resident
    b, t = settings.batch, settings.context + (0 if settings.prefill else 1)
    element_bytes = DTYPE_BYTES[settings.dtype]
    W, kt = decode.weights_read(model, b).value, kv_cache.cache_bytes(model, t, element_bytes, b)
    F = decode.step_flop(model, t, b).value
    about: dict[str, object] = {}
    if settings.prefill:
        about["bound_by"] = prefill.binding_clock(model, settings.context, rates.read.value, rates.product.value)
        about["prefill_flop"] = int(prefill.flop(model, settings.context, b).value)
    else:
        about["bound_by"] = limit(W, kt, F, rates.read.value, rates.product.value)
        about["bytes_per_step"] = int(W + kt)
    row = point_row(
        sweep,
        rates,
        prompt_tokens=settings.context,
        context_tokens=t,
        batch=b,
        new_tokens=1,
        repeats=len(seconds),
        weight_bytes=int(W),
        cache_bytes=kt,
        predicted_resident_bytes=planned.need.total,
        **about,
    )
    if seconds:
        row = with_prefills(row, seconds) if settings.prefill else with_steps(row, seconds)
    return on_basis(row, Basis.MINUTE)
