"""What every experiment on a loaded model shares: its frame, timed windows, the rates around a point, and labels."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from workbench.ceilings.kv_cache import cache_bytes
from workbench.engines.engine import EngineLabels, LoadedModel, PointError
from workbench.experiments.events import Event, Finished, PointFailed, Predicted, Progress, RowMeasured, Started
from workbench.experiments.foretelling import NONE_MADE, Predictions, foretell
from workbench.experiments.operation_timer import OperationTimer, timer_of
from workbench.experiments.plan import LoadPlan, check_before_loading
from workbench.experiments.sittings import (
    Earlier,
    about_model,
    check_same_labels,
    check_same_model,
    missing,
    next_sitting,
)
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.hardware.heap import give_back_heap
from workbench.hardware.load import LoadReading, load_between, read_load
from workbench.hardware.machine import THIS_MACHINE, peak_resident_bytes, reset_peak, resident_bytes, this_machine
from workbench.models.slices import larger_slice
from workbench.quantity import Quantity
from workbench.runner import Cancelled, CancelToken, Experiment
from workbench.runs.basis import Basis, on_basis
from workbench.runs.measured_device import calibrated_read, device_named
from workbench.runs.row import COLUMN, Row
from workbench.runs.run import Run, RunStatus, new_run_id, now
from workbench.runs.samples import Discarded, Samples
from workbench.runs.store import Store
from workbench.tracks import load_tracks, track_named

Load = Callable[[LoadPlan, CancelToken], LoadedModel]
Measured = TypeVar("Measured")
Planned = TypeVar("Planned", bound=LoadPlan)
OF_MODEL = (
    "bytes_per_step",
    "weight_bytes",
    "cache_bytes",
    "step_flop",
    "prefill_flop",
    "prefill_gflop_per_s",
    "prefill_parameters",
    "head_flop",
    "attention_flop",
    "bound_by",
    "ttft_floor_ms",
    "experts_expected",
    "memory_needed_bytes",
)
"""Columns that are arithmetic on the model."""
OF_RATES = ("bound_by", "ttft_floor_ms", "few_rows_gflop_per_s")
"""Columns that rest on the rates of the box too."""
MOST_SUSPENDED = 5
"""Whoever stops the process so often while one thing is timed does not want it measured."""


def _no_samples(_: object) -> Samples:
    return Samples()


def _nothing() -> None:
    pass


@dataclass
class MeasuredRun(Generic[Planned]):
    """What every point of one running experiment shares; B of the probe and the vendor in GB/s, None where unknown."""

    planned: Planned
    run: Run
    loaded: LoadedModel
    window: TimedWindow
    cancel: CancelToken
    calibrated_gb_per_s: float | None = None
    vendor_gb_per_s: float | None = None
    earlier: tuple[Row, ...] = ()
    predictions: Predictions = NONE_MADE
    disturbance: Disturbance = field(default_factory=Disturbance)
    discarded: list[Discarded] = field(default_factory=list)
    started_at: str = ""
    began_s: float = 0.0
    load_before: LoadReading = field(default_factory=read_load)
    highest_mhz: float = 0.0

    def begin_point(self) -> None:
        """From now on what runs beside the measurement is counted for the next point."""
        self.disturbance = Disturbance()
        self.discarded = []
        self.began_s = time.monotonic()
        reset_peak()
        self.started_at = now()
        self.load_before = read_load()

    @property
    def missing(self) -> tuple[bool, ...]:
        """Of each point of the run, whether no earlier sitting has measured it."""
        return missing(self.run.points, self.earlier)

    @property
    def spent_s(self) -> float:
        """Seconds that the point has taken so far, without what was discarded of it."""
        return time.monotonic() - self.began_s - sum(each.seconds for each in self.discarded)

    def read(self, measure: Callable[[], Measured]) -> Measured:
        """Rates of the box, measured while nothing else of ours runs; as with `timed`, but nothing is recorded."""
        return self._undisturbed(measure, lambda _value, _beside: None, _nothing)[0]

    def timed(
        self,
        measure: Callable[[], Measured],
        samples: Callable[[Measured], Samples] = _no_samples,
        prepare: Callable[[], None] = _nothing,
    ) -> Measured:
        """Part of a point, timed once it is prepared, while nothing else of ours runs; what did is recorded.

        Where the process stood still meanwhile, what was found is discarded, kept as the `samples` it would have been,
        and measured again. Raises PointError where that happens MOST_SUSPENDED times.
        """
        return self.timed_beside(measure, samples, prepare)[0]

    def timed_beside(
        self,
        measure: Callable[[], Measured],
        samples: Callable[[Measured], Samples] = _no_samples,
        prepare: Callable[[], None] = _nothing,
    ) -> tuple[Measured, Disturbance]:
        """The same, with what else ran while this was timed."""

        def discard(value: Measured, beside: Disturbance) -> None:
            found = samples(value)
            self.discarded.append(Discarded(beside.suspended, beside.open_s, found.ttft_s, found.tpot_s))

        value, beside = self._undisturbed(measure, discard, prepare)
        self.disturbance = self.disturbance + beside
        return value, beside

    def _undisturbed(
        self,
        measure: Callable[[], Measured],
        discard: Callable[[Measured, Disturbance], None],
        prepare: Callable[[], None],
    ) -> tuple[Measured, Disturbance]:
        beside = Disturbance()
        for _ in range(MOST_SUSPENDED):
            recorded: list[Disturbance] = []
            prepare()
            with self.window.timed(recorded.append):
                value = measure()
            (beside,) = recorded
            if not beside.suspended:
                return value, beside
            discard(value, beside)
            self.cancel.check()
        raise PointError(f"{beside.suspended}; {MOST_SUSPENDED} times while one thing was timed")


@dataclass(frozen=True)
class Around:
    """The box's rates around one point: B before and after it, and C."""

    before: Quantity
    after: Quantity
    product: Quantity

    @property
    def read(self) -> Quantity:
        """B: the better of the two, since other load can only lower it."""
        return max(self.before, self.after, key=lambda rate: rate.value)


