"""The one run that is driven, and the screen kept up to date with it without disturbing what is timed."""

import logging
from collections.abc import Iterable
from contextlib import suppress

from textual import events, on
from textual._context import active_message_pump
from textual.app import App, ComposeResult
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from workbench.engines.engine import load_engine
from workbench.errors import WorkbenchError
from workbench.experiments.events import Event, Started
from workbench.experiments.measured_run import Load
from workbench.experiments.probe import OpenGrid, open_torch_grid
from workbench.experiments.settings import SweepSettings
from workbench.experiments.sittings import kept_settings
from workbench.experiments.window import TimedWindow
from workbench.paths import log_file
from workbench.runner import Experiment, Runner
from workbench.runs.measuring import Measuring, others_words
from workbench.runs.store import Store
from workbench.tracks import Track
from workbench.ui.box_watch import BoxWatch
from workbench.ui.bridge import Bridge, ExperimentEnded, ExperimentSaid, PaintAll, Waiting
from workbench.ui.frame import WIDE, Frame
from workbench.ui.held_keys import HeldKeys
from workbench.ui.key_allowance import LONGEST_WAIT_S, KeyAllowance
from workbench.ui.live_probe import LiveProbe, calibration_lines
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.runs import RunsPane
from workbench.ui.panes.setup import SetupPane
from workbench.ui.quiet_driver import QuietDriver
from workbench.ui.ready_run import ReadyRun
from workbench.ui.widgets.box_view import BoxScreen
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.symptoms_view import perturbation_screen

log = logging.getLogger(__name__)

LEAST_SIZE = (80, 24)
TICK_S, IDLE_TICK_S = 1.0, 3.0
"""Seconds between two looks at the box while something is measured or its view is open, and else."""
TICK_AFTER_S, WINDOW_TICK_S = 3.0, 3.0
"""When a window is long enough to show that it lives, and how often: each time costs some milliseconds."""


