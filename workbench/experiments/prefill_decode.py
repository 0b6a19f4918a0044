"""The prefill/decode sweep: one request in its two phases, timed apart, over prompt lengths."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

from workbench.ceilings import decode, kv_cache, prefill
from workbench.ceilings.prefill import Clock
from workbench.engines.engine import BoxRates, LoadedModel, PointError, RequestTiming
from workbench.experiments.events import (
    Event,
    Finished,
    PointFailed,
    PointFloor,
    Predicted,
    Progress,
    RowMeasured,
    Started,
)
from workbench.experiments.plan import Plan, check_before_loading, middle_context, plan, point_seconds
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.hardware.machine import THIS_MACHINE, peak_resident_bytes, reset_peak, this_machine
from workbench.models.model import DTYPE_BYTES, Model
from workbench.quantity import Origin, Quantity, Unit
from workbench.runner import Cancelled, CancelToken, Experiment
from workbench.runs.basis import Basis, on_basis
from workbench.runs.measured_device import calibrated_read, device_named
from workbench.runs.row import Row, Samples
from workbench.runs.run import Run, RunStatus, new_run_id, now
from workbench.tracks import load_tracks, track_named

KIND = "prefill_decode"
WARM_UP_TOKENS = 16
WARM_UP_NEW_TOKENS = 17
DISTURBED_SHARE = 0.01
BUSY_SHARE = 0.10

Load = Callable[[Plan, CancelToken], LoadedModel]
Read = TypeVar("Read")


def sweep(settings: SweepSettings, load: Load, window: TimedWindow) -> Experiment:
    """The experiment that sweeps `settings` on what `load` makes ready, inside `window`.

    It raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        planned = plan(settings)
        check_before_loading(planned)
        run = Run(new_run_id(), KIND, now(), planned.model.name, str(this_machine()), settings.plain())
        yield Started(run)
        rows: list[Row] = []
        loaded: LoadedModel | None = None
        try:
            yield Progress(f"loading {planned.model.name} in {settings.dtype}")
            loaded = load(planned, cancel)
            cancel.check()
            yield from _measure(_Sweep(planned, run, loaded, window, cancel, *_other_bases(settings)), rows)
        except Cancelled:
            note = f"stopped after {len(rows)} of {len(settings.prompts)} prompt lengths"
            yield Finished(run, RunStatus.INTERRUPTED, _figures(planned.resident, rows), note)
        else:
            yield Finished(run, RunStatus.FINISHED, _figures(planned.resident, rows))
        finally:
            if loaded is not None:
                loaded.close()

    return experiment


@dataclass
class _Sweep:
    """What every point of one running sweep shares."""

    planned: Plan
    run: Run
    loaded: LoadedModel
    window: TimedWindow
    cancel: CancelToken
    calibrated_gb_per_s: float | None = None
    vendor_gb_per_s: float | None = None
    disturbance: Disturbance = field(default_factory=Disturbance)

    def record(self, more: Disturbance) -> None:
        self.disturbance = self.disturbance + more

    def read(self, measure: Callable[[], Read]) -> Read:
        """Rates of the box, measured while nothing else of ours runs."""
        with self.window.timed(lambda _: None):
            return measure()

    def request(self, prompt_tokens: int, new_tokens: int, seed: int) -> RequestTiming:
        """One timed request on tokens of its own."""
        self.cancel.check()
        self.loaded.prepare(prompt_tokens, seed)
        with self.window.timed(self.record):
            return self.loaded.request(new_tokens, self.cancel)


@dataclass(frozen=True)
class _Around:
    """The box's rates around one point: B before and after it, and C."""

    before: Quantity
    after: Quantity
    product: Quantity

    @property
    def read(self) -> Quantity:
        """B: the better of the two, since other load can only lower it."""
        return max(self.before, self.after, key=lambda rate: rate.value)


