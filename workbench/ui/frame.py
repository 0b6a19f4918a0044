"""What surrounds the panes: title, tabs, the strip, the line of keys; and which pane is in sight."""

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.widgets import Static

from workbench.experiments.settings import BatchSettings, GapSettings, SweepSettings
from workbench.hardware.machine import this_machine
from workbench.quantity import format_duration
from workbench.tracks import Track
from workbench.ui.keys import key_line
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.batch import BatchPane
from workbench.ui.panes.ceiling import CeilingPane
from workbench.ui.panes.gap import GapPane
from workbench.ui.panes.prefill_decode import PrefillDecodePane
from workbench.ui.panes.run_pane import RunPane
from workbench.ui.panes.runs import RunsPane
from workbench.ui.panes.setup import SetupPane
from workbench.ui.title import tab_line, title_line
from workbench.ui.widgets.chart import ASCII, DOTS
from workbench.ui.widgets.levels import ASCII_LEVELS, BLOCK_LEVELS, Levels
from workbench.ui.widgets.strip import Strip

FIRST_FOCUS = {
    "setup": "#models",
    "ceiling": "#context-table",
    "prefill_decode": "#sweep-table",
    "batch": "#batch-sweep-table",
    "gap": "#ladder-table",
    "runs": "#runs-table",
}
"""The panes, and what has the keys when one is shown."""


WIDE = 120


class Frame(Container):
    """The whole screen of the app: `pane` is the name of the one in sight."""

    def __init__(self, settings: SweepSettings, track: Track | None, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self.pane = "setup"
        self._settings = settings
        self._track = track
        self._may_draw = may_draw
        self._markers = DOTS

    def compose(self) -> ComposeResult:
        """Title, tabs, panes, strip, keys."""
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

    @property
    def setup_pane(self) -> SetupPane:
        """The pane of key 1."""
        return self.query_one(SetupPane)

    @property
    def ceiling_pane(self) -> CeilingPane:
        """The pane of key 2."""
        return self.query_one(CeilingPane)

    @property
    def sweep_pane(self) -> PrefillDecodePane:
        """The pane of key 3."""
        return self.query_one(PrefillDecodePane)

    @property
    def batch_pane(self) -> BatchPane:
        """The pane of key 4."""
        return self.query_one(BatchPane)

    @property
    def gap_pane(self) -> GapPane:
        """The pane of key 5."""
        return self.query_one(GapPane)

    @property
    def runs_pane(self) -> RunsPane:
        """The pane of key 6."""
        return self.query_one(RunsPane)

    @property
    def strip(self) -> Strip:
        """The box, under every pane."""
        return self.query_one(Strip)

    @property
    def chosen(self) -> SweepSettings:
        """What Setup says, or what the app was opened with while it says nothing usable."""
        return self.setup_pane.settings_or(self._settings)

    @property
    def levels(self) -> Levels:
        """What bars are drawn with."""
        return ASCII_LEVELS if self._markers is ASCII else BLOCK_LEVELS

    def pane_of(self, live: LiveRun) -> RunPane | GapPane:
        """The pane that shows a run of its kind."""
        match live.settings:
            case BatchSettings():
                return self.batch_pane
            case GapSettings():
                return self.gap_pane
            case _:
                return self.sweep_pane

    def run_id_in_sight(self, otherwise: LiveRun | None) -> str | None:
        """Identifier of the run that the pane in sight shows or has its cursor on, else of another; None for none."""
        if self.pane == "runs":
            selected = self.runs_pane.selected
            return selected.run_id if selected else None
        shown = next((pane.live for pane in self._run_panes() if pane.id == self.pane and pane.live), otherwise)
        return shown.run.run_id if shown and shown.run else None

    def show_pane(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        self.pane = pane
        for ident in FIRST_FOCUS:
            self.query_one(f"#{ident}").display = ident == pane
        for run_pane in self._run_panes():
            if run_pane.id != pane:
                run_pane.left()
        self.query_one(FIRST_FOCUS[pane]).focus()
        if pane == "ceiling":
            self.ceiling_pane.look_again()
        elif pane == "runs":
            self.runs_pane.look_again()

    def show_run(self, live: LiveRun) -> None:
        """Bring the pane of a run up to date with it, and draw what waited."""
        pane = self.pane_of(live)
        pane.show(live)
        pane.catch_up()
        self.ceiling_pane.catch_up()

    def show_lines(self, width: int, live: LiveRun | None, busy: bool) -> None:
        """Title, tabs and keys for a terminal so wide."""
        self.put("#title", title_line(width, this_machine(), self.chosen, live))
        self.put("#tabs", tab_line(self.pane))
        self.show_keys(busy, has_run=live is not None)

    def show_keys(self, busy: bool, has_run: bool) -> None:
        """The keys that do something now."""
        # A pane of runs has keys for the one it shows alone.
        shown = next((pane.live is not None for pane in self._run_panes() if pane.id == self.pane), has_run)
        # While another screen is in front, what had the focus here still has it.
        self.put("#keys", key_line(self.pane, self.screen.focused, busy, shown))

    def show_timing(self, seconds: float | None) -> None:
        """Say beside the tabs for how long something has been timed, and that keys wait meanwhile."""
        if seconds is None:
            self.put("#ticking", "")
            return
        since = format_duration(seconds)
        narrow = self.size.width < WIDE
        self.put("#ticking", f"{since} · keys wait" if narrow else f"timing {since} · keys wait while it times")

    def turn_markers(self) -> None:
        """Draw charts and bars with the other characters."""
        self._markers = ASCII if self._markers is DOTS else DOTS
        for pane in self._run_panes():
            pane.use_markers(self._markers)
        self.ceiling_pane.use_markers(self._markers)
        self.strip.use_levels(self.levels)

    def put(self, place: str, text: str) -> None:
        """Write a line of the frame, unless it says so already."""
        line = self.query_one(place, Static)
        if str(line.content) != text:
            line.update(text, layout=False)

    def _run_panes(self) -> tuple[RunPane | GapPane, ...]:
        return self.sweep_pane, self.batch_pane, self.gap_pane
