"""How long threads of this process waited for a core, as the kernel counts it; nothing where it doesn't."""

import threading
from collections.abc import Mapping
from pathlib import Path

TASKS = Path("/proc/self/task")
NANOSECONDS = 1e-9


def waited_s() -> Mapping[int, float]:
    """Seconds each thread that computes has waited, ready to run, while others had the cores; since it began.

    Of Python's own threads only the calling one counts: the others belong to the screen. Source: the second figure of
    /proc/PID/task/TID/schedstat, which Linux's documentation of scheduler statistics calls time spent on a run queue.
    """
    calling = threading.get_native_id()
    others = {thread.native_id for thread in threading.enumerate()} - {calling}
    found: dict[int, float] = {}
    try:
        for task in TASKS.iterdir():
            if (ident := int(task.name)) not in others:
                found[ident] = int((task / "schedstat").read_text().split()[1]) * NANOSECONDS
    except (OSError, ValueError, IndexError):
        return {}
    return found


def most_and_all(before: Mapping[int, float], after: Mapping[int, float]) -> tuple[float, float]:
    """Of the waits between two readings: the longest of a single thread, and all of them together."""
    waits = [max(0.0, waited - before.get(ident, 0.0)) for ident, waited in after.items()]
    return max(waits, default=0.0), sum(waits)
