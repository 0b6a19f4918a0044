"""A terminal for an app that nobody looks at: a process of its own takes in what is drawn, and types."""

import contextlib
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

from workbench.paths import log_file

COLUMNS, LINES = 120, 40
KEY_EVERY_S = 0.5
KEYS = (b"\x1b[B", b"\x1b[A", b"\x1b[C", b"4", b"3", b"\x1b[D")
"""Down, up and right in the table, another pane and back, left."""
MOST_BYTES_AT_ONCE = 1 << 16
END_WAIT_S = 2.0


@contextlib.contextmanager
def drained_terminal(*, keys: bool) -> Iterator[int]:
    """Standard input and output are such a terminal meanwhile, with or without keys typed; the process behind it."""
    from workbench.ui.terminal import library_output_to

    far_end, near_end = os.openpty()
    termios.tcsetwinsize(near_end, (LINES, COLUMNS))
    command = [sys.executable, "-m", __name__, str(far_end), *(["keys"] if keys else [])]
    reader = subprocess.Popen(command, pass_fds=[far_end], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    os.close(far_end)
    sys.stdout.flush()
    saved = {number: os.dup(number) for number in (0, 1)}
    try:
        for number in saved:
            os.dup2(near_end, number)
        os.close(near_end)
        with library_output_to(log_file()):
            yield reader.pid
    finally:
        for number, descriptor in saved.items():
            os.dup2(descriptor, number)
            os.close(descriptor)
        with contextlib.suppress(subprocess.TimeoutExpired):
            reader.wait(END_WAIT_S)
        reader.kill()
        reader.wait()


def drain(far_end: int, *, keys: bool) -> None:
    """Read until the other end is closed, and type a key now and then."""
    typed, next_key = 0, time.monotonic() + KEY_EVERY_S
    while True:
        timeout_s = max(0.0, next_key - time.monotonic()) if keys else None
        readable, _, _ = select.select([far_end], [], [], timeout_s)
        try:
            if readable and not os.read(far_end, MOST_BYTES_AT_ONCE):
                return
            if keys and time.monotonic() >= next_key:
                os.write(far_end, KEYS[typed % len(KEYS)])
                typed, next_key = typed + 1, time.monotonic() + KEY_EVERY_S
        except OSError:
            return


if __name__ == "__main__":
    drain(int(sys.argv[1]), keys=sys.argv[2:] == ["keys"])
