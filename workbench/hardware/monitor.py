"""What the box is doing right now: processor, this process's share of it, memory."""

import os
import time
from dataclasses import dataclass

import psutil

from workbench.hardware.machine import available_bytes


@dataclass(frozen=True)
class Sample:
    """One reading since the last: per cent of each core, shares of all cores, and bytes."""

    core_percent: tuple[float, ...]
    own_share: float
    other_share: float
    resident_bytes: int
    available_bytes: int


class Monitor:
    """A sampler without a thread of its own: it works only when asked."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._cores = os.cpu_count() or 1
        self._previous = self._times()
        psutil.cpu_percent(percpu=True)

    def sample(self) -> Sample:
        """What happened since the last call, and memory as it is now."""
        wall, own = self._times()
        core_percent = tuple(psutil.cpu_percent(percpu=True))
        passed = max(wall - self._previous[0], 1e-6)
        own_share = (own - self._previous[1]) / (passed * self._cores)
        self._previous = (wall, own)
        busy = sum(core_percent) / 100 / max(1, len(core_percent))
        return Sample(
            core_percent=core_percent,
            own_share=own_share,
            other_share=max(0.0, busy - own_share),
            resident_bytes=int(self._process.memory_info().rss),
            available_bytes=available_bytes(),
        )

    def _times(self) -> tuple[float, float]:
        return time.monotonic(), time.process_time()
