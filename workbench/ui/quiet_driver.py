"""Textual's driver for a Unix terminal, which sleeps while no key is pressed."""

import os
import select
import threading
import time
from codecs import getincrementaldecoder
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from workbench.experiments import suspension

MOST_BYTES_AT_ONCE = 4096


class QuietDriver(LinuxDriver):
    """Textual's own looks at the terminal ten times a second, in timed windows too; that alone is some 0.3 % of a core.

    This one waits for a key, or until an escape that nothing has followed is known to be a key of its own.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.exit_event = self.leaving = WakingEvent()
        self._has_terminal = False
        self._asked_again = False

    def start_application_mode(self) -> None:
        """Take the terminal; one in the background is stopped at that by the system, and takes it once continued."""
        before = self._writer_thread
        self._asked_again = True
        while self._asked_again and self._writer_thread is before:
            self._asked_again = False
            super().start_application_mode()  # type: ignore[no-untyped-call]
        self._has_terminal = self._writer_thread is not before

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        self._has_terminal = False
        super().stop_application_mode()

    def _sigcont_application(self, *signalled: Any) -> None:
        """Take the terminal anew after a stop, also one from outside, of which there was no word before."""
        suspension.continued()
        if self._auto_restart and self._has_terminal:
            self.suspend_application_mode()
            self._must_signal_resume = True
        if self._must_signal_resume:
            super()._sigcont_application(*signalled)
        self._asked_again = True

    def run_input_thread(self) -> None:
        """Hand on what is typed, until it is `leaving` or the terminal has gone."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        terminal, woken = self.fileno, self.leaving.woken
        while not self.leaving.is_set():
            escape_ends = parser._timeout_time
            timeout_s = None if escape_ends is None else max(0.0, escape_ends - time.monotonic())
            readable, _, _ = select.select([terminal, woken], [], [], timeout_s)
            if terminal in readable:
                typed = _read(terminal)
                if not typed:
                    return
                for event in parser.feed(decode(typed)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)


def _read(terminal: int) -> bytes:
    """What was typed; nothing from a terminal that has gone."""
    try:
        return os.read(terminal, MOST_BYTES_AT_ONCE)
    except OSError:
        return b""


class WakingEvent(threading.Event):
    """An event that a select can wait for: `woken` can be read from while it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.woken, self._wake = os.pipe()

    def set(self) -> None:
        """Set it, and wake who waits."""
        if not self.is_set():
            super().set()
            os.write(self._wake, b"\n")

    def clear(self) -> None:
        """Clear it, for a thread that reads anew."""
        if self.is_set():
            os.read(self.woken, 1)
        super().clear()
