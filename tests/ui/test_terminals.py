"""Terminals as they are over SSH: few colours, odd locales, suspended, gone quiet."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.terminal import Terminal
from workbench.ui.terminal_fit import doubtful_characters, why_no_screen

ROOT = Path(__file__).resolve().parents[2]
STARTED = "r runs this sweep"
APP = (sys.executable, "-m", "tests.ui.stuck_app", "nowhere")


@pytest.mark.parametrize(
    ("environment", "doubtful"),
    [
        ({}, False),
        ({"LANG": "en_GB.UTF-8"}, False),
        ({"LANG": "C", "LC_ALL": "C.utf8"}, False),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, True),
        ({"LC_ALL": "", "LANG": "C"}, True),
    ],
)
def test_a_locale_that_is_not_utf_8_is_told_in_ascii(environment: Mapping[str, str], doubtful: bool) -> None:
    words = doubtful_characters(environment)
    assert bool(words) is doubtful
    assert words.isascii()


def test_a_terminal_without_a_screen_is_refused_with_what_to_do() -> None:
    assert "TERM=xterm-256color workbench" in why_no_screen({"TERM": "dumb"})
    assert why_no_screen({"TERM": "screen"}) == why_no_screen({}) == ""
    with Terminal([sys.executable, "-m", "workbench"], 80, 24, cwd=ROOT, changed={"TERM": "dumb"}) as terminal:
        assert terminal.wait_for_exit() == 2
        assert "This terminal calls itself 'dumb' (TERM)" in terminal.text


def test_in_another_locale_the_app_opens_with_a_message_and_ascii() -> None:
    with Terminal(APP, 80, 24, cwd=ROOT, changed={"LC_ALL": "POSIX"}) as terminal:
        terminal.wait_for("The locale is POSIX (LC_ALL), which is not UTF-8")
        terminal.send("\x1b")
        terminal.wait_for(lambda shown: "The locale" not in shown)
        terminal.send("q")
        assert terminal.wait_for_exit() == 0


@pytest.mark.parametrize(
    "changed",
    [{"TERM": "screen"}, {"TERM": "tmux-256color"}, {"TERM": "xterm", "COLORTERM": ""}, {"NO_COLOR": "1"}],
    ids=["screen", "tmux", "16 colours", "NO_COLOR"],
)
def test_colours_stay_within_the_sixteen_of_the_terminal(changed: Mapping[str, str]) -> None:
    with Terminal(APP, 80, 24, cwd=ROOT, changed=changed) as terminal:
        terminal.wait_for(STARTED)
        terminal.send("r")
        terminal.wait_for("finished")
        colours = {cell.fg for line in terminal.screen.buffer.values() for cell in line.values()}
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        assert terminal.echoes
    # A colour of 256 or of 24 bits would be six hexadecimal digits.
    named = {colour for colour in colours if not colour.removeprefix("bright")[:1].isdigit()}
    assert colours == named
    if "NO_COLOR" in changed:
        assert colours == {"default"}


def see_a_pane_and_leave(terminal: Terminal) -> None:
    terminal.wait_for(STARTED)
    terminal.send("2")
    terminal.wait_for("enter explain")
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.echoes


def test_ctrl_z_gives_the_terminal_back_and_fg_draws_the_screen_anew() -> None:
    with Terminal(APP, 80, 24, cwd=ROOT) as terminal:
        terminal.wait_for(STARTED)
        terminal.send("\x1a")
        terminal.wait_until_stopped()
        assert terminal.echoes
        terminal.screen.reset()
        terminal.signal(signal.SIGCONT)
        see_a_pane_and_leave(terminal)


def test_begun_in_the_background_it_takes_the_terminal_once_it_comes_to_the_front() -> None:
    shell = ("bash", "-c", f"set -m; {shlex.join(APP)} & wait %1; fg")
    with Terminal(shell, 80, 24, cwd=ROOT) as terminal:
        see_a_pane_and_leave(terminal)


def test_ctrl_z_does_not_stop_a_measurement_midway() -> None:
    with Terminal((*APP[:-1], "layer"), 80, 24, cwd=ROOT) as terminal:
        terminal.wait_for(STARTED)
        terminal.send("r")
        terminal.wait_for("prompt 64")
        terminal.send("\x1a")
        terminal.wait_for("Suspending would stop it")
        terminal.send("\x03")
        assert terminal.wait_for_exit() == 130


def test_it_listens_on_no_socket_and_asks_no_network(tmp_path: Path) -> None:
    """Every look-up and connection of the process would end it: Python's audit hooks see them all."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def refuse(event, arguments):\n"
        "    if event in ('socket.bind', 'socket.connect', 'socket.getaddrinfo', 'socket.sendto'):\n"
        "        os.write(2, f'network: {event} {arguments}'.encode())\n"
        "        os._exit(99)\n"
        "sys.addaudithook(refuse)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    with Terminal(APP, 80, 24, cwd=ROOT, changed={"PYTHONPATH": path}) as terminal:
        terminal.wait_for(STARTED)
        terminal.send("r")
        terminal.wait_for("finished")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
    sweep = [sys.executable, "-m", "workbench", "sweep", "smollm2-135m", "--prompts", "1", "--new-tokens", "2"]
    with Terminal([*sweep, "--repeats", "1"], 80, 24, cwd=ROOT, changed={"PYTHONPATH": path}) as terminal:
        assert terminal.wait_for_exit() == 0, terminal.text
