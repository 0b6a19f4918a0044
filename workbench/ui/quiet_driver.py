"""Textual's driver for a Unix terminal, which sleeps while no key is pressed."""

import os
import select
import threading
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

LOOKS_AFTER_A_KEY = 5
"""A tenth of a second each: an escape that begins no key's sequence is told from one that does by the time passed."""


class QuietDriver(LinuxDriver):
    """Textual's own looks at the terminal ten times a second, in timed windows too; that alone is some 0.3 % of a core.

    Its thread asks `exit_event` before each look, so that is where it is made to wait.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.exit_event = ExitOrKey(self)


class ExitOrKey(threading.Event):
    """The sign that no more keys are read; the thread that reads them waits in `is_set` for it or for a key."""

    def __init__(self, driver: LinuxDriver) -> None:
        super().__init__()
        self._driver = driver
        self._woken, self._wake = os.pipe()
        self._looks = 0

    def is_set(self) -> bool:
        """Whether it is set; asked by the reading thread, only once there is something to read or it is set."""
        if threading.current_thread() is self._driver._key_thread:
            self._wait()
        return super().is_set()

    def set(self) -> None:
        """Set it, and wake the reading thread."""
        super().set()
        os.write(self._wake, b"\n")

    def clear(self) -> None:
        """Clear it, for a thread that reads anew."""
        if super().is_set():
            os.read(self._woken, 1)
        super().clear()

    def _wait(self) -> None:
        watched = [self._driver.fileno, self._woken]
        if any(select.select(watched, [], [], 0)):
            self._looks = 0
        elif self._looks < LOOKS_AFTER_A_KEY:
            self._looks += 1
        else:
            select.select(watched, [], [])
            self._looks = 0
