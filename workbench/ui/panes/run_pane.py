"""What the panes of live runs share: where the run stands, its table with the notes of a row, and what it came to."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Resize
from textual.widgets import DataTable, Static

from workbench.experiments.settings import RunSettings
from workbench.quantity import Quantity
from workbench.runs.basis import Basis, known_bases, on_basis, read_rate
from workbench.runs.labels import mark
from workbench.runs.row import Row
from workbench.runs.row_columns import WHERE_PREDICTED
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.chart import Chart, Markers
from workbench.ui.widgets.explanation import TextScreen, cell_explanation, figures_explanation
from workbench.ui.widgets.quoted import Quoted
from workbench.ui.widgets.sweep_table import SweepTable


class Figures(Static, can_focus=True):
    """What the rows say together; enter explains it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "explain", show=False)]

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self.figures: tuple[Quantity, ...] = ()
        self.can_focus = False

    def show(self, figures: tuple[Quantity, ...], text: str) -> None:
        """Say these figures so; none of them clears the line."""
        if figures == self.figures:
            return
        self.figures = figures
        self.can_focus = bool(figures)
        self.update(text)

    def action_explain(self) -> None:
        """Their formulas and inputs."""
        self.app.push_screen(figures_explanation(self.figures))


class Charts(Vertical, can_focus=False):
    """The charts, beside the table or under it; they take the keys while they have the pane to themselves."""


