"""The one background thread in which experiments run, and the token that cancels them."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from workbench.errors import StoreError, WorkbenchError, first_line
from workbench.experiments.events import (
    Calibrated,
    Event,
    Finished,
    LadderMeasured,
    OperationsTimed,
    OthersMeasure,
    PointFailed,
    PointsForetold,
    RowMeasured,
    Started,
)
from workbench.hardware.heap import share_one_heap
from workbench.runs import owner
from workbench.runs.measuring import Beside, measuring_begun, others_words
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

log = logging.getLogger(__name__)
STOP_WAIT_S = 1.5
"""How long a run that was asked to stop is waited for."""


class Cancelled(Exception):
    """Raised inside an experiment at the step or layer where its token was found set."""


class CancelToken:
    """Asks an experiment to stop; it does at its next step or layer."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask; safe from a signal handler and from any thread."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise Cancelled if it was asked."""
        if self.cancelled:
            raise Cancelled


Experiment = Callable[[CancelToken], Iterator[Event]]
Listener = Callable[[Event], None]


def drive(experiment: Experiment, cancel: CancelToken, store: Store, listener: Listener) -> None:
    """Iterate an experiment of one run or several in turn: each row is committed first, then handed to `listener`.

    An error is raised on after the run is marked failed in the store; a run that was refused before its first row
    leaves nothing there, and one that was refused as it was resumed stays interrupted. Rows measured while another
    process measures too say so.
    """
    with measuring_begun(store.measuring) as beside:
        if words := others_words(beside.others):
            listener(OthersMeasure(words))
        _drive(experiment, cancel, store, listener, beside)


def _drive(experiment: Experiment, cancel: CancelToken, store: Store, listener: Listener, beside: Beside) -> None:
    started: Started | None = None
    ended = False
    rows = 0
    try:
        for event in experiment(cancel):
            match event:
                case Started():
                    if started is not None:
                        owner.ended_here(started.run.run_id)
                    (store.resume_run if event.run.resumed_at else store.add_run)(event.run)
                    started, ended, rows = event, False, 0
                case RowMeasured() | PointFailed():
                    event = replace(event, row=beside.labelled(event.row))
                    store.add_row(event.row, event.samples)
                    rows += 1
                case OperationsTimed(timings):
                    store.predicted.keep_timings(timings)
                case PointsForetold(run_id, points) if run_id:
                    store.predicted.keep_points(run_id, points)
                case LadderMeasured():
                    store.keep_ladder(event.run_id, event.ladder)
                case Calibrated():
                    try:
                        store.add_calibration(event.calibration)
                    except StoreError:
                        # Shown all the same: what took a minute to measure isn't lost with the store.
                        listener(event)
                        raise
                case Finished():
                    store.end_run(event.run.run_id, event.status, event.note)
                    ended = True
                case _:
                    pass
            listener(event)
    except BaseException as error:
        if started is not None and not ended:
            with suppress(StoreError):
                if not isinstance(error, WorkbenchError) or rows:
                    store.end_run(started.run.run_id, RunStatus.FAILED, first_line(error))
                elif started.run.resumed_at:
                    store.end_run(started.run.run_id, RunStatus.INTERRUPTED, first_line(error))
                else:
                    store.remove_run(started.run.run_id)
        raise
    finally:
        if started is not None:
            owner.ended_here(started.run.run_id)


class Ending:
    """How an experiment ended: told in the thread that measures, waited for in another."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._told = threading.Event()

    def tell(self, error: BaseException | None) -> None:
        """It ended, with this error or none."""
        self.error = error
        self._told.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is told, at most `timeout_s` where that is given; whether it is."""
        return self._told.wait(timeout_s)


class Runner:
    """One long-lived thread that drives one experiment at a time, so that two measurements never overlap."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._work: queue.SimpleQueue[tuple[Experiment, CancelToken, Listener, Callable[[BaseException | None], None]]]
        self._work = queue.SimpleQueue()
        self._cancel: CancelToken | None = None
        self._idle = threading.Event()
        self._idle.set()
        share_one_heap()
        self.thread = threading.Thread(target=self._loop, name="measurement", daemon=True)
        self.thread.start()

    @property
    def busy(self) -> bool:
        """Whether an experiment runs or waits."""
        return not self._idle.is_set()

    def start(
        self, experiment: Experiment, listener: Listener, done: Callable[[BaseException | None], None]
    ) -> CancelToken:
        """Queue an experiment; `listener` gets its events and `done` its error or None, both in the thread.

        Raises RuntimeError while another one runs.
        """
        if self.busy:
            raise RuntimeError("a measurement is running; two must not overlap")
        self._idle.clear()
        self._cancel = CancelToken()
        self._work.put((experiment, self._cancel, listener, done))
        return self._cancel

    def cancel(self) -> None:
        """Ask the running experiment to stop, if one runs."""
        if self._cancel is not None:
            self._cancel.cancel()

    def wait(self, timeout_s: float) -> bool:
        """Wait until no experiment runs, at most `timeout_s`; whether that came to be."""
        return self._idle.wait(timeout_s)

    def _loop(self) -> None:
        while True:
            experiment, cancel, listener, done = self._work.get()
            error: BaseException | None = None
            try:
                with self._open_store() as store:
                    drive(experiment, cancel, store, listener)
            except BaseException as raised:
                log.exception("the experiment ended with an error")
                error = raised
            self._idle.set()
            done(error)
