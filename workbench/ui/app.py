"""The app: its keys, and what the panes ask of it."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.screen import Screen

from workbench.errors import WorkbenchError
from workbench.experiments.probe import ProbeSettings, probe
from workbench.experiments.settings import GapSettings
from workbench.paths import log_file, resource
from workbench.runs.export import run_csv_text, write_text
from workbench.runs.store import Store
from workbench.runs.symptoms import explained_rows
from workbench.ui.commands import commands
from workbench.ui.help import help_text
from workbench.ui.kept_run import kept_run
from workbench.ui.live_probe import LiveProbe
from workbench.ui.measuring_app import MeasuringApp
from workbench.ui.panes.gap import GapPane
from workbench.ui.panes.runs import RunsPane
from workbench.ui.ready_run import ReadyRun, gap_of, perturbation_of, rest_of, run_in_sight
from workbench.ui.widgets.box_view import BoxScreen
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.export_dialog import ExportDialog
from workbench.ui.widgets.overlay import Palette
from workbench.ui.widgets.strip import Strip
from workbench.ui.widgets.symptoms_view import symptoms_screen

INTERRUPTED_EXIT = 130


class WorkbenchApp(MeasuringApp):
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

    def action_run(self) -> None:
        """Run the sweep of the Setup pane, once it is in sight, or what the Batch or Gap pane is set to."""
        frame = self.frame
        if frame.pane in ("ceiling", "runs"):
            self.action_pane("setup")
        else:
            self._begin_run("The sweep can't be run", lambda: run_in_sight(frame, self._load, self.window))

    @on(GapPane.Asked)
    def _try_on_the_pass(self, message: GapPane.Asked) -> None:
        """Try levers on a pass, which is measured again where its ladder is not fresh."""
        ready = partial(gap_of, message.settings, self._load, self.window, message.before)
        self._begin_run("The levers can't be tried", ready)

    def action_perturb(self) -> None:
        """Vary the prompt, then the sequences at the Gap pane's context, and read the result in words."""
        frame = self.frame
        if self._begin_run("The perturbation can't be run", lambda: perturbation_of(frame, self._load, self.window)):
            self._perturbed = [self.live] if self.live is not None else []

    @on(RunsPane.Resumed)
    def _resume(self, message: RunsPane.Resumed) -> None:
        """Measure what is missing of a kept run."""
        ready = partial(rest_of, message.run_id, self._load, self.window)
        if not self._begin_run("The run can't be resumed", ready) and not self.runner.busy:
            self.frame.runs_pane.look_again()

    def _begin_run(self, refusal: str, ready: Callable[[], ReadyRun]) -> bool:
        """Start a run where none is under way and nothing forbids it, else say why not; whether it was started."""
        if self._is_busy() or self._is_beside_another():
            return False
        try:
            made = ready()
        except WorkbenchError as error:
            self._say(refusal, str(error), is_error=True)
            return False
        self.start(made)
        return True

    @on(RunsPane.Opened)
    def _open_kept(self, message: RunsPane.Opened) -> None:
        """Show a kept run in the pane of its kind, with its rows as they were."""
        if isinstance(message, RunsPane.Resumed | RunsPane.Explained):
            return
        live, busy = self.live, self.runner.busy
        try:
            with Store() as store:
                run = store.run(message.run_id)
                kept = kept_run(run, store.rows(run.run_id), store.ladder(run.run_id))
        except WorkbenchError as error:
            self._say("The run can't be opened", str(error), is_error=True)
            return
        pane = self.frame.pane_of(kept)
        if busy and live is not None and self.frame.pane_of(live) is pane:
            if live.run is None or live.run.run_id != run.run_id:
                self._say("A measurement is running", "Its pane shows it now. x stops it; open this run then.")
                return
        else:
            if not busy:
                self.live = kept
            pane.show(kept)
        self.action_pane(str(pane.id))

    @on(RunsPane.Explained)
    def _show_ladder_of(self, message: RunsPane.Explained) -> None:
        """Show the ladder of a kept run, by its rows where no pass of it was taken apart."""
        if self.runner.busy and isinstance(getattr(self.live, "settings", None), GapSettings):
            self._say("A measurement is running", "The Gap pane shows its ladder now. x stops it.")
            return
        try:
            with Store() as store:
                run, rows = store.run(message.run_id), store.rows(message.run_id)
                taken_apart = store.ladder(run.run_id)
            if taken_apart is None:
                self.frame.gap_pane.show_rows(run, rows)
            else:
                self.frame.gap_pane.show(kept_run(run, rows, taken_apart))
        except WorkbenchError as error:
            self._say("The run has no ladder", str(error), is_error=True)
            return
        self.action_pane("gap")

    def action_probe(self, quick: bool = False) -> None:
        """Measure the box itself, and keep what was found as its calibration."""
        if self._is_busy() or self._is_beside_another():
            return
        chosen = ProbeSettings(model=self.frame.chosen.model, quick=quick)
        self._waiting.take()
        self.probing = LiveProbe()
        self.action_pane("setup")
        self._catch_up()
        self._drive(probe(chosen, self.window, self._open_grid))

    def action_export(self) -> None:
        """Write the CSV of the run shown, from the store."""
        run_id = self.frame.run_id_in_sight(self.live)
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
        run_id = self.frame.run_id_in_sight(self.live)
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

    def action_help(self) -> None:
        """Explain the focused pane."""
        about = "box" if isinstance(self.focused, Strip) else self.frame.pane
        self.push_screen(TextScreen("Help", help_text(about).splitlines()))

    def action_box(self) -> None:
        """Show the box over the last minutes."""
        self.push_screen(BoxScreen(self.box_watch.history(self.live), self.frame.levels))
        self._beat()

    def action_log(self) -> None:
        """Say where libraries' output and errors are written."""
        self._say("The log", f"{log_file()}")

    def action_markers(self) -> None:
        """Draw the charts with the other characters."""
        self.frame.turn_markers()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what can be done now."""
        return commands(self)

    def action_interrupt(self) -> None:
        """Leave as ctrl+c does."""
        self.leave(INTERRUPTED_EXIT if self.runner.busy else 0)

    async def action_quit(self) -> None:
        """Leave; a run that is under way keeps its rows."""
        self.leave(0)

    def action_command_palette(self) -> None:
        """Open the palette; without an id, as the one before it may still be closing."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

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
