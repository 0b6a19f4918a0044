"""Every way out ends the process and gives the terminal back, however long the engine is stuck."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal import Terminal
from workbench.runs.run import RunStatus
from workbench.runs.store import Store
from workbench.ui.run_app import RUNNER_WAIT_S
from workbench.ui.terminal import LEAVE_WITHIN_S

ROOT = Path(__file__).resolve().parents[2]
STARTED = "r runs this sweep"


def open_app(place: str) -> Terminal:
    return Terminal([sys.executable, "-m", "tests.ui.stuck_app", place], 80, 24, cwd=ROOT)


def test_all_that_leaving_waits_for_keeps_within_two_seconds() -> None:
    assert RUNNER_WAIT_S < LEAVE_WITHIN_S < 2.0


@pytest.mark.parametrize(
    ("place", "way_out", "code"),
    [
        ("layer", lambda terminal: terminal.send("q"), 0),
        ("layer", lambda terminal: terminal.send("\x03"), 130),
        ("loading", lambda terminal: terminal.send("\x03"), 130),
        ("layer", lambda terminal: terminal.signal(signal.SIGTERM), 143),
        ("loading", lambda terminal: terminal.signal(signal.SIGTERM), 143),
        ("layer", lambda terminal: terminal.signal(signal.SIGHUP), 129),
        ("layer", lambda terminal: terminal.signal(signal.SIGINT), 130),
    ],
    ids=["q", "ctrl+c", "ctrl+c loading", "SIGTERM", "SIGTERM loading", "SIGHUP", "SIGINT"],
)
def test_leaving_a_stuck_run(place: str, way_out: Callable[[Terminal], None], code: int) -> None:
    with open_app(place) as terminal:
        terminal.wait_for(STARTED)
        terminal.send("r")
        terminal.wait_for("prompt 64" if place == "layer" else "loading smollm2-135m")
        way_out(terminal)
        assert terminal.wait_for_exit() == code
        assert terminal.echoes
    with Store() as store:
        run = store.run("last")
        assert run.status is RunStatus.INTERRUPTED
        assert run.rows == (1 if place == "layer" else 0)


@pytest.mark.parametrize(
    ("keys", "opened", "way_out", "code"),
    [
        ("e", "Export the run as CSV to", lambda terminal: terminal.signal(signal.SIGTERM), 143),
        ("e", "Export the run as CSV to", lambda terminal: terminal.send("\x03"), 130),
        ("?", "esc close", lambda terminal: terminal.signal(signal.SIGHUP), 129),
        ("6", "1/2", lambda terminal: terminal.send("\x11"), 0),
    ],
    ids=["export, SIGTERM", "export, ctrl+c", "help, SIGHUP", "runs, ctrl+q"],
)
def test_leaving_a_stuck_run_with_something_else_in_sight(
    keys: str, opened: str, way_out: Callable[[Terminal], None], code: int
) -> None:
    with open_app("layer") as terminal:
        terminal.wait_for(STARTED)
        terminal.send("r")
        terminal.wait_for("prompt 64")
        terminal.send(keys)
        terminal.wait_for(opened)
        way_out(terminal)
        assert terminal.wait_for_exit() == code
        assert terminal.echoes
    with Store() as store:
        assert store.run("last").status is RunStatus.INTERRUPTED


@pytest.mark.parametrize("keys", ["q", "?\x11", "\x10\x03"], ids=["idle", "help open", "palette open"])
def test_leaving_without_a_run(keys: str) -> None:
    with open_app("nowhere") as terminal:
        terminal.wait_for(STARTED)
        terminal.send(keys)
        assert terminal.wait_for_exit() == 0
        assert terminal.echoes


@pytest.mark.parametrize("place", ["layer", "nowhere"])
def test_a_terminal_that_goes_away_ends_the_process(place: str) -> None:
    with open_app(place) as terminal:
        terminal.wait_for(STARTED)
        if place == "layer":
            terminal.send("r")
            terminal.wait_for("prompt 64")
        spare = os.open("/dev/null", os.O_RDONLY)
        # The terminal's other end closes, as when a link is lost; its number stays taken for the clean-up.
        os.dup2(spare, terminal.descriptor)
        os.close(spare)
        _, status = os.waitpid(terminal.process_id, 0)
        terminal.exit_code = os.waitstatus_to_exitcode(status)
        assert terminal.exit_code == 129
