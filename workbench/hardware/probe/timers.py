"""How a pass is timed: by the host's clock once the device has finished, or by the device's own."""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any, Protocol

import torch

Run = Callable[[], object]
Clock = Callable[[], float]


class Timer(Protocol):
    """Times passes of one kernel."""

    def once(self, run: Run) -> float:
        """The seconds of one pass, with none before it: enough to choose among kernels, not to judge one."""

    def seconds(self, run: Run, least: int, most: int, within_s: float) -> list[float]:
        """The seconds of each pass, in order, one run before them not among them.

        `least` passes, and then more until there are `most` or they have taken `within_s`.
        """


class HostTimer:
    """The host's clock, read only when everything queued on the device has finished."""

    def __init__(self, synchronise: Callable[[], None], clock: Clock = time.perf_counter) -> None:
        self._synchronise = synchronise
        self._clock = clock

    def once(self, run: Run) -> float:
        """One pass between two finishes of the device."""
        self._synchronise()
        start = self._clock()
        run()
        self._synchronise()
        return self._clock() - start

    def seconds(self, run: Run, least: int, most: int, within_s: float) -> list[float]:
        """Each pass between two finishes of the device."""
        run()
        found: list[float] = []
        while len(found) < least or (len(found) < most and sum(found) < within_s):
            found.append(self.once(run))
        return found


class DeviceTimer:
    """The device's own events around each pass, all queued before any is waited for.

    `event` makes an event with `record` and `elapsed_time` in milliseconds; `fill` queues work long enough that every
    pass is in the queue before the first begins, so that no launch from the host falls into a pass.
    """

    def __init__(self, event: Callable[[], Any], fill: Callable[[], None], synchronise: Callable[[], None]) -> None:
        self._event = event
        self._fill = fill
        self._synchronise = synchronise

    def once(self, run: Run) -> float:
        """The time between the events on either side of one pass."""
        return self._queued(run, 1)[0]

    def seconds(self, run: Run, least: int, most: int, within_s: float) -> list[float]:
        """The time between the events on either side of each pass: of the least first, then of as many as fit."""
        run()
        found = self._queued(run, least)
        left_s = within_s - sum(found)
        fitting = min(most - least, ceil(left_s / max(median(found), SHORTEST_PASS_S)))
        return found + (self._queued(run, fitting) if fitting > 0 else [])

    def _queued(self, run: Run, passes: int) -> list[float]:
        self._synchronise()
        self._fill()
        marks = [self._event() for _ in range(passes + 1)]
        marks[0].record()
        for mark in marks[1:]:
            run()
            mark.record()
        self._synchronise()
        return [before.elapsed_time(after) / 1e3 for before, after in pairwise(marks)]


SHORTEST_PASS_S = 1e-6
"""No pass of a probe is shorter; it keeps a clock that stood still from asking for passes without end."""
FILLING_CYCLES = 50_000_000
"""Tens of milliseconds on an accelerator: longer than queueing a dozen passes takes."""


def timer_for(device: torch.device, synchronise: Callable[[], None]) -> Timer:
    """The device's own events where it has them, the host's clock otherwise."""
    # Torch's accelerator modules are not typed.
    cuda: Any = torch.cuda
    xpu: Any = torch.xpu
    mps: Any = torch.mps
    match device.type:
        case "cuda":
            return DeviceTimer(
                partial(cuda.Event, enable_timing=True), partial(cuda._sleep, FILLING_CYCLES), synchronise
            )
        case "xpu":
            return DeviceTimer(partial(xpu.Event, enable_timing=True), lambda: None, synchronise)
        case "mps":
            return DeviceTimer(partial(mps.Event, enable_timing=True), lambda: None, synchronise)
        case _:
            return HostTimer(synchronise)
