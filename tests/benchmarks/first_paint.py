"""First paint of the app, from the command to the first screen in a pseudo-terminal, against importing torch."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from statistics import median

from tests.benchmarks.report import print_bar, spread

ROUNDS = 9
SHOWN = b"Setup"


def paint_seconds() -> float:
    """Seconds from starting the command until the Setup pane has been written to the terminal."""
    started = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "workbench"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written = b""
    while SHOWN not in written:
        written += os.read(terminal, 65536)
    seconds = time.perf_counter() - started
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(terminal)
    return seconds


def import_seconds() -> float:
    """Seconds a process that only imports torch takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - started


def main() -> None:
    paint_seconds(), import_seconds()
    pairs = [(paint_seconds(), import_seconds()) for _ in range(ROUNDS)]
    print(f"first paint s: {spread([paint for paint, _ in pairs])}")
    print(f"import torch s: {spread([load for _, load in pairs])}")
    paint, ratio = median(p for p, _ in pairs), median(p / load for p, load in pairs)
    print_bar("first paint in seconds", paint, "at most 0.6", paint <= 0.6)
    print_bar("first paint over import torch", ratio, "at most 0.5", ratio <= 0.5)


if __name__ == "__main__":
    main()
