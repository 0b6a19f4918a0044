"""Whether this process stood still while it timed something: stopped by a signal, or asleep with its machine."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

SCHEDULED = Path("/proc/thread-self/schedstat")
ASLEEP_S = 0.1
"""No machine sleeps for less, and two clocks read one after the other differ by less."""
BLOCKED_S, BLOCKED_SHARE = 0.001, 0.01
"""A thread that stood still for as long, and for as much of a window, may have been stopped."""
HANDLER_S, HANDLER_TRIES = 0.002, 10

_continued = 0
"""How often this process was told to go on."""


@dataclass(frozen=True)
class Standing:
    """What tells of standing still, at one moment.

    `wall_s` is the clock that samples are timed on, `running_s` what of it this thread ran or waited for a core,
    `asleep_s` how long the machine has slept, and `continued` how often the process was told to go on.
    """

    wall_s: float
    running_s: float
    asleep_s: float
    continued: int


def standing() -> Standing:
    """This moment, as the thread that measures sees it."""
    return Standing(time.monotonic(), _running_seconds(), _asleep_seconds(), _continued)


def seconds_blocked(before: Standing, after: Standing) -> float:
    """Seconds by the clock in which the thread neither ran nor waited for a core."""
    return max(0.0, (after.wall_s - before.wall_s) - (after.running_s - before.running_s))


def suspension(before: Standing, after: Standing) -> str:
    """Why what was timed between two moments can't be trusted, in words; empty where nothing is known against it."""
    asleep_s = after.asleep_s - before.asleep_s
    if asleep_s > ASLEEP_S:
        return f"the machine slept for {asleep_s:,.1f} s"
    if after.continued > before.continued:
        still_s = seconds_blocked(before, after)
        return f"the process was stopped and continued, and stood still for up to {still_s:,.1f} s"
    return ""


def wait_for_word(before: Standing, after: Standing) -> Standing:
    """The later moment again, with the word of a stop, which Python's main thread gets some time after it has ended.

    The thread that measures is faster at times; it waits only where it stood still between the two.
    """
    window_s = after.wall_s - before.wall_s
    if seconds_blocked(before, after) <= max(BLOCKED_S, BLOCKED_SHARE * window_s):
        return after
    for _ in range(HANDLER_TRIES):
        if _continued > before.continued:
            break
        time.sleep(HANDLER_S)
    return Standing(after.wall_s, after.running_s, after.asleep_s, _continued)


def continued(_number: int = 0, _frame: FrameType | None = None) -> None:
    """Take in that the process was told to go on; a handler of SIGCONT."""
    global _continued
    _continued += 1


@contextmanager
def stops_noticed() -> Iterator[None]:
    """Take in every stop meanwhile; in the main thread, which alone can be told of signals, elsewhere nothing."""
    if not hasattr(signal, "SIGCONT") or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: Any = signal.signal(signal.SIGCONT, continued)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, previous)


def _running_seconds() -> float:
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):
        waited_s = int(SCHEDULED.read_text().split()[1]) / 1e9
    return time.thread_time() + waited_s


def _asleep_seconds() -> float:
    """How far the clock that goes on while the machine sleeps is before the one that does not; 0 without the two."""
    with suppress(AttributeError, OSError):
        if sys.platform == "darwin":
            return time.clock_gettime(time.CLOCK_MONOTONIC) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return 0.0