def _measure(sweep: _Sweep, rows: list[Row]) -> Iterator[Event]:
    settings, model = sweep.planned.settings, sweep.planned.resident
    points = len(settings.prompts)
    yield Progress("reading the box's rates", points=points)
    rates = sweep.read(sweep.loaded.box_rates)
    before = rates.read
    sweep.cancel.check()
    yield Predicted(
        floors=tuple(_floor(model, settings, n, rates) for n in settings.prompts),
        read_rate=rates.read,
        product_rate=rates.product,
        resident_bytes=sweep.planned.need.total,
    )
    yield Progress("warming up", points=points)
    with suppress(PointError):
        sweep.request(min(WARM_UP_TOKENS, max(settings.prompts)), min(WARM_UP_NEW_TOKENS, settings.new_tokens), seed=0)
    floor_seconds = [point_seconds(settings, model, n, rates.read, rates.product) for n in settings.prompts]
    slowdown, measured_s, measured_floor_s = 1.0, 0.0, 0.0
    for i, n in enumerate(settings.prompts):
        sweep.disturbance = Disturbance()
        reset_peak()
        started_at = now()
        timings: list[RequestTiming] = []
        failure = ""
        for repeat in range(settings.repeats):
            left_s = slowdown * (sum(floor_seconds[i:]) - floor_seconds[i] * repeat / settings.repeats)
            yield Progress("measuring", i + 1, points, repeat + 1, settings.repeats, n, left_s)
            begun = time.monotonic()
            try:
                timings.append(sweep.request(n, settings.new_tokens, seed=(i + 1) * 1000 + repeat))
            except PointError as error:
                failure = str(error)
                break
            measured_s += time.monotonic() - begun
            measured_floor_s += floor_seconds[i] / settings.repeats
            slowdown = measured_s / measured_floor_s
        after = sweep.read(sweep.loaded.read_again)
        around = _Around(before, after, rates.product)
        before = after
        row = _row(sweep, n, started_at, timings, around)
        samples = Samples(tuple(x.ttft_s for x in timings), tuple(x.tpot_s for x in timings))
        if failure:
            yield PointFailed(replace(row, status=f"failed: {failure}"), samples, failure)
        else:
            rows.append(row)
            yield RowMeasured(row, samples)


def _other_bases(settings: SweepSettings) -> tuple[float | None, float | None]:
    """B of this machine's last probe, and of the track's device where that is another: in GB/s, None where unknown."""
    read = calibrated_read()
    calibrated = None if read is None else read.value / 1e9
    found = track_named(settings.track, load_tracks())
    if found is None or found.hardware == THIS_MACHINE:
        return calibrated, None
    return calibrated, device_named(found.hardware).bandwidth.value / 1e9


def _floor(model: Model, settings: SweepSettings, n: int, rates: BoxRates) -> PointFloor:
    t, element_bytes = middle_context(n, settings.new_tokens), DTYPE_BYTES[settings.dtype]
    return PointFloor(
        prompt_tokens=n,
        ttft=prefill.seconds(model, n, rates.read, rates.product),
        tpot=decode.step_seconds(model, t, element_bytes, rates.read, rates.product),
    )


