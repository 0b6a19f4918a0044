"""The timed window: while it is open nothing of ours but the measurement should run, and what did is recorded."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from workbench.experiments.suspension import Standing, standing, suspension, wait_for_word
from workbench.hardware.load import busy_and_stolen

TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Disturbance:
    """What else ran inside timed windows: seconds open, CPU seconds of our other threads, core-seconds of others.

    `suspended` says why what was timed can't be trusted: the process, or the machine, stood still meanwhile.
    """

    open_s: float = 0.0
    instrument_cpu_s: float | None = 0.0
    other_cpu_s: float = 0.0
    cores: int = 1
    suspended: str = ""

    def __add__(self, more: "Disturbance") -> "Disturbance":
        unknown = self.instrument_cpu_s is None or more.instrument_cpu_s is None
        return Disturbance(
            self.open_s + more.open_s,
            None if unknown else (self.instrument_cpu_s or 0.0) + (more.instrument_cpu_s or 0.0),
            self.other_cpu_s + more.other_cpu_s,
            more.cores,
        )

    @property
    def ui_share(self) -> float | None:
        """CPU time of our other threads over the time the windows were open; None where it can't be read."""
        if self.instrument_cpu_s is None or not self.open_s:
            return None
        return self.instrument_cpu_s / self.open_s

    @property
    def other_load(self) -> float | None:
        """Share of all cores that other processes and steal took."""
        return self.other_cpu_s / (self.open_s * self.cores) if self.open_s else None


class TimedWindow:
    """Opens around each timed repeat, in the thread that measures; others ask `is_open` and keep still.

    `settle` is called before opening: a screen uses it to finish painting, within a time limit of its own.
    `standing` tells whether the process stood still. `altogether` is what else ran inside all windows that have closed.
    """

    def __init__(self, settle: Callable[[], None] = lambda: None, standing: Callable[[], Standing] = standing) -> None:
        self.settle = settle
        self._standing = standing
        self.engine_process: int | None = None
        self._open = threading.Event()
        self._opened_at = 0.0
        self.altogether = Disturbance()

    @property
    def is_open(self) -> bool:
        """Whether something is being timed."""
        return self._open.is_set()

    @property
    def open_seconds(self) -> float:
        """Seconds since the window opened; 0 while it is closed."""
        return time.monotonic() - self._opened_at if self.is_open else 0.0

    @contextmanager
    def timed(self, record: Callable[[Disturbance], None]) -> Iterator[None]:
        """Hold the window open; `record` gets what else ran in it. Collection of garbage waits meanwhile."""
        self.settle()
        collecting = gc.isenabled()
        gc.disable()
        self._opened_at = time.monotonic()
        self._open.set()
        before, stood = _reading(self.engine_process), self._standing()
        try:
            yield
        finally:
            after, stands = _reading(self.engine_process), self._standing()
            self._open.clear()
            if collecting:
                gc.enable()
            found = replace(_between(before, after), suspended=suspension(stood, wait_for_word(stood, stands)))
            self.altogether = self.altogether + found
            record(found)


@dataclass(frozen=True)
class _Reading:
    wall_s: float
    instrument_cpu_s: float | None
    process_cpu_s: float
    box_busy_s: float


def _reading(engine_process: int | None) -> _Reading:
    return _Reading(
        wall_s=time.monotonic(),
        instrument_cpu_s=_instrument_cpu_seconds(),
        process_cpu_s=time.process_time() + _engine_cpu_seconds(engine_process),
        box_busy_s=sum(busy_and_stolen(psutil.cpu_times())),
    )


def _engine_cpu_seconds(process: int | None) -> float:
    """CPU time of an engine's processes: those that have ended, and the one that runs; none of it is other load."""
    ended = os.times()
    seconds = ended.children_user + ended.children_system
    if process is not None:
        with suppress(psutil.Error):
            used = psutil.Process(process).cpu_times()
            seconds += used.user + used.system
    return seconds


def _instrument_cpu_seconds() -> float | None:
    """CPU time of every thread of ours but this one, which measures: the screen's, its input and its output.

    The engine's own workers are none of Python's threads and don't count. None where the system doesn't say (Linux
    does, in nanoseconds).
    """
    here = threading.get_native_id()
    others = [thread.native_id for thread in threading.enumerate() if thread.native_id not in (None, here)]
    try:
        return sum(int((TASKS / str(each) / "schedstat").read_text().split()[0]) for each in others) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _between(before: _Reading, after: _Reading) -> Disturbance:
    others = (after.box_busy_s - before.box_busy_s) - (after.process_cpu_s - before.process_cpu_s)
    if before.instrument_cpu_s is None or after.instrument_cpu_s is None:
        instrument = None
    else:
        instrument = max(0.0, after.instrument_cpu_s - before.instrument_cpu_s)
    return Disturbance(
        open_s=after.wall_s - before.wall_s,
        instrument_cpu_s=instrument,
        other_cpu_s=max(0.0, others),
        cores=os.cpu_count() or 1,
    )