class RunPane(Vertical):
    """A run of one kind as it unfolds; `prefix` goes before the names of its parts, `nothing_yet` says what r does."""

    CHARTS_FROM_LINES: ClassVar[int] = 23
    """From so many lines on charts under the table have a plot; a lower pane leaves them to v, and its words wrap."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "basis", "Basis", show=False),
        Binding("v", "view", "Charts", show=False),
        Binding("escape", "leave_charts", show=False),
    ]

    def __init__(self, kind: str, prefix: str, nothing_yet: str, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self.live: LiveRun | None = None
        self.may_draw = may_draw
        self._kind = kind
        self._prefix = prefix
        self._nothing_yet = nothing_yet
        self._basis = Basis.MINUTE

    def compose_progress(self) -> ComposeResult:
        """The line that says where the run stands, and the one that says how good predictions have been."""
        yield Static(self._nothing_yet, id=f"{self._prefix}progress", classes="progress", markup=False)
        yield Quoted(id=f"{self._prefix}quoted")

    def compose_table(self) -> ComposeResult:
        """The table, the words of the row under the cursor, and what the rows say together."""
        yield SweepTable(self._kind, id=f"{self._prefix}sweep-table")
        yield Static("", id=f"{self._prefix}row-note", classes="row-note", markup=False)
        yield Figures(id=f"{self._prefix}figures")

    def show(self, live: LiveRun) -> None:
        """Show the run as it stands."""
        if live is not self.live:
            self.live, self._basis = live, known_bases(live.rows)[0]
            self.take_fields(live.settings)
        rows = self.rows(live)
        several = len(known_bases(live.rows)) > 1
        basis = f"ceiling by {self._basis}, b changes it" if several else ""
        memory = live.finished.memory if live.finished else ""
        line = live.summary()
        for more in filter(None, (basis, memory)):
            if len(f"{line} · {more}") <= self.size.width - 2:
                line = f"{line} · {more}"
        self.query_one(f"#{self._prefix}progress", Static).update(line, layout=False)
        self.query_one(Quoted).follow(live)
        table = self.query_one(SweepTable)
        table.show(rows, live.measuring)
        figures = live.finished.figures if live.finished else ()
        self.query_one(Figures).show(figures, self.figures_text(figures))
        self._note()
        self.draw(live, rows)

    def take_fields(self, settings: RunSettings) -> None:
        """Have the pane's fields say what the run shown was asked; a pane without fields has nothing to do."""

    def beside(self, row: Row) -> tuple[str, str]:
        """What stands beside the row under the cursor that the table has no column for: in short, and a line more."""
        return "", ""

    def figures_text(self, figures: Sequence[Quantity]) -> str:
        """What the rows say together, in one line."""
        return " · ".join(f"{figure.symbol} {figure}" for figure in figures)

    def draw(self, live: LiveRun, rows: Sequence[Row]) -> None:
        """Draw the charts of these rows, which stand beside the chosen ceiling."""

    def rows(self, live: LiveRun) -> list[Row]:
        """The run's rows beside the ceiling of the chosen bandwidth."""
        return [on_basis(row, self._basis) for row in live.rows]

    def faster(self, live: LiveRun) -> float:
        """How much faster the chosen bandwidth is than the one that the floors were predicted with."""
        read = next((B for row in live.rows if (B := read_rate(row, self._basis)) is not None), None)
        if self._basis is Basis.MINUTE or read is None or live.predicted is None:
            return 1.0
        return read * 1e9 / live.predicted.read_rate.value

    def action_basis(self) -> None:
        """Show the ceilings against the next bandwidth that is known."""
        known = () if self.live is None else known_bases(self.live.rows)
        if self.live is None or len(known) < 2:
            self.app.push_screen(TextScreen("There is no other bandwidth", [self._only_basis(known)]))
            return
        self._basis = known[(known.index(self._basis) + 1) % len(known)]
        self.show(self.live)

    def _only_basis(self, known: Sequence[Basis]) -> str:
        if self.live is None or not self.live.rows:
            return "b changes the bandwidth behind the ceilings of a run's rows, and there are none yet."
        return (
            f"The ceilings rest on {known[0]} alone. p probes this box, and a track names its vendor's bandwidth: rows "
            "measured after that have those too."
        )

    def catch_up(self) -> None:
        """Draw what waited for the timed window to close."""
        for chart in self.query(Chart):
            chart.catch_up()

    def use_markers(self, markers: Markers) -> None:
        """Draw the charts with these characters."""
        for chart in self.query(Chart):
            chart.use(markers)

    def action_view(self) -> None:
        """Give the charts the whole pane, or the table its place again."""
        charts = self.query_one(Charts)
        charts.can_focus = self.toggle_class("-charts-only").has_class("-charts-only")
        (charts if charts.can_focus else self.query_one(SweepTable)).focus()

    def action_leave_charts(self) -> None:
        """Give the table its place again."""
        if self.has_class("-charts-only"):
            self.action_view()

    def on_resize(self, event: Resize) -> None:
        """Leave the charts out where they would have no room."""
        self.set_class(event.size.height < self.CHARTS_FROM_LINES, "-low")

    def left(self) -> None:
        """Have the pane open on its table the next time."""
        self.query_one(Charts).can_focus = False
        self.remove_class("-charts-only")

    @on(DataTable.CellHighlighted)
    def _note(self) -> None:
        selected = self.query_one(SweepTable).selected()
        row = selected[0] if selected else None
        words: list[str] = []
        if row is not None:
            short, more = self.beside(row)
            failed = [f"! {row.status}"] if row.status != "ok" else []
            marked = [*failed, *(f"{mark(row)} {flag}" for flag in row.flags.split("; ") if flag)]
            # Why there is no figure stands before anything else, what to know of one behind it.
            first = [*marked, short] if failed else [short, *marked]
            words = [text for text in (*first, more) if text]
        self.query_one(f"#{self._prefix}row-note", Static).update("\n".join(words), layout=False)

    @on(DataTable.CellSelected)
    def _explain(self) -> None:
        selected = self.query_one(SweepTable).selected()
        if selected is not None:
            row, name = selected
            more = self.query_one(Quoted).lines if name in WHERE_PREDICTED and row.predicted_from else ()
            self.app.push_screen(cell_explanation(row, name, more))
        else:
            self.app.push_screen(TextScreen("Nothing to explain yet", ["Its figures come with the end of this point."]))
