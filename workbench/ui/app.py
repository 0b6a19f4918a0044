"""The app: its panes, its keys, and the one run it drives."""

import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static

from workbench.ceilings.box import Box
from workbench.engines.engine import load_transformers
from workbench.errors import SettingsError, WorkbenchError
from workbench.experiments.batch import batch_sweep
from workbench.experiments.events import Event, Started
from workbench.experiments.gap.gap import gap
from workbench.experiments.gap.perturbation import perturbation, perturbations
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import check_before_loading
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.probe import OpenGrid, ProbeSettings, open_torch_grid, probe
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings, SweepSettings, check_settings
from workbench.experiments.sittings import earlier_sittings, kept_settings
from workbench.experiments.window import TimedWindow
from workbench.hardware.device import Device
from workbench.hardware.machine import this_machine
from workbench.hardware.monitor import Monitor, Sample
from workbench.paths import log_file, resource
from workbench.quantity import format_duration
from workbench.runner import Experiment, Runner
from workbench.runs.export import run_csv_text, write_text
from workbench.runs.measured_device import this_device
from workbench.runs.row import Row
from workbench.runs.store import Store
from workbench.runs.symptoms import explained_rows
from workbench.tracks import Track
from workbench.ui.bridge import Bridge, ExperimentEnded, ExperimentSaid, PaintAll, Waiting
from workbench.ui.commands import commands
from workbench.ui.help import help_text
from workbench.ui.kept_run import kept_run
from workbench.ui.key_allowance import LONGEST_WAIT_S, KeyAllowance
from workbench.ui.keys import key_line
from workbench.ui.live_probe import LiveProbe, calibration_lines
from workbench.ui.live_run import LiveRun, mark_interrupted
from workbench.ui.panes.batch import BatchPane
from workbench.ui.panes.ceiling import CeilingPane
from workbench.ui.panes.gap import GapPane
from workbench.ui.panes.prefill_decode import PrefillDecodePane
from workbench.ui.panes.run_pane import RunPane
from workbench.ui.panes.runs import RunsPane
from workbench.ui.panes.setup import SetupPane
from workbench.ui.quiet_driver import QuietDriver
from workbench.ui.terminal import WayOut, end_process, library_output_to
from workbench.ui.terminal_fit import doubtful_characters
from workbench.ui.title import tab_line, title_line
from workbench.ui.widgets.box_view import BoxHistory, BoxScreen
from workbench.ui.widgets.chart import ASCII, DOTS
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.export_dialog import ExportDialog
from workbench.ui.widgets.levels import ASCII_LEVELS, BLOCK_LEVELS, Levels
from workbench.ui.widgets.strip import Strip
from workbench.ui.widgets.symptoms_view import perturbation_screen, symptoms_screen

log = logging.getLogger(__name__)

LEAST_SIZE = (80, 24)
TICK_S, IDLE_TICK_S = 1.0, 3.0
"""Seconds between two looks at the box while something is measured or its view is open, and else."""
SAMPLE_S = 0.9
TICK_AFTER_S, WINDOW_TICK_S = 3.0, 3.0
"""When a window is long enough to show that it lives, and how often: each time costs some milliseconds."""
AT_ONCE, AT_ONCE_UNLESS_TYPED = frozenset({"ctrl+c", "ctrl+q"}), frozenset({"x", "q"})
"""Keys that stop or leave are answered whatever is being timed."""
RUNNER_WAIT_S = 1.0
INTERRUPTED_EXIT = 130
FIRST_FOCUS = {
    "setup": "#models",
    "ceiling": "#context-table",
    "prefill_decode": "#sweep-table",
    "batch": "#batch-sweep-table",
    "gap": "#ladder-table",
    "runs": "#runs-table",
}
"""The panes, and what has the keys when one is shown."""


