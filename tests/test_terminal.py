"""The pseudo-terminal that other tests look at: it answers what a terminal is asked, and shows no half frame."""

import sys

from tests.terminal import YES_FRAMES, Terminal

ASKS = """
import os, sys, tty
tty.setraw(0)
os.write(1, b'\\x1b[?2026$p')
answer = os.read(0, 100).decode()
os.write(1, b'\\x1b[2J\\x1b[H' + repr(answer).encode() + b'\\x1b[?2026h')
for word in (b'first ', b'then ', b'last\\x1b[?2026l'):
    os.write(1, word)
os.read(0, 1)
"""


def test_a_frame_is_looked_at_when_it_is_whole() -> None:
    with Terminal([sys.executable, "-c", ASKS], 80, 24) as terminal:
        shown = terminal.wait_for("first")
        assert shown.splitlines()[0] == f"{YES_FRAMES!r}first then last"
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
