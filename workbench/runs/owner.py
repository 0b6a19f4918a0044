"""Which process measures a run, so that one left behind is told from one that still goes on."""

import hashlib
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from functools import cache
from pathlib import Path

import psutil

BOOT = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/pid")
MACHINE = Path("/etc/machine-id")
CLOCK_SLACK_S = 120.0
"""Clocks of two machines on one network are seldom further apart."""

_ended_here: set[str] = set()
"""Runs of this process that are over, though the store may not say so: a full disk takes no word of it."""


@dataclass(frozen=True)
class Owner:
    """A process, named so that another one with its number, later or elsewhere, is not taken for it.

    `boot` is the start of the system that it runs on, `numbers` the namespace that its number counts in: what is empty
    is not known. `machine` outlasts a boot, but copies of one image share it, and may share the host's name too.
    """

    host: str
    machine: str
    boot: str
    numbers: str
    process: str
    started: str

    def __str__(self) -> str:
        return "/".join(astuple(self))


def this_process() -> str:
    """This process as an owner."""
    return str(_named(os.getpid()))


def process_words(owner: str) -> str:
    """An owner for a person, as in "process 4211 on lab-7"."""
    found = _parsed(owner)
    return "an unknown process" if found is None else f"process {found.process} on {found.host}"


def is_gone(owner: str, run_id: str, last_seen_at: str) -> bool:
    """Whether a run's process has ended, or is this one and has ended that run; False where it can't be known.

    Only processes of this boot can be looked for. Those of an earlier boot of this machine are gone, unless the run was
    written to since: then another machine has this one's name, and may still measure. `last_seen_at` is ISO 8601.
    """
    found = _parsed(owner)
    here = _named(os.getpid())
    if found is None or (found.host, found.machine) != (here.host, here.machine):
        return False
    if found == here:
        return run_id in _ended_here
    if found.boot != here.boot:
        return bool(here.machine) and _seconds(last_seen_at) + CLOCK_SLACK_S < psutil.boot_time()
    return found.numbers == here.numbers and not _is_there(found)


def is_here(owner: str) -> bool:
    """Whether it can be seen from here that the process is alive."""
    found = _parsed(owner)
    return found is not None and _is_there(found)


def begun_here(run_id: str) -> None:
    """This process measures a run from now on."""
    _ended_here.discard(run_id)


def ended_here(run_id: str) -> None:
    """This process measures that run no longer."""
    _ended_here.add(run_id)


def _parsed(owner: str) -> Owner | None:
    parts = owner.split("/")
    return Owner(*parts) if len(parts) == len(fields(Owner)) and parts[-2].isdigit() else None


def _named(process_id: int) -> Owner:
    return Owner(socket.gethostname().replace("/", "-"), *_system(), str(process_id), _started(process_id))


def _is_there(owner: Owner) -> bool:
    process_id = int(owner.process)
    return _alive(process_id) and _named(process_id) == owner


@cache
def _system() -> tuple[str, str, str]:
    """The machine, its boot and the namespace of process numbers, each empty where it can't be told."""
    boot = numbers = ""
    with suppress(OSError):
        boot = BOOT.read_text().strip()
    with suppress(OSError):
        numbers = str(NAMESPACE.readlink()).strip("pid:[]")
    return _machine(), boot, numbers


def _machine() -> str:
    """A short digest of what the system says of the machine: the figure itself is not for others to see."""
    known = ""
    with suppress(OSError):
        known = MACHINE.read_text().strip()
    # A hardware address that could not be read is made up, and has the bit of a group address.
    if not known and not BOOT.exists() and not (address := uuid.getnode()) >> 40 & 1:
        known = f"{address:x}"
    return hashlib.sha256(f"inference workbench {known}".encode()).hexdigest()[:12] if known else ""


def _seconds(moment: str) -> float:
    """Seconds since the epoch; endless where it is no moment."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return float("inf")


def _started(process_id: int) -> str:
    """When a process began: on Linux in ticks since the boot, which setting the clock does not move."""
    with suppress(OSError, IndexError):
        # The name, in brackets, may itself hold spaces and brackets; field 22 of proc_pid_stat(5) is the start.
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[19]
    with suppress(psutil.Error):
        return f"{psutil.Process(process_id).create_time():.0f}"
    return ""


def _alive(process_id: int) -> bool:
    """Whether a process is there and not only waits for its parent to hear of its end."""
    try:
        return psutil.Process(process_id).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