class MeasuringApp(App[int]):
    """The frame, the runner, and what the one says of the other; it answers no keys of its own."""

    def __init__(
        self,
        settings: SweepSettings,
        load: Load = load_engine,
        track: Track | None = None,
        runner: Runner | None = None,
    ) -> None:
        # The terminal's own colours; said here, because NO_COLOR is honoured as the app is made.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.window = TimedWindow()
        self.runner = runner or Runner(Store)
        self.live: LiveRun | None = None
        self.probing: LiveProbe | None = None
        self._others_told: frozenset[Measuring] = frozenset()
        self._perturbed: list[LiveRun] = []
        self._settings = settings
        self._track = track
        self._load = load
        self._open_grid: OpenGrid = open_torch_grid
        self._bridge = Bridge(self.post_message)
        self._waiting = Waiting()
        self.key_allowance = KeyAllowance(self.window)
        self._held_keys = HeldKeys(self.key_allowance)
        self.box_watch = BoxWatch()
        self._next_tick: Timer | None = None
        self.doubtful_characters = ""
        self._width = LEAST_SIZE[0]
        self._had_keys: Widget | None = None

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, that for a Unix terminal without its looks at idle keys."""
        chosen = super().get_driver_class()
        return QuietDriver if chosen is LinuxDriver else chosen

    def compose(self) -> ComposeResult:
        """The frame with its panes, and what stands in its place in too small a terminal."""
        yield Frame(self._settings, self._track, self._may_draw, id="workbench")
        yield Static("", id="too-small", markup=False)

    @property
    def frame(self) -> Frame:
        """The base screen's own, whatever stands over it."""
        return self.screen_stack[0].query_one(Frame)

    def on_mount(self) -> None:
        """Take up the window and the clock that looks at the box once a second."""
        self.window.settle = self._bridge.settle
        self.frame.show_pane("setup")
        self._show_frame()
        self.watch(self.screen, "focused", self._show_keys, init=False)
        self.call_after_refresh(self._tick)
        self.call_after_refresh(self._look_up_rates)
        if self.doubtful_characters:
            self.frame.turn_markers()
            self._say("The characters of this terminal", self.doubtful_characters)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size, or say what is needed."""
        width, height = event.size
        self._width = width
        base = self.screen_stack[0]
        base.set_class(width < WIDE, "-narrow")
        small = width < LEAST_SIZE[0] or height < LEAST_SIZE[1]
        if small and not base.has_class("-too-small"):
            self._had_keys = base.focused
        base.set_class(small, "-too-small")
        if not small and self._had_keys is not None:
            # What is hidden loses the keys, and Textual does not give them back.
            self.call_after_refresh(base.set_focus, base.focused or self._had_keys)
            self._had_keys = None
        if small:
            base.query_one("#too-small", Static).update(
                f"Inference Workbench needs {LEAST_SIZE[0]} columns and {LEAST_SIZE[1]} lines; "
                f"this terminal has {width} by {height}. Enlarge it, or press q to quit. A run goes on meanwhile."
            )
        self._show_frame()

    async def on_event(self, event: events.Event) -> None:
        """Hold a key back while something is timed and answering it would disturb that too much."""
        if isinstance(event, events.Key) and self._held_keys.hold(event, typing=isinstance(self.focused, Input)):
            self.set_timer(LONGEST_WAIT_S, self._answer_held_keys)
            return
        await super().on_event(event)

    async def _answer_held_keys(self) -> None:
        """Answer those that waited, in order, as far as it may be now."""
        for key in self._held_keys.due():
            await super().on_event(key)

    def _may_draw(self) -> bool:
        return not self.window.is_open

    # Events of the run

    @on(ExperimentSaid)
    async def _take_event(self, message: ExperimentSaid) -> None:
        self._waiting.add(message.event)
        if not self.window.is_open:
            await self._answer_held_keys()
            self._catch_up()

    @on(ExperimentEnded)
    async def _take_end(self, message: ExperimentEnded) -> None:
        error = message.error
        await self._answer_held_keys()
        if self.probing is not None:
            self._end_probe(error)
            return
        if error is not None and self.live is not None:
            self.live.failure = "see the message" if isinstance(error, WorkbenchError) else type(error).__name__
        self._catch_up()
        self._look_up_rates()
        if self.frame.pane == "runs":
            self.frame.runs_pane.look_again()
        if isinstance(error, WorkbenchError):
            self._say("The run was not done", str(error), is_error=True)
        elif error is not None:
            self._say_unexpected(error)
        elif perturbed := [row for live in self._perturbed for row in live.rows]:
            self.push_screen(perturbation_screen(perturbed))
        self._perturbed = []

    @on(PaintAll)
    async def _paint_all(self, message: PaintAll) -> None:
        await self._answer_held_keys()
        self._catch_up()

        def painted() -> None:
            self.key_allowance.painted()
            message.painted.set()

        # Twice: what the first refresh lays out is painted by the second.
        self.call_after_refresh(self.call_after_refresh, painted)

    def _catch_up(self) -> None:
        """Bring the screen up to date with everything that waited."""
        events_waiting = self._waiting.take()
        if self.probing is not None:
            self._show_probe(self.probing, events_waiting)
            return
        live = self.live
        if live is None:
            return
        try:
            for event in events_waiting:
                live = self._run_of(event, live)
                live.apply(event)
            self.frame.show_run(live)
            self.frame.show_timing(None)
            self._show_frame()
            self._show_strip()
        except Exception as error:
            # A fault in drawing must not end a measurement that may have run for hours.
            self._say_unexpected(error)

    def _run_of(self, event: Event, live: LiveRun) -> LiveRun:
        """The run that an event belongs to: the next one once an experiment of several begins it."""
        if not isinstance(event, Started) or live.run is None:
            return live
        before = self.frame.pane_of(live)
        before.show(live)
        self.live = following = LiveRun(kept_settings(event.run))
        self._perturbed.append(following)
        if self.frame.pane == before.id:
            self.action_pane(str(self.frame.pane_of(following).id))
        return following

    def _beat(self) -> None:
        """Tick again when it is time: an idle app hardly wakes."""
        if self._next_tick is not None:
            self._next_tick.stop()
        lively = self.runner.busy or isinstance(self.screen, BoxScreen)
        busy_s = WINDOW_TICK_S if self.window.is_open else TICK_S
        self._next_tick = self.set_timer(busy_s if lively else IDLE_TICK_S, self._tick)

    def _tick(self) -> None:
        if not self.screen_stack:
            # The app has left meanwhile.
            return
        self._beat()
        if self._held_keys:
            self.call_later(self._answer_held_keys)
        if self.window.is_open:
            # Silence costs the measurement nothing, a label now and then little.
            if self.window.open_seconds > TICK_AFTER_S:
                self.frame.show_timing(self.window.open_seconds)
            return
        self.frame.show_timing(None)
        if self._waiting:
            self._catch_up()
        self._show_strip()

    def _show_strip(self) -> None:
        self.frame.strip.show(self.box_watch.look(), self.live)
        if isinstance(self.screen, BoxScreen):
            self.screen.show(self.box_watch.history(self.live))

    def _look_up_rates(self) -> None:
        """Take over what a run or probe has measured of this machine, by this process or another."""
        self.box_watch.look_up_rates()
        self._show_rates()
        self.frame.setup_pane.look_again()

    def _show_rates(self) -> None:
        """Show the rates of this machine, for weights of the type that Setup has chosen."""
        if (box := self.box_watch.box_for(self.frame.chosen.dtype)) is not None:
            self.frame.strip.show_box(box)
            if self.probing is None:
                self.frame.setup_pane.show_box(box)

    # What is started and stopped

    def action_pane(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        self.frame.show_pane(pane)
        if pane == "setup":
            self._look_up_rates()
        self._show_frame()

    def _is_busy(self) -> bool:
        """Whether something is measured now, which is told."""
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
        return self.runner.busy

    def _is_beside_another(self) -> bool:
        """Whether another workbench measures on this machine that was not told of before; it is told now."""
        others: frozenset[Measuring] = frozenset()
        with suppress(WorkbenchError), Store() as store:
            others = store.measuring.others()
        are_new = bool(others - self._others_told)
        self._others_told = others
        if are_new:
            again = "Nothing was begun. Press the key again to measure all the same."
            self._say("Another measurement is running", f"{others_words(others)}\n\n{again}")
        return are_new

    def start(self, ready: ReadyRun) -> None:
        """Show the pane of a run, with the rows of its earlier sittings, and drive it."""
        self._waiting.take()
        self.live = LiveRun(ready.settings, rows=list(ready.earlier))
        self.action_pane(ready.pane)
        self._catch_up()
        self._drive(ready.experiment)

    def _drive(self, experiment: Experiment) -> None:
        self.runner.start(experiment, self._bridge.listen, self._bridge.done)
        self._beat()
        self._show_frame()

    def _show_probe(self, probing: LiveProbe, events_waiting: Iterable[Event]) -> None:
        for event in events_waiting:
            probing.apply(event)
        self.frame.setup_pane.show_probe(probing.summary())

    def _end_probe(self, error: BaseException | None) -> None:
        self._catch_up()
        probing, self.probing = self.probing, None
        self._look_up_rates()
        self._show_frame()
        if isinstance(error, WorkbenchError):
            self._say("The box was not probed", str(error), is_error=True)
        elif error is not None:
            self._say_unexpected(error)
        elif probing is not None and probing.calibration is not None:
            lines = list(calibration_lines(probing.calibration))
            self.push_screen(TextScreen(f"This box, probed · {probing.calibration.machine}", lines))

    def action_stop(self) -> None:
        """Stop the run within one layer or step; its rows stay."""
        if self.runner.busy and self.probing is not None:
            self.runner.cancel()
        elif self.runner.busy and self.live is not None:
            self.runner.cancel()
            self.live.stopping = True
            self._catch_up()
        else:
            self._say("Nothing is running", "There is no measurement to stop; r begins one.")

    def leave(self, code: int) -> None:
        """Cancel the run and end the app; safe from a signal handler and from another thread."""
        self.runner.cancel()
        if self._loop is None or self._loop.is_closed():
            return
        self.way_out(code)
        self._loop.call_soon_threadsafe(self.exit, code)

    def way_out(self, code: int) -> None:
        """Called when the app begins to leave; `run_app` puts a time limit on it."""

    # The frame around the panes

    @on(SetupPane.SettingsChanged)
    def _take_settings(self, message: SetupPane.SettingsChanged) -> None:
        if message.planned is not None:
            frame, settings = self.frame, message.planned.settings
            frame.ceiling_pane.follow(settings, frame.setup_pane.tracks)
            frame.batch_pane.follow(settings.track, frame.setup_pane.tracks)
            self._show_rates()
        self._show_frame()

    def _show_frame(self) -> None:
        self.frame.show_lines(self._width, self.live, self.runner.busy)

    @on(Entry.EditingChanged)
    @on(RunsPane.KeysChanged)
    def _show_keys(self) -> None:
        self.frame.show_keys(self.runner.busy, has_run=self.live is not None)

    # Messages

    def _say(self, title: str, text: str, *, is_error: bool = False) -> None:
        self.push_screen(TextScreen(title, [text], is_error=is_error))

    def _say_unexpected(self, error: BaseException) -> None:
        log.error("unexpected error", exc_info=error)
        self._say(
            "An unexpected error",
            f"{type(error).__name__}: {error}\n\nRows measured so far are in the store, and the app goes on. "
            f"The details are in {log_file()}: please report them.",
            is_error=True,
        )

    def _handle_exception(self, error: Exception) -> None:
        source = active_message_pump.get(None)
        if isinstance(source, Widget) and source.is_mounted and self._is_off_screen(source):
            log.warning("%r had an error after it was closed", source, exc_info=error)
            return
        log.error("the app ends on an unexpected error", exc_info=error)
        super()._handle_exception(error)

    def _is_off_screen(self, widget: Widget) -> bool:
        return not any(node in self.screen_stack for node in widget.ancestors_with_self)