def measured_run(
    kind: str,
    plan: Callable[[], Planned],
    load: Load,
    window: TimedWindow,
    measure: Callable[[MeasuredRun[Planned]], Iterator[Event]],
    figures: Callable[[Sequence[Row]], tuple[Quantity, ...]],
    stopped: Callable[[Planned, list[Row]], str],
    earlier: Earlier | None = None,
    timer: OperationTimer | None = None,
) -> Experiment:
    """An experiment on what `load` makes ready of a plan: `measure` yields its points, the rest of it is done here.

    At the end come the `figures` of all rows, failed ones among them, and `stopped` in words where it was cancelled.
    With what `earlier` sittings left of a run, that run is gone on with. What a `timer`, that of
    `load` where none is given, finds of the operations predicts every point before the model is loaded.
    Raises SettingsError, ModelError and MemoryRefused before it starts.
    """

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        planned = plan()
        check_before_loading(planned)
        run = _begun(kind, planned) if earlier is None else next_sitting(earlier.run)
        if earlier is not None:
            check_same_model(run, planned.model)
        yield Started(run)
        rows = [] if earlier is None else list(earlier.rows)
        loaded: LoadedModel | None = None
        status, note, memory = RunStatus.FINISHED, "", ""
        try:
            predictions = NONE_MADE
            if (asked := timer or timer_of(load, planned.settings)) is not None:
                predictions = yield from foretell(
                    planned, run.run_id, asked, Store, window, cancel, then_s=planned.seconds
                )
            yield Progress(planned.loading_words)
            loaded = load(planned, cancel)
            window.engine_process = loaded.labels.host.process
            cancel.check()
            if earlier is not None:
                check_same_labels(earlier, loaded.labels)
            bases = _other_bases(planned.settings.track)
            measured = MeasuredRun(planned, run, loaded, window, cancel, *bases, tuple(rows), predictions)
            for event in measure(measured):
                if isinstance(event, Predicted) and not _is_arithmetic_known(measured):
                    continue
                if isinstance(event, RowMeasured | PointFailed):
                    samples = replace(event.samples, discarded=tuple(measured.discarded))
                    event = replace(event, samples=samples)
                    rows.append(event.row)
                yield event
        except Cancelled:
            status, note = RunStatus.INTERRUPTED, stopped(planned, rows)
        finally:
            window.engine_process = None
            if loaded is not None:
                memory = _freed(loaded)
        yield Finished(run, status, figures(rows), note, memory)

    return experiment


def _freed(loaded: LoadedModel) -> str:
    """Free a model; what the process held before and holds after it, in words."""
    before = resident_bytes()
    loaded.close()
    give_back_heap()
    return f"held {before / 1e9:.1f} GB, {resident_bytes() / 1e9:.1f} once freed"


def _begun(kind: str, planned: LoadPlan) -> Run:
    return Run(
        new_run_id(),
        kind,
        now(),
        planned.model.name,
        str(this_machine()),
        planned.settings.plain(),
        about_model=about_model(planned.model),
    )


def _other_bases(track: str) -> tuple[float | None, float | None]:
    """B of this machine's last probe, and of the track's device where that is another: in GB/s, None where unknown."""
    read = calibrated_read()
    calibrated = None if read is None else read.value / 1e9
    found = track_named(track, load_tracks())
    if found is None or found.hardware == THIS_MACHINE:
        return calibrated, None
    return calibrated, device_named(found.hardware).bandwidth.value / 1e9


