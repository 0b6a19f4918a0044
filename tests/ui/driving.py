"""The app under Textual's pilot, on an engine whose timings are decided beforehand."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from tests.fakes import fake_load
from workbench.experiments.settings import SweepSettings
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.explanation import TextScreen

GUARD_S = 120.0
"""What has not come to be by then never will."""
LOOK_S = 0.005
SIZES = ((80, 24), (120, 40))
PROMPTS = (1, 16, 64)


class Gate:
    """Holds the measuring thread inside a timed window until it is let on."""

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, prompt: int) -> None:
        if prompt == self.prompt and not self.open.is_set():
            self.reached.set()
            assert self.open.wait(GUARD_S)


def an_app(
    on_request: Callable[[int], None] = lambda prompt: None,
    failing_prompts: frozenset[int] = frozenset(),
    **settings: Any,
) -> WorkbenchApp:
    chosen = {"model": "smollm2-135m", "prompts": PROMPTS, "repeats": 2, **settings}
    app = WorkbenchApp(SweepSettings(**chosen), fake_load(failing_prompts, on_request))
    # A window that a gate holds open is far too short for what tests press in it.
    app.key_allowance.saved_s = app.key_allowance.most_s = GUARD_S
    return app


async def until(pilot: Pilot[Any], true: Callable[[], bool]) -> None:
    """Let the app work until something is true, and until it shows that."""
    deadline = time.monotonic() + GUARD_S
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(LOOK_S)
    await pilot.pause()


async def finished(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """Run to the end and until the screen shows it."""
    await until(pilot, lambda: app.live is not None and app.live.over and not app.runner.busy)


def shown(app: WorkbenchApp, place: str) -> str:
    """The text of a line of the base screen."""
    return str(app.screen_stack[0].query_one(place, Static).content)


def message(app: WorkbenchApp) -> str:
    """The text over the panes."""
    assert isinstance(app.screen, TextScreen), "nothing stands over the panes"
    return app.screen.title_text + "\n" + app.screen.text
