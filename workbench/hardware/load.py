"""How busy the box is with other things: what may be read of it, and what it was between two readings."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from workbench.hardware.machine import available_bytes

MEMORY_PRESSURE = Path("/proc/pressure/memory")
BUSY_SHARE = 0.10
STOLEN_SHARE = 0.05


class CoreTimes(Protocol):
    """What psutil's `cpu_times` gives: seconds by kind, of which a system names those it knows."""

    @property
    def idle(self) -> float:
        """Seconds of doing nothing."""

    def __iter__(self) -> Iterator[float]: ...


@dataclass(frozen=True)
class LoadReading:
    """Counters of this moment: seconds of cores busy, stolen and ours, and what is not a counter as it is now."""

    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float
    cores: int
    frequency_mhz: float | None
    available_bytes: int
    memory_pressure: float | None
    swapped_bytes: int = 0


@dataclass(frozen=True)
class Load:
    """Between two readings: shares of all cores that others and the hypervisor took, and the later reading's rest.

    `memory_pressure` is the per cent of the last ten seconds in which something waited for memory (Linux).
    """

    other_share: float
    stolen_share: float
    frequency_mhz: float | None
    available_bytes: int
    memory_pressure: float | None
    swapped_bytes: int = 0

    @property
    def busy(self) -> bool:
        """Whether so much went to others that a measurement of the whole box can't be trusted."""
        return self.other_share > BUSY_SHARE or self.stolen_share > STOLEN_SHARE


def read_load() -> LoadReading:
    """The counters now; frequency and pressure are None where the system doesn't say."""
    busy, stolen = busy_and_stolen(psutil.cpu_times())
    return LoadReading(
        wall_s=time.monotonic(),
        busy_s=busy,
        stolen_s=stolen,
        own_s=time.process_time(),
        cores=os.cpu_count() or 1,
        frequency_mhz=_frequency_mhz(),
        available_bytes=available_bytes(),
        memory_pressure=_memory_pressure(),
        swapped_bytes=_swapped_bytes(),
    )


def busy_and_stolen(times: CoreTimes) -> tuple[float, float]:
    """Seconds a core, or all, worked, and seconds the hypervisor took from it, of psutil's `cpu_times`.

    What guests of this machine run is in its user time already.
    """
    stolen = getattr(times, "steal", 0.0)
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - idle - guest - stolen, stolen


def load_between(before: LoadReading, after: LoadReading) -> Load:
    """What others took from one reading to the next."""
    capacity = max(1e-9, (after.wall_s - before.wall_s) * after.cores)
    others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return Load(
        other_share=min(1.0, max(0.0, others / capacity)),
        stolen_share=min(1.0, max(0.0, (after.stolen_s - before.stolen_s) / capacity)),
        frequency_mhz=after.frequency_mhz,
        available_bytes=after.available_bytes,
        memory_pressure=after.memory_pressure,
        swapped_bytes=after.swapped_bytes - before.swapped_bytes,
    )


def _frequency_mhz() -> float | None:
    try:
        found = psutil.cpu_freq()
    except (OSError, RuntimeError, AttributeError, NotImplementedError):
        return None
    return float(found.current) if found is not None and found.current else None


def _swapped_bytes() -> int:
    """Bytes moved to and from swap since the box was started."""
    try:
        found = psutil.swap_memory()
    except (OSError, RuntimeError):
        return 0
    return int(found.sin + found.sout)


def _memory_pressure() -> float | None:
    """The share of `some` over ten seconds in Linux's pressure file, in per cent."""
    try:
        first = MEMORY_PRESSURE.read_text(encoding="utf-8").splitlines()[0].split()
        return float(next(word for word in first if word.startswith("avg10=")).removeprefix("avg10="))
    except (OSError, IndexError, StopIteration, ValueError):
        return None