def point_row(measured: MeasuredRun[Any], rates: Around, **about: Any) -> Row:
    """A row with its labels, what ran beside it and the rates around it; `about` are the columns of its own."""
    planned, labels = measured.planned, measured.loaded.labels
    host = labels.host
    beside = load_between(measured.load_before, read_load())
    mhz = beside.frequency_mhz
    measured.highest_mhz = max(measured.highest_mhz, measured.load_before.frequency_mhz or 0.0, mhz or 0.0)
    return Row(
        run_id=measured.run.run_id,
        sitting=measured.run.sitting,
        started_at=measured.started_at,
        kind=measured.run.kind,
        machine=host.machine or measured.run.machine,
        track=planned.settings.track,
        engine=labels.engine,
        engine_version=labels.engine_version,
        model=labels.model or planned.resident.name,
        architecture=planned.resident.architecture,
        quantisation=labels.quantisation,
        dtype=labels.dtype,
        device=labels.device,
        threads=labels.threads,
        weights=planned.weights,
        ui_share=measured.disturbance.ui_share,
        other_load=measured.disturbance.other_load if host.is_here else None,
        stolen_share=beside.stolen_share,
        swapped_bytes=beside.swapped_bytes,
        clock_share=mhz and mhz / measured.highest_mhz,
        **_rates(measured, rates),
        resident_bytes=peak_resident_bytes(host.process) if host.is_here else None,
        discarded=len(measured.discarded),
        flags="; ".join(filter(None, (_extrapolated(labels), discarded_words(measured.discarded)))),
        extrapolated_from=labels.extrapolated or None,
        whole_resident_bytes=_whole_resident_bytes(
            planned, about["prompt_tokens"] + about["new_tokens"], about["batch"]
        ),
        **about,
    )


def _whole_resident_bytes(planned: LoadPlan, t: int, b: int) -> int | None:
    """The peak of a slice's point and the weights and b caches of t tokens of the layers it lacks; None of no slice."""
    peak, settings, whole = peak_resident_bytes(), planned.settings, planned.resident
    if settings.layers is None or peak is None:
        return None
    slice_, size = larger_slice(whole, settings.layers), settings.element_bytes
    caches = cache_bytes(whole, t, size, b) - cache_bytes(slice_, t, size, b)
    return peak + whole.resident_bytes - slice_.resident_bytes + caches


def _rates(measured: MeasuredRun[Any], rates: Around) -> dict[str, Any]:
    """The columns of the box's rates: those of this minute only where they were measured in it."""
    basis, read = measured.loaded.labels.host.basis, rates.read.value / 1e9
    columns: dict[str, Any] = {
        "calibrated_gb_per_s": measured.calibrated_gb_per_s,
        "vendor_gb_per_s": measured.vendor_gb_per_s,
        "peak_gflop_per_s": None if basis is None else rates.product.value / 1e9,
    }
    if basis is Basis.MINUTE:
        before, after = rates.before.value / 1e9, rates.after.value / 1e9
        return columns | {"read_gb_per_s": read, "read_before_gb_per_s": before, "read_after_gb_per_s": after}
    return columns | {
        "calibrated_gb_per_s": read if basis is Basis.CALIBRATION else None,
        "vendor_gb_per_s": read if basis is Basis.VENDOR else None,
    }


def _is_arithmetic_known(measured: MeasuredRun[Any]) -> bool:
    """Whether it is known which model runs, and on what: the floors of a stand-in are nobody's."""
    return measured.planned.settings.is_told and measured.loaded.labels.host.basis is not None


def under_ceiling(row: Row, measured: MeasuredRun[Any], batch_is_known: bool = True) -> Row:
    """The row with its ceiling on what the engine's rates rest on; without arithmetic where model or rates are unknown.

    Behind a server of which nobody says what it runs, or on what, no figure is made up.
    """
    host = measured.loaded.labels.host
    unknown: dict[str, Any] = {}
    if not (measured.planned.settings.is_told and batch_is_known):
        unknown |= dict.fromkeys(OF_MODEL) | {"ceiling_basis": "not known: which model, or how many sequences"}
    elif host.basis is None:
        unknown |= {"ceiling_basis": "not known: the bandwidth of what it runs on"}
    if host.basis is None or not batch_is_known:
        unknown |= dict.fromkeys(OF_RATES)
    if not host.is_here:
        unknown |= dict.fromkeys(name for name in COLUMN if name.startswith("predicted_"))
    row = replace(row, **unknown)
    return row if host.basis is None or row.bytes_per_step is None else on_basis(row, host.basis)


def _extrapolated(labels: EngineLabels) -> str:
    return f"extrapolated from {labels.extrapolated}" if labels.extrapolated else ""


def discarded_words(discarded: Sequence[Discarded]) -> str:
    """What was measured again and why, each reason once; empty where nothing was."""
    if not discarded:
        return ""
    reasons = "; ".join(dict.fromkeys(each.reason for each in discarded))
    return f"discarded and measured again {'once' if len(discarded) == 1 else f'{len(discarded)} times'}: {reasons}"