class WorkbenchApp(App[int]):
    """The workbench on a terminal."""

    CSS_PATH = resource("styles") / "workbench.tcss"
    TITLE = "Inference Workbench"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane('setup')", "Setup"),
        Binding("2", "pane('ceiling')", "Ceiling"),
        Binding("3", "pane('prefill_decode')", "Prefill/Decode"),
        Binding("4", "pane('batch')", "Batch"),
        Binding("5", "pane('gap')", "Gap"),
        Binding("6", "pane('runs')", "Runs"),
        Binding("r", "run", "Run"),
        Binding("p", "probe", "Probe"),
        Binding("x", "stop", "Stop"),
        Binding("e", "export", "Export CSV"),
        Binding("w", "symptoms", "Why"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+q", "quit", "Quit", priority=True),
        Binding("ctrl+c", "interrupt", "Quit", priority=True),
        Binding("ctrl+z", "suspend", "Suspend", priority=True, show=False),
    ]
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"

    def __init__(
        self,
        settings: SweepSettings,
        load: Load = load_transformers,
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
        self._perturbed: list[LiveRun] = []
        self._settings = settings
        self._track = track
        self._load = load
        self._open_grid: OpenGrid = open_torch_grid
        self._bridge = Bridge(self.post_message)
        self._waiting = Waiting()
        self.key_allowance = KeyAllowance(self.window)
        self._held_keys: list[tuple[float, events.Key]] = []
        self._monitor = Monitor()
        self._sample: Sample | None = None
        self._sampled_at = 0.0
        self._next_tick: Timer | None = None
        self._device: Device | None = None
        self._box: Box | None = None
        self._markers = DOTS
        self.doubtful_characters = ""
        self._pane = "setup"
        self._width = LEAST_SIZE[0]

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice, that for a Unix terminal without its looks at idle keys."""
        chosen = super().get_driver_class()
        return QuietDriver if chosen is LinuxDriver else chosen

    def compose(self) -> ComposeResult:
        """Title, tabs, panes, strip, keys; and what stands in their place in too small a terminal."""
        with Container(id="workbench"):
            yield Static("", id="title", markup=False)
            with Horizontal(id="tab-line"):
                yield Static("", id="tabs")
                yield Static("", id="ticking", markup=False)
            yield SetupPane(self._settings, self._track, id="setup")
            yield CeilingPane(self._may_draw, id="ceiling")
            yield PrefillDecodePane(self._may_draw, id="prefill_decode")
            yield BatchPane(self._may_draw, id="batch")
            yield GapPane(id="gap")
            yield RunsPane(id="runs")
            yield Strip(this_machine(), id="strip")
            yield Static("", id="keys", markup=False)
        yield Static("", id="too-small", markup=False)

    def on_mount(self) -> None:
        """Take up the window and the clock that looks at the box once a second."""
        self.window.settle = self._bridge.settle
        self.action_pane("setup")
        self.watch(self.screen, "focused", self._show_keys, init=False)
        self.call_after_refresh(self._tick)
        self.call_after_refresh(self._look_up_rates)
        if self.doubtful_characters:
            self.action_markers()
            self._say("The characters of this terminal", self.doubtful_characters)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size, or say what is needed."""
        width, height = event.size
        self._width = width
        base = self.screen_stack[0]
        base.set_class(width < 120, "-narrow")
        small = width < LEAST_SIZE[0] or height < LEAST_SIZE[1]
        base.set_class(small, "-too-small")
        if small:
            base.query_one("#too-small", Static).update(
                f"Inference Workbench needs {LEAST_SIZE[0]} columns and {LEAST_SIZE[1]} lines; "
                f"this terminal has {width} by {height}. Enlarge it, or press q to quit. A run goes on meanwhile."
            )
        self._show_frame()

    async def on_event(self, event: events.Event) -> None:
        """Hold a key back while something is timed and answering it would disturb that too much."""
        if isinstance(event, events.Key) and self._must_wait(event):
            self._held_keys.append((time.monotonic(), event))
            self.set_timer(LONGEST_WAIT_S, self._answer_held_keys)
            return
        await super().on_event(event)

    def _must_wait(self, event: events.Key) -> bool:
        if event.key in AT_ONCE or (event.key in AT_ONCE_UNLESS_TYPED and not isinstance(self.focused, Input)):
            return False
        return bool(self._held_keys) or not self.key_allowance.answers()

    async def _answer_held_keys(self) -> None:
        """Answer those that waited, in order, as far as it may be now."""
        while self._held_keys and self.key_allowance.answers(time.monotonic() - self._held_keys[0][0]):
            _, key = self._held_keys.pop(0)
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
        if self._pane == "runs":
            self._runs_pane().look_again()
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
            pane = self._pane_of(live)
            pane.show(live)
            pane.catch_up()
            self._ceiling_pane().catch_up()
            self._put("#ticking", "")
            self._show_frame()
            self._show_strip()
        except Exception as error:
            # A fault in drawing must not end a measurement that may have run for hours.
            self._say_unexpected(error)

    def _run_of(self, event: Event, live: LiveRun) -> LiveRun:
        """The run that an event belongs to: the next one once an experiment of several begins it."""
        if not isinstance(event, Started) or live.run is None:
            return live
        before = self._pane_of(live)
        before.show(live)
        self.live = following = LiveRun(kept_settings(event.run))
        self._perturbed.append(following)
        if self._pane == before.id:
            self.action_pane(str(self._pane_of(following).id))
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
                self._put("#ticking", f"timing {format_duration(self.window.open_seconds)}")
            return
        self._put("#ticking", "")
        if self._waiting:
            self._catch_up()
        self._show_strip()

    def _show_strip(self) -> None:
        view = self.screen if isinstance(self.screen, BoxScreen) else None
        if self._sample is None or time.monotonic() - self._sampled_at > SAMPLE_S:
            self._sample, self._sampled_at = self._monitor.sample(), time.monotonic()
        self._strip().show(self._sample, self.live)
        if view is not None:
            view.show(self._box_history())

    def _look_up_rates(self) -> None:
        """Read what is known of this machine's rates."""
        self._device = this_device()
        self._show_rates()

    def _show_rates(self) -> None:
        """Show them, for weights of the type that Setup has chosen."""
        if (device := self._device) is not None:
            settings = self.screen_stack[0].query_one(SetupPane).settings_or(self._settings)
            self._box = Box(device.bandwidth, device.compute_for(settings.dtype), device.memory)
            self._strip().show_box(self._box)

    def _box_history(self) -> BoxHistory:
        return BoxHistory(tuple(self._monitor.history), self.live, this_machine(), self._box)

    # What the keys do

    def action_pane(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        self._pane = pane
        base = self.screen_stack[0]
        for ident in FIRST_FOCUS:
            base.query_one(f"#{ident}").display = ident == pane
        base.query_one(FIRST_FOCUS[pane]).focus()
        if pane == "ceiling":
            self._ceiling_pane().look_again()
        elif pane == "runs":
            self._runs_pane().look_again()
        self._show_frame()

    def action_run(self) -> None:
        """Run the sweep of the Setup pane, once it is in sight, or what the Batch or Gap pane is set to."""
        if self._pane in ("ceiling", "runs"):
            self.action_pane("setup")
            return
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
            return
        try:
            setup = self.screen_stack[0].query_one(SetupPane)
            settings = setup.settings()
            if self._pane == "batch":
                self._run_batch(self._batch_pane().settings(settings))
                return
            if self._pane == "gap":
                self._run_gap(self._gap_pane().settings(settings))
                return
            if problem := setup.problem_of(settings):
                raise SettingsError(problem)
            planned = setup.planned_for(settings)
            if planned is not None:
                check_before_loading(planned)
            else:
                # Bad input is told at once; what only the files can tell, the run does when it has read them.
                check_settings(settings)
        except WorkbenchError as error:
            self._say("The sweep can't be run", str(error), is_error=True)
            return
        self._start(settings, "prefill_decode", sweep(settings, self._load, self.window))

    def _run_batch(self, settings: BatchSettings) -> None:
        check_settings(settings)
        self._start(settings, "batch", batch_sweep(settings, self._load, self.window))

    def _run_gap(self, settings: GapSettings) -> None:
        check_settings(settings)
        self._start(settings, "gap", gap(settings, self._load, self.window))

    @on(GapPane.Asked)
    def _try_on_the_pass(self, message: GapPane.Asked) -> None:
        """Measure a pass again and try levers on it."""
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
            return
        try:
            self._run_gap(message.settings)
        except WorkbenchError as error:
            self._say("The levers can't be tried", str(error), is_error=True)

    def action_perturb(self) -> None:
        """Vary the prompt, then the sequences at the Gap pane's context, and read the result in words."""
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
            return
        try:
            setup = self.screen_stack[0].query_one(SetupPane).settings()
            chosen = self._gap_pane().settings(setup)
            prompts, sequences = perturbations(chosen, chosen.context)
            for each in (prompts, sequences):
                check_settings(each)
        except WorkbenchError as error:
            self._say("The perturbation can't be run", str(error), is_error=True)
            return
        self._start(prompts, "prefill_decode", perturbation(prompts, sequences, self._load, self.window))
        self._perturbed = [self.live] if self.live is not None else []

    @on(RunsPane.Opened)
    def _open_kept(self, message: RunsPane.Opened) -> None:
        """Show a kept run in the pane of its kind, with its rows as they were."""
        if isinstance(message, RunsPane.Resumed):
            return
        live, busy = self.live, self.runner.busy
        try:
            with Store() as store:
                run = store.run(message.run_id)
                kept = kept_run(run, store.rows(run.run_id), store.ladder(run.run_id))
        except WorkbenchError as error:
            self._say("The run can't be opened", str(error), is_error=True)
            return
        pane = self._pane_of(kept)
        if busy and live is not None and self._pane_of(live) is pane:
            if live.run is None or live.run.run_id != run.run_id:
                self._say("A measurement is running", "Its pane shows it now. x stops it; open this run then.")
                return
        else:
            if not busy:
                self.live = kept
            pane.show(kept)
        self.action_pane(str(pane.id))

    @on(RunsPane.Resumed)
    def _resume(self, message: RunsPane.Resumed) -> None:
        """Measure what is missing of a kept run."""
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
            return
        try:
            with Store() as store:
                earlier = earlier_sittings(store, message.run_id)
            check_settings(earlier.settings)
        except WorkbenchError as error:
            self._say("The run can't be resumed", str(error), is_error=True)
            self._runs_pane().look_again()
            return
        match earlier.settings:
            case SweepSettings() as settings:
                experiment = sweep(settings, self._load, self.window, earlier)
                self._start(settings, "prefill_decode", experiment, earlier.rows)
            case BatchSettings() as settings:
                self._start(settings, "batch", batch_sweep(settings, self._load, self.window, earlier), earlier.rows)

    def _start(self, settings: RunSettings, pane: str, experiment: Experiment, earlier: Sequence[Row] = ()) -> None:
        """Show the pane of a run, with the rows of its earlier sittings, and drive it."""
        self._waiting.take()
        self.live = LiveRun(settings, rows=list(earlier))
        self.action_pane(pane)
        self._catch_up()
        self.runner.start(experiment, self._bridge.listen, self._bridge.done)
        self._beat()
        self._show_frame()

    def action_probe(self, quick: bool = False) -> None:
        """Measure the box itself, and keep what was found as its calibration."""
        if self.runner.busy:
            self._say("A measurement is running", "Two must not overlap. x stops the one that runs.")
            return
        setup = self.screen_stack[0].query_one(SetupPane)
        model = setup.settings_or(self._settings).model
        self._waiting.take()
        self.probing = LiveProbe()
        self.action_pane("setup")
        self.runner.start(
            probe(ProbeSettings(model=model, quick=quick), self.window, self._open_grid),
            self._bridge.listen,
            self._bridge.done,
        )
        self._beat()
        self._catch_up()
        self._show_frame()

    def _show_probe(self, probing: LiveProbe, events_waiting: Iterable[Event]) -> None:
        for event in events_waiting:
            probing.apply(event)
        self.screen_stack[0].query_one(SetupPane).show_probe(probing.summary())

    def _end_probe(self, error: BaseException | None) -> None:
        self._catch_up()
        probing, self.probing = self.probing, None
        setup = self.screen_stack[0].query_one(SetupPane)
        setup.show_box(this_device())
        setup.check()
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

    def action_export(self) -> None:
        """Write the CSV of the run shown, from the store."""
        run_id = self._shown_run()
        if run_id is None:
            self._say("There is nothing to export yet", "r runs a sweep; e then writes its rows as CSV.")
            return

        def write(path: Path) -> Path:
            with Store() as store:
                return write_text(run_csv_text(store, run_id), path)

        def told(path: Path | None) -> None:
            if path is not None:
                self._say("Exported", str(path.absolute()))

        self.push_screen(ExportDialog(f"./{run_id}.csv", write), told)

    def action_symptoms(self) -> None:
        """Say which symptoms the rows of the run shown have, and what acts on each."""
        run_id = self._shown_run()
        if run_id is None:
            self._say("There is nothing to explain yet", "r runs a sweep; w then says which symptoms its rows show.")
            return
        try:
            with Store() as store:
                run = store.run(run_id)
                rows = explained_rows([(run, store.rows(run.run_id))])
        except WorkbenchError as error:
            self._say("The run can't be explained", str(error), is_error=True)
            return
        self.push_screen(symptoms_screen(run_id, rows))

    def _shown_run(self) -> str | None:
        """The run that the pane in sight shows or has its cursor on, else the last one."""
        if self._pane == "runs":
            selected = self._runs_pane().selected
            return selected.run_id if selected else None
        shown = next((pane.live for pane in self._run_panes() if pane.id == self._pane and pane.live), self.live)
        return shown.run.run_id if shown and shown.run else None

    def action_help(self) -> None:
        """Explain the focused pane."""
        about = "box" if isinstance(self.focused, Strip) else self._pane
        self.push_screen(TextScreen("Help", help_text(about).splitlines()))

    def action_box(self) -> None:
        """Show the box over the last minutes."""
        self.push_screen(BoxScreen(self._box_history(), self._levels()))
        self._beat()

    def action_log(self) -> None:
        """Say where libraries' output and errors are written."""
        self._say("The log", f"{log_file()}")

    def action_markers(self) -> None:
        """Draw the charts with the other characters."""
        self._markers = ASCII if self._markers is DOTS else DOTS
        for pane in self._run_panes():
            pane.use_markers(self._markers)
        self._ceiling_pane().use_markers(self._markers)
        self._strip().use_levels(self._levels())

    async def action_quit(self) -> None:
        """Leave; a run that is under way keeps its rows."""
        self.leave(0)

    def action_interrupt(self) -> None:
        """Leave as ctrl+c does."""
        self.leave(INTERRUPTED_EXIT if self.runner.busy else 0)

    def action_suspend(self) -> None:
        """Give the terminal back to the shell until `fg`, unless that would stop a measurement midway."""
        if self.runner.busy:
            self._say(
                "A measurement is running",
                "Suspending would stop it in the middle of what it times. x stops it; its rows are kept.",
            )
            return
        self.action_suspend_process()

    @on(Driver.SignalResume)
    def _draw_anew(self) -> None:
        """The terminal comes back from the shell empty."""
        self.screen.refresh(layout=True)

    def leave(self, code: int) -> None:
        """Cancel the run and end the app; safe from a signal handler and from another thread."""
        self.runner.cancel()
        if self._loop is None or self._loop.is_closed():
            return
        self.way_out(code)
        self._loop.call_soon_threadsafe(self.exit, code)

    def way_out(self, code: int) -> None:
        """Called when the app begins to leave; `run_app` puts a time limit on it."""

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what can be done now."""
        return commands(self)

    # The frame around the panes

    @on(SetupPane.SettingsChanged)
    def _take_settings(self, message: SetupPane.SettingsChanged) -> None:
        if message.planned is not None:
            setup = self.screen_stack[0].query_one(SetupPane)
            settings = message.planned.settings
            self._ceiling_pane().follow(settings, setup.tracks)
            self._batch_pane().follow(settings.track, setup.tracks)
            self._show_rates()
        self._show_frame()

    def _show_frame(self) -> None:
        base = self.screen_stack[0]
        settings = base.query_one(SetupPane).settings_or(self._settings)
        self._put("#title", title_line(self._width, this_machine(), settings, self.live))
        self._put("#tabs", tab_line(self._pane))
        self._show_keys()

    @on(Entry.EditingChanged)
    @on(RunsPane.KeysChanged)
    def _show_keys(self) -> None:
        self._put("#keys", key_line(self._pane, self.screen_stack[0].focused, self.runner.busy, self.live is not None))

    def _put(self, place: str, text: str) -> None:
        line = self.screen_stack[0].query_one(place, Static)
        if str(line.content) != text:
            line.update(text, layout=False)

    def _levels(self) -> Levels:
        return ASCII_LEVELS if self._markers is ASCII else BLOCK_LEVELS

    def _strip(self) -> Strip:
        return self.screen_stack[0].query_one(Strip)

    def _batch_pane(self) -> BatchPane:
        return self.screen_stack[0].query_one(BatchPane)

    def _runs_pane(self) -> RunsPane:
        return self.screen_stack[0].query_one(RunsPane)

    def _gap_pane(self) -> GapPane:
        return self.screen_stack[0].query_one(GapPane)

    def _pane_of(self, live: LiveRun) -> RunPane | GapPane:
        match live.settings:
            case BatchSettings():
                return self._batch_pane()
            case GapSettings():
                return self._gap_pane()
            case _:
                return self._sweep_pane()

    def _run_panes(self) -> tuple[RunPane | GapPane, ...]:
        return self._sweep_pane(), self._batch_pane(), self._gap_pane()

    def _ceiling_pane(self) -> CeilingPane:
        return self.screen_stack[0].query_one(CeilingPane)

    def _sweep_pane(self) -> PrefillDecodePane:
        return self.screen_stack[0].query_one(PrefillDecodePane)

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
        log.error("the app ends on an unexpected error", exc_info=error)
        super()._handle_exception(error)


def run_app(settings: SweepSettings, load: Load = load_transformers, track: Track | None = None) -> int:
    """Open the app and return its exit code; the process ends here where a layer outlasts the wait.

    `track` is the one opened on, where it is none of the presets' own.
    """
    app = WorkbenchApp(settings, load, track)
    app.doubtful_characters = doubtful_characters(os.environ)
    with library_output_to(log_file()), WayOut(app.leave) as way_out:
        app.way_out = way_out.begin  # type: ignore[method-assign]
        app.run(mouse=False)
        code = app.return_code or app.return_value or 0
        way_out.begin(code)
        ended = app.runner.wait(RUNNER_WAIT_S)
        if not ended:
            mark_interrupted(app.live)
    if app.return_code and not app.return_value:
        print(
            f"workbench: the app ended on an unexpected error. Rows measured so far are in the store; "
            f"the details are in {log_file()}: please report them.",
            file=sys.stderr,
        )
    if not ended:
        end_process(code)
    return code
