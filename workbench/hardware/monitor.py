"""What the box is doing right now and did in the last minutes: processor, own share of it, memory, accelerators."""

import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import psutil

from workbench.hardware.accelerator_use import AcceleratorUse, Ask, accelerator_source
from workbench.hardware.load import busy_and_stolen
from workbench.hardware.machine import GroupMemory, group_memory, limited_groups

SPAN_S = 300.0
"""How far back the history goes."""
MOST_SAMPLES = 400
SELDOM_S = 60.0
"""What hardly changes is asked this seldom: which groups limit memory, and whether there is swap."""
CHILDREN_S = 5.0
"""Children are looked for this seldom: that reads every process of the box."""


@dataclass(frozen=True)
class Counters:
    """Seconds since some start: of each core busy, stolen and in all, and of this process and its children."""

    at: float
    cores: tuple[tuple[float, float, float], ...]
    own_s: float


@dataclass(frozen=True)
class Shares:
    """Between two readings of counters: per cent of each core, stolen time left out, and shares of all cores."""

    core_percent: tuple[float, ...]
    own: float
    other: float
    stolen: float


@dataclass(frozen=True)
class Sample:
    """One look at the box: shares over the `seconds` before `at` (monotonic), memory in bytes as it was then.

    Children of this process count as its own. `group` is the control group that leaves least, in a container or
    another one that limits memory.
    """

    at: float
    seconds: float
    core_percent: tuple[float, ...]
    own_share: float
    other_share: float
    stolen_share: float
    resident_bytes: int
    available_bytes: int
    swap_bytes: int = 0
    group: GroupMemory | None = None
    accelerators: tuple[AcceleratorUse, ...] = ()


class Monitor:
    """A sampler without a thread of its own: it works only when asked, and keeps what it saw for `SPAN_S`."""

    def __init__(self) -> None:
        self.history: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._process = psutil.Process()
        self._children: list[psutil.Process] = []
        self._before = self._counters()
        self._asked_seldom_at: float | None = None
        self._looked_for_children_at = -CHILDREN_S
        self._groups: tuple[Path, ...] = ()
        self._has_swap = False
        self._accelerators: Ask | None = None

    def sample(self) -> Sample:
        """What happened since the last call, and memory as it is now."""
        if self._asked_seldom_at is None:
            # Not when the monitor is made: the first paint would wait for a driver.
            self._accelerators = accelerator_source()
        if self._asked_seldom_at is None or time.monotonic() - self._asked_seldom_at >= SELDOM_S:
            self._ask_seldom()
        self._look_for_children()
        after = self._counters()
        shares = shares_between(self._before, after)
        group = group_memory(self._groups)
        available = int(psutil.virtual_memory().available)
        sample = Sample(
            at=after.at,
            seconds=after.at - self._before.at,
            core_percent=shares.core_percent,
            own_share=shares.own,
            other_share=shares.other,
            stolen_share=shares.stolen,
            resident_bytes=int(self._process.memory_info().rss),
            available_bytes=available if group is None else min(available, group.free_bytes),
            swap_bytes=int(psutil.swap_memory().used) if self._has_swap else 0,
            group=group,
            accelerators=self._accelerators() if self._accelerators is not None else (),
        )
        self._before = after
        self.history.append(sample)
        while sample.at - self.history[0].at > SPAN_S:
            self.history.popleft()
        return sample

    def _ask_seldom(self) -> None:
        self._asked_seldom_at = time.monotonic()
        self._groups = limited_groups()
        self._has_swap = psutil.swap_memory().total > 0

    def _look_for_children(self) -> None:
        if not has_children():
            self._children = []
        elif time.monotonic() - self._looked_for_children_at >= CHILDREN_S:
            self._looked_for_children_at = time.monotonic()
            self._children = self._process.children(recursive=True)

    def _counters(self) -> Counters:
        cores = tuple((*busy_and_stolen(core), sum(core)) for core in psutil.cpu_times(percpu=True))
        ended = os.times()
        own = time.process_time() + ended.children_user + ended.children_system
        return Counters(time.monotonic(), cores, own + sum(map(_seconds_of, self._children)))


def shares_between(before: Counters, after: Counters) -> Shares:
    """Who had the cores from one reading to the next; nothing is known of it where the cores changed."""
    if len(before.cores) != len(after.cores):
        return Shares((0.0,) * len(after.cores), 0.0, 0.0, 0.0)
    passed = [
        (busy - busy_before, stolen - stolen_before, max(total - total_before, 1e-6))
        for (busy, stolen, total), (busy_before, stolen_before, total_before) in zip(
            after.cores, before.cores, strict=True
        )
    ]
    whole = sum(total for _, _, total in passed)
    busy = _share(sum(busy for busy, _, _ in passed), whole)
    # The system counts its cores in ticks, and a child's time all at once when it is found or ends.
    own = min(busy, _share(after.own_s - before.own_s, max(1e-6, (after.at - before.at) * len(after.cores))))
    return Shares(
        core_percent=tuple(100 * _share(busy, total) for busy, _, total in passed),
        own=own,
        other=busy - own,
        stolen=_share(sum(stolen for _, stolen, _ in passed), whole),
    )


def has_children() -> bool:
    """Whether this process has any, living or not yet waited for; False where the system can't be asked cheaply."""
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _seconds_of(child: psutil.Process) -> float:
    try:
        return float(sum(child.cpu_times()[:4]))
    except psutil.Error:
        return 0.0


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole))
