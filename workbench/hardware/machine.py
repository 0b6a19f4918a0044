"""This machine, within the limits of this process: processor, cores, threads and memory it may use."""

import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")
THIS_MACHINE = "this machine"
"""What the machine the workbench runs on is called among tracks and devices: its rates are measured."""

ACCELERATOR_NODES = ("/dev/nvidiactl", "/dev/kfd")
"""Where Linux shows the drivers of NVIDIA and AMD devices."""


@dataclass(frozen=True)
class Machine:
    """The box as a label names it; memory in bytes, as this process may use it."""

    processor: str
    cores: int
    memory_bytes: int

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.processor} · {cores} · {self.memory_bytes / 1e9:.0f} GB"


@cache
def this_machine() -> Machine:
    """The machine this process runs on, as affinity, quota and memory limit leave it."""
    limit = memory_limit()
    total = psutil.virtual_memory().total
    return Machine(_processor(), usable_cores(), total if limit is None else min(total, limit))


def usable_cores() -> int:
    """Cores this process may use: its affinity, and its group's quota rounded up."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return affinity if quota is None else max(1, min(affinity, -int(-quota // 1)))


def available_bytes() -> int:
    """Bytes this process may still take: what the system has free, within what its group's limit and its own leave."""
    available = psutil.virtual_memory().available
    group = group_memory(limited_groups())
    left = (available, None if group is None else group.free_bytes, address_space_left())
    return min(free for free in left if free is not None)


def address_space_left() -> int | None:
    """Bytes that `ulimit -v` leaves this process; None without such a limit.

    Past it libraries end the process on a line of their own, as that of libgomp that a thread can't be made.
    """
    process = psutil.Process()
    if not hasattr(psutil, "RLIMIT_AS"):
        return None
    limit, _ = process.rlimit(psutil.RLIMIT_AS)
    return None if limit == psutil.RLIM_INFINITY else max(0, limit - process.memory_info().vms)


def memory_limit() -> int | None:
    """The tightest memory limit of this process's groups in bytes; None without one."""
    limits = [limit for folder in _cgroup_folders() if (limit := _limit_and_use(folder)[0]) is not None]
    return min(limits, default=None)


@dataclass(frozen=True)
class GroupMemory:
    """A control group's memory limit and what it uses, less the file cache it would give back, in bytes."""

    limit_bytes: int
    used_bytes: int

    @property
    def free_bytes(self) -> int:
        """What the group may still take."""
        return max(0, self.limit_bytes - self.used_bytes)


def limited_groups() -> tuple[Path, ...]:
    """The folders of this process's groups that limit memory; reading those again is cheaper than finding them."""
    return tuple(folder for folder in _cgroup_folders() if _limit_and_use(folder)[0] is not None)


def group_memory(folders: Iterable[Path]) -> GroupMemory | None:
    """Of these groups the one that leaves least; None where none limits memory and says what it uses."""
    known = (
        GroupMemory(limit, used)
        for limit, used in map(_limit_and_use, folders)
        if limit is not None and used is not None
    )
    return min(known, key=lambda group: group.free_bytes, default=None)


def cpu_quota() -> float | None:
    """Cores the group's quota allows; None without one."""
    quotas: list[float] = []
    for folder in _cgroup_folders():
        maximum = _words(folder / "cpu.max")
        if len(maximum) == 2 and maximum[0].isdigit():
            quotas.append(int(maximum[0]) / int(maximum[1]))
        quota, period = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
        if quota and period and quota[0].isdigit():
            quotas.append(int(quota[0]) / int(period[0]))
    return min(quotas, default=None)


def runs_in_host_memory(device: str) -> bool:
    """Whether a model on `device` (a setting's name) lives in the machine's own memory, judged without torch."""
    if device == "auto":
        return not any(Path(node).exists() for node in ACCELERATOR_NODES)
    return device in ("cpu", "mps")


def resident_bytes() -> int:
    """Bytes of this process in memory now."""
    return int(psutil.Process().memory_info().rss)


def reset_peak() -> None:
    """Count the peak of `peak_resident_bytes` from now on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_resident_bytes(process: int | None = None) -> int | None:
    """The most bytes this process has had in memory since `reset_peak`, or ever where that can't be asked.

    Of another process the most it ever had, None where the system doesn't say.
    """
    for line in _lines(Path(f"/proc/{process or 'self'}/status")):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    if process is not None:
        return None
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model") and value.strip():
                return " ".join(value.replace("(R)", "").replace("(TM)", "").split())
    except OSError:
        pass
    if sys.platform == "darwin":
        import subprocess

        brand = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        ).stdout.strip()
        if brand:
            return brand
    return platform.processor() or platform.machine() or "unknown processor"


def _cgroup_folders() -> list[Path]:
    """This process's groups and those above them, of either version, as seen from inside a container too."""
    folders: list[Path] = []
    for line in _lines(CGROUP_MEMBERSHIP):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        roots = [CGROUP] if not controllers else [CGROUP / c for c in ("memory", "cpu") if c in controllers.split(",")]
        for root in roots:
            folder = root / path.lstrip("/")
            folders += [f for f in (folder, *folder.parents) if f == root or root in f.parents]
    return list(dict.fromkeys(folders))


def _limit_and_use(folder: Path) -> tuple[int | None, int | None]:
    """A group's memory limit and what it uses, less the file cache it would give back."""
    for limit_name, use_name, inactive_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, use = _words(folder / limit_name), _words(folder / use_name)
        if limit and limit[0].isdigit() and int(limit[0]) < 1 << 60:
            statistics = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
            used = int(use[0]) - int(statistics.get(inactive_name, "0")) if use else None
            return int(limit[0]), used
    return None, None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()
