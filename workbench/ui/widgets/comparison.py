"""Two runs side by side over the panes: what differs first, then the points both measured."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from workbench.record import headings
from workbench.runs.compare import ComparedPoint, Comparison
from workbench.ui.widgets.overlay import Overlay
from workbench.ui.widgets.record_table import RecordTable

PREFILL_FIGURES = tuple(name for name in headings(ComparedPoint) if "ttft" in name)
STEP_FIGURES = tuple(name for name in headings(ComparedPoint) if "total_tokens_per_s" in name)


class ComparisonScreen(Overlay[None]):
    """The comparison's words and its points; enter on a ratio shows the two figures it is made of."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", show=False)]

    def __init__(self, comparison: Comparison) -> None:
        super().__init__()
        self._comparison = comparison

    def compose(self) -> ComposeResult:
        """Which runs, what differs, the points, and those that could not be matched."""
        compared = self._comparison
        with Vertical(classes="panel"):
            yield Static(f"{compared.run} and, as the other, {compared.other}", classes="panel-title", markup=False)
            with VerticalScroll(classes="panel-text", can_focus=False):
                yield Static(" ".join(compared.sentences), id="compared-words", markup=False)
                yield RecordTable(id="compared-points")
                yield Static("\n".join(f"not matched: {line}" for line in compared.unmatched), markup=False)
            yield Static("esc close   arrows move   enter explain", classes="panel-keys", markup=False)

    def on_mount(self) -> None:
        """Fill the table, without the columns that no point of this kind has."""
        points = self._comparison.points
        prefills = PREFILL_FIGURES if any(point.ttft_ms is not None for point in points) else ()
        steps = STEP_FIGURES if any(point.total_tokens_per_s is not None for point in points) else ()
        table = self.query_one(RecordTable)
        table.show(points, ("prompt_tokens", "batch", *prefills, *steps))
        table.focus()

    def on_resize(self) -> None:
        """Leave room for the title, the keys and the frame."""
        self.query_one(VerticalScroll).styles.max_height = max(3, self.size.height - 6)

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the panes."""
        self.dismiss(result)
