"""Runs without the screen: rows to standard output, progress to standard error, signals that keep the rows."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from workbench.engines.endpoint.key import Key
from workbench.engines.engine import load_engine, load_transformers
from workbench.errors import StoreError, WorkbenchError, first_line
from workbench.experiments.batch import batch_sweep
from workbench.experiments.batch_plan import BatchPlan, plan_batch
from workbench.experiments.engine_settings import ENDPOINT, TRANSFORMERS
from workbench.experiments.events import (
    Event,
    Finished,
    OthersMeasure,
    PointFailed,
    PointsForetold,
    Predicted,
    Progress,
    RowMeasured,
    Started,
)
from workbench.experiments.foretelling import timing_seconds
from workbench.experiments.gap.gap import gap
from workbench.experiments.gap.gap_plan import plan_gap
from workbench.experiments.gap.perturbation import perturbation, reading
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import LoadPlan, Plan, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.probe import ProbeSettings, probe
from workbench.experiments.settings import BatchSettings, GapSettings, SweepSettings
from workbench.experiments.sittings import Earlier, earlier_sittings
from workbench.experiments.suspension import stops_noticed
from workbench.experiments.window import TimedWindow
from workbench.gap_output import GapPrinter
from workbench.hardware.machine import this_machine
from workbench.output import Format, RowTable, note, print_json, write_nowhere
from workbench.paths import log_file
from workbench.predictions.ledger import accuracy, entries, quoted
from workbench.probe_output import ProbePrinter
from workbench.quantity import Origin, explain, format_duration
from workbench.runner import STOP_WAIT_S, Ending, Experiment, Listener, Runner
from workbench.runs.export import csv_text, records
from workbench.runs.row import BATCH, PREFILL_DECODE, Row
from workbench.runs.store import Store

SIGNAL_TAKEN_S = 0.25
"""A wait is ended after so long: it costs a hundred thousandth of a core."""
FAILED_EXIT, INTERRUPTED_EXIT = 1, 130
KEPT = (
    "Stopped; the rows measured so far are kept: `workbench runs show last`. "
    "`workbench runs resume last` measures what is missing."
)


def run_sweeps(settings: Sequence[SweepSettings | BatchSettings], chosen: Format, key: Key | None = None) -> int:
    """Run each sweep in turn, over prompt lengths or batches, and print its rows; returns the exit code.

    `key` is that of an endpoint, where a person has typed one.
    """
    plans = [_plan(one) for one in settings]
    runner = Runner(Store)
    printer = _Printer(chosen)
    code = 0
    for planned in plans:
        code = max(code, _run(planned, runner, printer, key=key))
        if code > FAILED_EXIT:
            break
    printer.end()
    return code


def resume_run(name: str, chosen: Format) -> int:
    """Measure the missing points of a run and print all its rows; returns the exit code."""
    with Store() as store:
        earlier = earlier_sittings(store, name)
    runner = Runner(Store)
    printer = _Printer(chosen)
    code = _run(_plan(earlier.settings), runner, printer, earlier)
    printer.end()
    return code


def run_probe(settings: ProbeSettings, chosen: Format) -> int:
    """Probe the box and print what was found; returns the exit code."""
    printer = ProbePrinter(chosen)
    window = TimedWindow()
    experiment = probe(settings, window)
    code = _drive(experiment, Runner(Store), printer.show, printer.left_behind, printer.kept)
    return code or (0 if printer.calibrated else FAILED_EXIT)


def run_gap(settings: GapSettings, chosen: Format) -> int:
    """Take a pass apart and print its ladder; returns the exit code."""
    planned = plan_gap(settings)
    note(plan_words(planned))
    if planned.longer_words:
        note(planned.longer_words)
    printer = GapPrinter(chosen)
    code = _drive(
        gap(settings, load_transformers, TimedWindow()), Runner(Store), printer.show, printer.left_behind, printer.kept
    )
    return code or (FAILED_EXIT if printer.failure or printer.ladder is None else 0)


def run_perturbation(prompts: SweepSettings, sequences: BatchSettings, chosen: Format) -> int:
    """Vary the prompt, then the sequences; print the rows of both and their reading; returns the exit code.

    JSON holds both, under `rows` and `reading`; the sentences of CSV, whose lines are rows, go to standard error.
    """
    runner = Runner(Store)
    printer = _Printer(chosen)
    for planned in (plan(prompts), plan_batch(sequences)):
        printer.begin(planned)
    experiment = perturbation(prompts, sequences, load_transformers, TimedWindow())
    code = _drive(experiment, runner, printer.show, printer.mark_interrupted, lambda: KEPT)
    sentences = reading(printer.rows)
    match chosen:
        case Format.JSON:
            print_json({"rows": records(printer.rows), "reading": sentences})
        case Format.CSV:
            for sentence in sentences:
                note(sentence.text)
        case _:
            for sentence in sentences:
                print(f"{sentence.varied}: {sentence.text}", flush=True)
    if run_ids := " ".join(dict.fromkeys(row.run_id for row in printer.rows)):
        note(f"`workbench runs explain {run_ids}` says which symptoms these rows show")
    if code:
        return code
    return 0 if printer.measured else FAILED_EXIT


def plan_words(planned: LoadPlan) -> str:
    """What will run, what it needs and about how long it takes; no time of what memory refuses."""
    need, settings = planned.most_needed, planned.settings
    if settings.engine == ENDPOINT:
        which = f"{planned.model.name} behind {settings.endpoint.url}" if settings.is_told else settings.endpoint.url
        return f"{which}; nothing is loaded here."
    held = settings.form if settings.engine == TRANSFORMERS else planned.model.quantisation
    what = (
        f"{planned.model.name}, {planned.weights} weights, {held}: "
        f"{need.total / 1e9:.1f} GB needed of {planned.available / 1e9:.1f} GB free"
    )
    if planned.is_refused:
        return f"{what}."
    timing_s = timing_seconds(planned, Store)
    first = f", {format_duration(timing_s)} of it timing operations first" if timing_s else ""
    return f"{what}; about {format_duration(planned.seconds + timing_s)} if this box is a slow one{first}."


def run_foretelling(experiment: Experiment, show: Listener) -> int:
    """Time operations to predict from, `show` taking in what is found; returns the exit code."""
    return _drive(experiment, Runner(Store), show, lambda: None, lambda: "Stopped; the operations timed are kept.")


def _plan(settings: SweepSettings | BatchSettings) -> Plan | BatchPlan:
    return plan(settings) if isinstance(settings, SweepSettings) else plan_batch(settings)


def _run(
    planned: Plan | BatchPlan,
    runner: Runner,
    printer: "_Printer",
    earlier: Earlier | None = None,
    key: Key | None = None,
) -> int:
    window = TimedWindow()
    printer.begin(planned, () if earlier is None else earlier.rows)

    def left_behind() -> None:
        printer.end()
        printer.mark_interrupted()

    load = load_transformers if planned.settings.engine == TRANSFORMERS else partial(load_engine, key=key)
    experiment = _experiment(planned, load, window, earlier)
    code = _drive(experiment, runner, printer.show, left_behind, lambda: KEPT)
    if code:
        return code
    return 0 if printer.measured else FAILED_EXIT


def _experiment(planned: Plan | BatchPlan, load: Load, window: TimedWindow, earlier: Earlier | None) -> Experiment:
    match planned:
        case Plan():
            return sweep(planned.settings, load, window, earlier)
        case BatchPlan():
            return batch_sweep(planned.settings, load, window, earlier)


def _drive(
    experiment: Experiment, runner: Runner, show: Listener, left_behind: Callable[[], None], kept: Callable[[], str]
) -> int:
    """Drive an experiment to its end or to a signal; returns 0, or the exit code of what went wrong.

    A layer or pass that takes longer than STOP_WAIT_S is left behind after `left_behind` has been called. `kept`
    says what a signal left. Raises WorkbenchError as the experiment does, but for a store that fails it midway.
    """
    woken, ending = threading.Event(), Ending()
    output = _Output(show, runner.cancel)

    def done(error: BaseException | None) -> None:
        ending.tell(error)
        woken.set()

    with _signals(runner, woken) as received:
        runner.start(experiment, output.show, done)
        # Python takes a signal in between two waits at the end of the next.
        while not woken.wait(SIGNAL_TAKEN_S):
            pass
        if not ending.wait(STOP_WAIT_S):
            left_behind()
            note(kept())
            os._exit(128 + received[0])
    return _exit_code(ending.error, output, received, kept)


def _exit_code(error: BaseException | None, output: "_Output", received: Sequence[int], kept: Callable[[], str]) -> int:
    """What a run that ended so exits with, and on standard error why; raises WorkbenchError as `_drive` says."""
    match error:
        case StoreError() if output.begun:
            note(f"workbench: the run was stopped. {error}")
            return FAILED_EXIT
        case WorkbenchError():
            raise error
        case BaseException():
            reason = first_line(error)
            note(f"workbench: the run failed: {reason}. Its rows are kept; the details are in {log_file()}.")
            return FAILED_EXIT
    if received:
        note(kept())
        return 128 + received[0]
    if output.problem:
        note(
            f"workbench: the output could not be written: {output.problem}. The run went on without it, and every row "
            "is kept: `workbench runs export last --output FILE.csv` writes them."
        )
        return FAILED_EXIT
    return INTERRUPTED_EXIT if output.reader_is_gone else 0


class _Output:
    """What is shown of a run: without a reader the run is stopped, on a full disk it goes on, and its rows are kept."""

    def __init__(self, show: Listener, reader_gone: Callable[[], None]) -> None:
        self._show = show
        self._reader_gone = reader_gone
        self.reader_is_gone = False
        self.problem = ""
        self.begun = False

    def show(self, event: Event) -> None:
        """Show one event."""
        self.begun = self.begun or isinstance(event, Started)
        if isinstance(event, OthersMeasure):
            note(event.words)
        try:
            self._show(event)
        except BrokenPipeError:
            self.reader_is_gone = True
            write_nowhere(sys.stdout)
            self._reader_gone()
        except OSError as error:
            self.problem = error.strerror or str(error)
            write_nowhere(sys.stdout)


@contextmanager
def _signals(runner: Runner, woken: threading.Event) -> Iterator[list[int]]:
    """Cancel the run on the first signal and leave at once on the second; yields the signals received."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        runner.cancel()
        woken.set()

    numbers = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        with stops_noticed():
            yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _point(at: Progress) -> str:
    """Where a run is, in words."""
    where = f"{at.point} of {at.points}"
    if at.repeats:
        return f"prompt {at.prompt_tokens:,}: {where}, repeat {at.repeat} of {at.repeats}"
    return f"context {at.prompt_tokens:,}, batch {at.batch:,}: {where}"


