"""Prefill / decode: the live sweep as a table and two charts."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from workbench.quantity import Quantity
from workbench.runs.basis import Basis, known_bases, on_basis, read_rate
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.chart import Chart, Drawn, Markers, Picture, Series
from workbench.ui.widgets.explanation import cell_explanation, figures_explanation
from workbench.ui.widgets.sweep_table import SweepTable

Point = tuple[float, float]

NOTHING_YET = "no run yet · r runs the sweep of the Setup pane"


class Figures(Static, can_focus=True):
    """What the rows say together; enter explains it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "explain", show=False)]

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self.figures: tuple[Quantity, ...] = ()
        self.can_focus = False

    def show(self, figures: tuple[Quantity, ...]) -> None:
        """Show these figures; none of them clears the line."""
        if figures == self.figures:
            return
        self.figures = figures
        self.can_focus = bool(figures)
        self.update(" · ".join(f"{f.symbol} {f}" for f in figures), layout=False)

    def action_explain(self) -> None:
        """Their formulas and inputs."""
        self.app.push_screen(figures_explanation(self.figures))


class PrefillDecodePane(Vertical):
    """The heading, the table with its notes, and the charts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("b", "basis", "Basis", show=False)]

    def __init__(self, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self._may_draw = may_draw
        self._basis = Basis.MINUTE
        self._live: LiveRun | None = None

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows; it is filled by `show`."""
        yield Static(NOTHING_YET, id="progress", markup=False)
        with Horizontal(id="sweep-body"):
            with Vertical(id="sweep-left"):
                yield SweepTable(id="sweep-table")
                yield Static("", id="row-note", markup=False)
                yield Figures(id="figures")
            with Vertical(id="charts"):
                yield Chart("prompt tok/s", self._may_draw, id="prompt-chart")
                yield Chart("decode tok/s", self._may_draw, id="decode-chart")

    def show(self, live: LiveRun) -> None:
        """Show the run as it stands."""
        if live is not self._live:
            self._live, self._basis = live, Basis.MINUTE
        several = len(known_bases(live.rows)) > 1
        basis = f" · ceiling by {self._basis}, b changes it" if several else ""
        self.query_one("#progress", Static).update(f"{live.summary()}{basis}", layout=False)
        self.query_one(SweepTable).show([on_basis(row, self._basis) for row in live.rows], live.measuring_prompt)
        self.query_one(Figures).show(live.finished.figures if live.finished else ())
        self._note()
        floors = live.predicted.floors if live.predicted else ()
        self.query_one("#prompt-chart", Chart).show(
            _picture(
                live,
                [(f.prompt_tokens, f.prompt_tokens / f.ttft.value) for f in floors],
                [(r.prompt_tokens, r.prompt_tokens_per_s) for r in live.rows if r.prompt_tokens_per_s is not None],
            )
        )
        self.query_one("#decode-chart", Chart).show(
            _picture(
                live,
                [(f.prompt_tokens, self._faster(live) / f.tpot.value) for f in floors],
                [(r.prompt_tokens, r.decode_tokens_per_s) for r in live.rows if r.decode_tokens_per_s is not None],
            )
        )

    def _faster(self, live: LiveRun) -> float:
        """How much faster the basis reads than the rate that the floors were predicted with."""
        read = next((B for row in live.rows if (B := read_rate(row, self._basis)) is not None), None)
        if self._basis is Basis.MINUTE or read is None or live.predicted is None:
            return 1.0
        return read * 1e9 / live.predicted.read_rate.value

    def action_basis(self) -> None:
        """Show the ceilings against the next bandwidth that is known."""
        if self._live is None:
            return
        known = known_bases(self._live.rows)
        self._basis = known[(known.index(self._basis) + 1) % len(known)]
        self.show(self._live)

    def catch_up(self) -> None:
        """Draw what waited for the timed window to close."""
        for chart in self.query(Chart):
            chart.catch_up()

    def use_markers(self, markers: Markers) -> None:
        """Draw the charts with these characters."""
        for chart in self.query(Chart):
            chart.use(markers)

    @on(DataTable.CellHighlighted)
    def _note(self) -> None:
        selected = self.query_one(SweepTable).selected()
        row = selected[0] if selected else None
        parts = [] if row is None else [row.status if row.status != "ok" else "", row.flags]
        text = "; ".join(part for part in parts if part)
        self.query_one("#row-note", Static).update(f"! {text}" if text else "", layout=False)

    @on(DataTable.CellSelected)
    def _explain(self) -> None:
        selected = self.query_one(SweepTable).selected()
        if selected is not None:
            self.app.push_screen(cell_explanation(*selected))


def _picture(live: LiveRun, ceiling: Sequence[Point], measured: Sequence[Point]) -> Picture:
    return Picture(
        x_ticks=tuple(sorted(set(live.settings.prompts))),
        series=(
            Series("ceiling", Drawn.LINE, tuple(sorted(ceiling))),
            Series("measured", Drawn.POINTS, tuple(measured)),
        ),
    )
