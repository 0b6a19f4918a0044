"""Which process measures a run, so that one left behind is told from one that still goes on."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import psutil

_ended_here: set[str] = set()
"""Runs of this process that are over, though the store may not say so: a full disk takes no word of it."""


def this_process() -> str:
    """This process, named so that another one with the same number, later or elsewhere, is not taken for it."""
    return _named(os.getpid())


def process_words(owner: str) -> str:
    """An owner for a person, as in "process 4211 on lab-7"."""
    host, number, _ = _parts(owner)
    return f"process {number} on {host}"


def is_gone(owner: str, run_id: str) -> bool:
    """Whether a run's process has ended, or is this one and has ended that run; False where it can't be known."""
    host, number, _ = _parts(owner)
    if host != socket.gethostname() or not number.isdigit():
        return False
    if owner == this_process():
        return run_id in _ended_here
    return not _alive(int(number)) or _named(int(number)) != owner


def begun_here(run_id: str) -> None:
    """This process measures a run from now on."""
    _ended_here.discard(run_id)


def ended_here(run_id: str) -> None:
    """This process measures that run no longer."""
    _ended_here.add(run_id)


def _parts(owner: str) -> tuple[str, str, str]:
    rest, _, started = owner.rpartition("/")
    host, _, number = rest.rpartition("/")
    return host, number, started


def _named(process_id: int) -> str:
    return f"{socket.gethostname()}/{process_id}/{_started(process_id)}"


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
