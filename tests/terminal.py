"""A pseudo-terminal with a screen that can be read, in which a real process runs."""

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte

GUARD_S = 120.0
USUAL = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
"""What a terminal says of itself, whatever the tests' own says."""
FRAMES = 2026
"""The mode between whose setting and resetting a program draws one frame."""
ASKED_FOR_FRAMES, YES_FRAMES = f"\x1b[?{FRAMES}$p".encode(), f"\x1b[?{FRAMES};2$y"


class Terminal:
    """A process in a terminal of `columns` by `lines`; waiting for what never comes fails after a guard.

    It tells programs that it shows whole frames, and is looked at between them only.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        columns: int,
        lines: int,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        changed: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.bytes_written = 0
        self._last_bytes = b""
        self.exit_code: int | None = None
        child, self.descriptor = pty.fork()
        if child == 0:
            if cwd is not None:
                os.chdir(cwd)
            os.execvpe(arguments[0], list(arguments), {**(environment or os.environ), **USUAL, **(changed or {})})
        self.process_id = child
        self.resize(columns, lines)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
            self.wait_for_exit()
        os.close(self.descriptor)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, as a window does."""
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.descriptor, keys.encode())

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        os.kill(self.process_id, number)

    @property
    def text(self) -> str:
        """What the screen shows."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def reversed_lines(self, columns: range) -> list[int]:
        """Numbers of the lines with something in reverse in those columns, as what has the keys is shown."""
        return [y for y in range(self.screen.lines) if any(self.screen.buffer[y][x].reverse for x in columns)]

    def wait_for(self, wanted: str | Callable[[str], bool]) -> str:
        """Read until the screen shows `wanted`; what it shows then."""
        shows = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + GUARD_S
        while self._is_mid_frame or not shows(self.text):
            assert time.monotonic() < deadline, f"never saw {wanted!r}:\n{self.text}"
            assert self._read() or shows(self.text), f"the process ended before {wanted!r}:\n{self.text}"
        return self.text

    def let_pass(self, seconds: float) -> int:
        """Read what is written for so long, as a terminal does; how many bytes that were."""
        before, until = self.bytes_written, time.monotonic() + seconds
        while time.monotonic() < until:
            self._read()
        return self.bytes_written - before

    def wait_for_exit(self) -> int:
        """Read until the process has gone; its exit code, negative for a signal."""
        deadline = time.monotonic() + GUARD_S
        while self.exit_code is None:
            assert time.monotonic() < deadline, f"it never ended:\n{self.text}"
            self._read()
            gone, status = os.waitpid(self.process_id, os.WNOHANG)
            if gone:
                self.exit_code = os.waitstatus_to_exitcode(status)
        while self._read():
            pass
        return self.exit_code

    def wait_until_stopped(self) -> None:
        """Read until the process is suspended."""
        deadline = time.monotonic() + GUARD_S
        while not os.waitpid(self.process_id, os.WNOHANG | os.WUNTRACED)[0]:
            assert time.monotonic() < deadline, f"it was never suspended:\n{self.text}"
            self._read()

    @property
    def echoes(self) -> bool:
        """Whether the terminal is back in its ordinary mode: it echoes and reads whole lines."""
        local_modes = termios.tcgetattr(self.descriptor)[3]
        return bool(local_modes & termios.ECHO and local_modes & termios.ICANON)

    def _read(self) -> bool:
        """Take in what was written within a moment; False once the other side is closed."""
        readable, _, _ = select.select([self.descriptor], [], [], 0.1)
        if not readable:
            return self.exit_code is None
        try:
            written = os.read(self.descriptor, 1 << 16)
        except OSError as error:
            if error.errno == errno.EIO:
                return False
            raise
        self.bytes_written += len(written)
        self._stream.feed(written)
        if ASKED_FOR_FRAMES in self._last_bytes + written:
            self.send(YES_FRAMES)
        self._last_bytes = written[1 - len(ASKED_FOR_FRAMES) :]
        return bool(written)

    @property
    def _is_mid_frame(self) -> bool:
        # pyte keeps a private mode by its number, shifted.
        return FRAMES << 5 in self.screen.mode
