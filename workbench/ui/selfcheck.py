"""The app as the selfcheck plays it, on a terminal of its own: idle, with a sweep on screen, or with keys typed."""

from textual import on

from workbench.experiments.selfcheck import Condition, Experimented
from workbench.experiments.settings import SweepSettings
from workbench.runner import Runner
from workbench.ui.app import WorkbenchApp
from workbench.ui.bridge import ExperimentEnded
from workbench.ui.drained_terminal import drained_terminal

SETTLE_S = 1.5
"""From the first paint until the presets have been read and the rates looked up."""


def in_app(runner: Runner, condition: Condition, settings: SweepSettings, swept: Experimented) -> None:
    """Open the app, drive the sweep in it as the condition has it, and close it; raises what the sweep raised."""
    app = _PlayedApp(runner, condition, settings, swept)
    with drained_terminal(keys=condition is Condition.KEYS_PRESSED):
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
        self.set_timer(SETTLE_S, self._begin)

    def _begin(self) -> None:
        experiment = self._swept(self.window)
        if self._condition is Condition.IDLE_APP:
            self.runner.start(experiment, lambda _event: None, self._bridge.done)
        else:
            self._start(self._settings, "prefill_decode", experiment)

    @on(ExperimentEnded)
    def _leave(self, message: ExperimentEnded) -> None:
        self.error, self.ended = message.error, True
        self.exit(0)
