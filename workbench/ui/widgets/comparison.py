"""Two runs side by side over the panes: what differs first, then prefill and decode of the points both measured."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from workbench.record import headings
from workbench.runs.compare import ComparedPoint, Comparison
from workbench.ui.widgets.overlay import Overlay
from workbench.ui.widgets.record_table import RecordTable

PHASES = {"prefill": "ttft", "decode": "total_tokens_per_s"}
"""The phases, and what the names of their figures have in common."""
POINT = ("prompt_tokens", "batch")


def _figures(of_phase: str) -> tuple[str, ...]:
    """The names of a phase's figures in the order of a table."""
    told, ratio = f"{of_phase}_told", f"{of_phase}_ratio"
    both = tuple(name for name in headings(ComparedPoint) if of_phase in name and not name.startswith((told, ratio)))
    return (told, ratio, f"{ratio}_low", f"{ratio}_high", *both)


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
                differing, *about = compared.sentences
                yield Static(differing, id="compared-labels", markup=False)
                for phase in PHASES:
                    yield Static("", id=f"{phase}-compared-heading", classes="panel-title", markup=False)
                    yield RecordTable(id=f"{phase}-compared")
                yield Static(" ".join(about), id="compared-words", markup=False)
                yield Static("\n".join(f"not matched: {line}" for line in compared.unmatched), markup=False)
            yield Static("esc close   arrows move   enter explain", classes="panel-keys", markup=False)

    def on_mount(self) -> None:
        """Fill the tables, what the ratio tells first; a phase that no point has is left out."""
        points = self._comparison.points
        alike = [name for name in POINT if len({getattr(point, name) for point in points}) == 1]
        # A single point has its columns all the same.
        alike = alike if len(alike) < len(POINT) else ["batch"]
        of = "".join(f", {headings(ComparedPoint)[name]} {getattr(points[0], name):,}" for name in alike if points)
        for phase, of_phase in PHASES.items():
            has_any = any(getattr(point, f"{of_phase}_told") is not None for point in points)
            table = self.query_one(f"#{phase}-compared", RecordTable)
            heading = self.query_one(f"#{phase}-compared-heading", Static)
            table.display = heading.display = has_any
            heading.update(f"{phase}{of}")
            table.show(points if has_any else (), (*(name for name in POINT if name not in alike), *_figures(of_phase)))
        next((table for table in self.query(RecordTable) if table.display), self).focus()

    def on_resize(self) -> None:
        """Leave room for the title, the keys and the frame."""
        self.query_one(VerticalScroll).styles.max_height = max(3, self.size.height - 6)

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the panes."""
        self.dismiss(result)
