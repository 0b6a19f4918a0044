"""The terminal while the app has it: library output goes to the log, and every way out leads out."""

import contextlib
import logging
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

log = logging.getLogger(__name__)

LEAVE_WITHIN_S = 1.75
"""Less than the two seconds promised: ending the process takes a moment too."""
RESTORE = "\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[0m"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def library_output_to(log_path: Path) -> Iterator[TextIO]:
    """Send descriptors 1 and 2 to the log; yields the terminal, which Textual is given as its own output."""
    sys.stdout.flush()
    sys.stderr.flush()
    log_path.parent.mkdir(parents=True, exist_ok=True)
    saved = {1: os.dup(1), 2: os.dup(2)}
    terminal = open(os.dup(saved[1]), "w", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115, PTH123
    before = sys.__stdout__, sys.__stderr__
    to_log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for number in saved:
            os.dup2(to_log, number)
        # Textual writes to one and asks the other for the terminal's size.
        sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
        logging.captureWarnings(True)
        yield terminal
    finally:
        logging.captureWarnings(False)
        sys.__stdout__, sys.__stderr__ = before  # type: ignore[misc]
        for number, descriptor in saved.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(to_log)
        with contextlib.suppress(OSError):
            terminal.close()


class WayOut:
    """Signals, a lost terminal and a stuck exit all end the process, with the terminal as it was.

    `leave` is called once with the exit code, from a signal handler or the watching thread. The thread
    sleeps in the kernel until the terminal hangs up or the app begins to leave.
    """

    def __init__(self, leave: Callable[[int], None]) -> None:
        self._leave = leave
        self._code = 0
        self._woken, self._wake = os.pipe()
        self._attributes = _attributes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="way-out", daemon=True)

    def __enter__(self) -> "WayOut":
        self._previous: dict[int, Any] = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        os.write(self._wake, b"\n")
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def begin(self, code: int) -> None:
        """Leave within the time limit, with this code, whatever may be stuck."""
        self._code = code
        os.write(self._wake, b"\n")

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self.begin(128 + number)
        self._leave(128 + number)

    def _watch(self) -> None:
        if self._terminal_hung_up():
            self._code = 128 + signal.SIGHUP
            self._leave(self._code)
        if self._ended.wait(LEAVE_WITHIN_S):
            return
        log.warning("leaving took too long: the process ends itself")
        restore(self._attributes)
        os._exit(self._code)

    def _terminal_hung_up(self) -> bool:
        """Wait for the terminal to hang up (True) or for the app to leave (False)."""
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        if os.isatty(0):
            poller.register(0, 0)
        while True:
            for descriptor, happened in poller.poll():
                if descriptor == self._woken:
                    return False
                if happened & (select.POLLHUP | select.POLLERR):
                    return True
                # Some systems can't poll a terminal; a signal then tells of the hang-up.
                poller.unregister(descriptor)


def restore(attributes: list[Any] | None) -> None:
    """Give the terminal back without waiting for it."""
    with contextlib.suppress(OSError, ValueError, termios.error):
        if attributes is not None:
            termios.tcsetattr(0, termios.TCSANOW, attributes)
        os.set_blocking(0, False)
        os.write(0, RESTORE.encode())
        os.set_blocking(0, True)


def end_process(code: int) -> None:
    """End at once, though a thread is still inside a long layer."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _attributes() -> list[Any] | None:
    with contextlib.suppress(termios.error, OSError):
        return termios.tcgetattr(0)
    return None