class _Printer:
    """Prints events as they come: rows to standard output in the chosen format, the rest to standard error."""

    def __init__(self, chosen: Format) -> None:
        self._format = chosen
        self._run_id = ""
        self._rows: list[Row] = []
        self._kind = PREFILL_DECODE
        self._table = RowTable(self._kind)
        self._headed = False
        self.measured = 0

    @property
    def rows(self) -> Sequence[Row]:
        """The rows printed so far."""
        return self._rows

    def begin(self, planned: LoadPlan, earlier: Sequence[Row] = ()) -> None:
        """Say what will run, what it needs and about how long it takes, and print the rows it has already."""
        note(plan_words(planned))
        self._head_for(BATCH if isinstance(planned, BatchPlan) else PREFILL_DECODE)
        for row in earlier:
            self._add(row)

    def _head_for(self, kind: str) -> None:
        """Print rows under the headings of their kind from now on."""
        if kind != self._kind:
            self._kind, self._table = kind, RowTable(kind)

    def show(self, event: Event) -> None:
        """Print one event."""
        match event:
            case Started(run):
                self._head_for(run.kind)
                self._run_id = run.run_id
                again = f", sitting {run.sitting}" if run.resumed_at else ""
                note(f"run {run.run_id}{again} on {run.machine}")
            case Predicted():
                here = event.read_rate.origin is Origin.MEASURED
                who, when = ("this box", " right now") if here else ("what it runs on", ", by its maker")
                note(f"{who} reads {event.read_rate} and multiplies {event.product_rate}{when}")
            case PointsForetold():
                with Store() as store:
                    note(quoted(accuracy(entries(store.predicted_rows(str(this_machine()))))))
            case Progress(stage="measuring") if event.left_s is not None:
                note(f"{_point(event)}, {format_duration(event.left_s)} left")
            case Progress():
                note(event.stage if event.left_s is None else f"{event.stage}, {format_duration(event.left_s)} left")
            case RowMeasured(row) | PointFailed(row):
                self._add(row)
            case Finished():
                self._finish(event)

    def end(self) -> None:
        """Complete the output: JSON is one list of all rows."""
        if self._format is Format.JSON:
            print_json(records(self._rows))

    def mark_interrupted(self) -> None:
        """Say in the store that the run ended here, where the measuring thread will not get to it."""
        with suppress(WorkbenchError), Store() as store:
            store.mark_interrupted(self._run_id)

    def _add(self, row: Row) -> None:
        self._rows.append(row)
        self.measured += row.status == "ok"
        match self._format:
            case Format.TABLE:
                self._table.print_row(row)
            case Format.CSV:
                header, line = csv_text([row]).splitlines()
                print(line if self._headed else f"{header}\n{line}", flush=True)
                self._headed = True
            case Format.JSON:
                pass

    def _finish(self, event: Finished) -> None:
        show = print if self._format is Format.TABLE else note
        for figure in event.figures:
            show(next(explain(figure)))
        if event.note:
            note(event.note)
        if event.memory:
            note(f"memory of this process: {event.memory}")
        note(f"kept as {event.run.run_id}: `workbench runs export {event.run.run_id} --output FILE.csv` writes the CSV")