def _row(sweep: _Sweep, n: int, started_at: str, timings: list[RequestTiming], rates: _Around) -> Row:
    settings, model, labels = sweep.planned.settings, sweep.planned.resident, sweep.loaded.labels
    floor = _floor(model, settings, n, BoxRates(rates.read, rates.product))
    t = middle_context(n, settings.new_tokens)
    step_bytes = int(decode.bytes_per_step(model, t, DTYPE_BYTES[settings.dtype]).value)
    F = int(prefill.flop(model, n).value)
    row = Row(
        run_id=sweep.run.run_id,
        started_at=started_at,
        kind=KIND,
        machine=sweep.run.machine,
        track=settings.track,
        engine=labels.engine,
        engine_version=labels.engine_version,
        model=model.name,
        architecture=model.architecture,
        quantisation=labels.quantisation,
        dtype=labels.dtype,
        device=labels.device,
        threads=labels.threads,
        weights=sweep.planned.weights,
        prompt_tokens=n,
        context_tokens=t,
        batch=1,
        new_tokens=settings.new_tokens,
        repeats=len(timings),
        bytes_per_step=step_bytes,
        bound_by=prefill.binding_clock(model, n, rates.read.value, rates.product.value),
        ui_share=sweep.disturbance.ui_share,
        other_load=sweep.disturbance.other_load,
        ttft_floor_ms=floor.ttft.value * 1e3,
        prefill_flop=F,
        prefill_parameters=prefill.multiplied_parameters(model),
        head_flop=2 * model.head_parameters,
        attention_flop=prefill.attention_flop(model, n),
        weight_bytes=int(decode.weights_read(model).value),
        cache_bytes=kv_cache.cache_bytes(model, t, DTYPE_BYTES[settings.dtype]),
        read_gb_per_s=rates.read.value / 1e9,
        read_before_gb_per_s=rates.before.value / 1e9,
        read_after_gb_per_s=rates.after.value / 1e9,
        calibrated_gb_per_s=sweep.calibrated_gb_per_s,
        vendor_gb_per_s=sweep.vendor_gb_per_s,
        peak_gflop_per_s=rates.product.value / 1e9,
        resident_bytes=peak_resident_bytes(),
        predicted_resident_bytes=sweep.planned.need.total,
    )
    if not timings:
        return on_basis(row, Basis.MINUTE)
    ttfts, tpots = [x.ttft_s for x in timings], [x.tpot_s for x in timings]
    ttft, tpot = min(ttfts), min(tpots)
    row = replace(
        row,
        ttft_ms=ttft * 1e3,
        ttft_median_ms=median(ttfts) * 1e3,
        prompt_tokens_per_s=n / ttft,
        prefill_gflop_per_s=F / ttft / 1e9,
        tpot_ms=tpot * 1e3,
        tpot_median_ms=median(tpots) * 1e3,
        decode_tokens_per_s=1 / tpot,
        total_tokens_per_s=1 / tpot,
    )
    row = on_basis(row, Basis.MINUTE)
    return replace(row, flags="; ".join(_flags(row)))


def _flags(row: Row) -> Iterator[str]:
    """What a person must know before trusting a row."""
    if row.ceiling_share is not None and row.ceiling_share > 1:
        yield "decode above its ceiling: the read rate was taken in a slower minute, or the weights sit in cache"
    if row.ttft_ms is not None and row.ttft_floor_ms is not None and row.ttft_ms < row.ttft_floor_ms:
        yield "prefill under its floor: the box's rates were taken in a slower minute"
    if row.ui_share is not None and row.ui_share > DISTURBED_SHARE:
        yield f"the screen took {row.ui_share * 100:.1f} % of the timed windows"
    if row.other_load is not None and row.other_load > BUSY_SHARE:
        yield f"other processes took {row.other_load * 100:.0f} % of the cores"


def _figures(model: Model, rows: list[Row]) -> tuple[Quantity, ...]:
    """Effective bandwidth, best arithmetic rate and n*, as the rows themselves show them."""
    decoded = [row for row in rows if row.tpot_ms and row.bytes_per_step]
    if not decoded:
        return ()
    shortest = min(decoded, key=lambda row: row.prompt_tokens)
    fastest = max(decoded, key=lambda row: row.prefill_gflop_per_s or 0.0)
    assert shortest.bytes_per_step is not None
    assert shortest.tpot_ms is not None
    assert fastest.prefill_gflop_per_s is not None
    return crossover(
        W=model.read_bytes_per_token,
        N=prefill.multiplied_parameters(model),
        step_bytes=shortest.bytes_per_step,
        step_seconds=shortest.tpot_ms / 1e3,
        step_prompt=shortest.prompt_tokens,
        flop_per_second=fastest.prefill_gflop_per_s * 1e9,
        flop_prompt=fastest.prompt_tokens,
        compute_bound=fastest.bound_by == Clock.MATHS,
    )


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
