"""The app as the selfcheck plays it, on a terminal of its own: idle, with a sweep on screen, or with keys typed."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from textual import on

from workbench.experiments.selfcheck.blocks import Hold
from workbench.experiments.selfcheck.comparison import Condition
from workbench.experiments.selfcheck.selfcheck import Experimented
from workbench.experiments.settings import SweepSettings
from workbench.runner import Runner
from workbench.ui.app import WorkbenchApp
from workbench.ui.bridge import ExperimentEnded
from workbench.ui.drained_terminal import drained_terminal
from workbench.ui.ready_run import ReadyRun

SETTLE_S = 1.5
"""From the first paint until the presets have been read and the rates looked up."""
HELD_S = 30.0
"""The longest that the screen is held still: its thread goes on by itself then."""


def in_app(
    runner: Runner,
    condition: Condition,
    settings: SweepSettings,
    swept: Experimented,
    hold_with: Callable[[Hold], None],
) -> None:
    """Open the app, drive the sweep in it as the condition has it, and close it; raises what the sweep raised."""
    app = _PlayedApp(runner, condition, settings, swept)
    with drained_terminal(keys=condition is Condition.KEYS_PRESSED) as terminal:
        hold_with(lambda: app.held(terminal))
        app.run(mouse=False)
    if app.error is not None:
        raise app.error
    if not app.ended:
        raise KeyboardInterrupt


class _PlayedApp(WorkbenchApp):
    """The app, which starts its sweep when it has settled and leaves when the sweep is over."""

    def __init__(self, runner: Runner, condition: Condition, settings: SweepSettings, swept: Experimented) -> None:
        super().__init__(settings, runner=runner)
        self.error: BaseException | None = None
        self.ended = False
        self._condition = condition
        self._swept = swept

    def on_mount(self) -> None:
        """Wait until the app has settled."""
        self._here = asyncio.get_running_loop()
        self.set_timer(SETTLE_S, self._begin)

    @contextlib.contextmanager
    def held(self, terminal: int) -> Iterator[None]:
        """Hold the screen's thread and the terminal's process still; called in another thread."""
        reached, released = threading.Event(), threading.Event()

        def hold() -> None:
            reached.set()
            released.wait(HELD_S)

        self._here.call_soon_threadsafe(hold)
        reached.wait(HELD_S)
        os.kill(terminal, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(terminal, signal.SIGCONT)
            released.set()

    def _begin(self) -> None:
        experiment = self._swept(self.window)
        if self._condition is Condition.IDLE_APP:
            self.runner.start(experiment, lambda _event: None, self._bridge.done)
        else:
            self.start(ReadyRun(self._settings, "prefill_decode", experiment))

    @on(ExperimentEnded)
    def _leave(self, message: ExperimentEnded) -> None:
        self.error, self.ended = message.error, True
        self.exit(0)
