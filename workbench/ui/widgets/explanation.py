"""Text over the panes that stays until it is dismissed: explanations, help, messages."""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from textual.widgets import Static

from workbench.quantity import Quantity, explain
from workbench.runs.cell import cell, column_of_row, quantity
from workbench.runs.labels import mark, point_words, quantisation_label
from workbench.runs.row import BATCH, Row
from workbench.ui.widgets.scrolled import ScrolledScreen


class TextScreen(ScrolledScreen):
    """A title, lines to read, and a way back."""

    def __init__(self, title: str, lines: Iterable[str], *, is_error: bool = False) -> None:
        super().__init__(title, is_error=is_error)
        self.text = "\n".join(lines)

    def contents(self) -> Static:
        """The lines."""
        return Static(indented(self.text), markup=False)


def indented(text: str) -> Group:
    """The lines of a text, each folded to the width it is shown in at its own indent."""
    lines = ((len(line) - len(line.lstrip()), line.lstrip()) for line in text.split("\n"))
    return Group(*(Padding(Text(line), (0, 0, 0, indent)) for indent, line in lines))


def cell_explanation(row: Row, name: str, more: Sequence[str] = ()) -> TextScreen:
    """What `enter` on a cell shows: the figure, what its column means, its formula and inputs, `more`, its labels."""
    column = column_of_row(row, name)
    figure = quantity(row, name)
    lines: list[str] = []
    if figure is not None:
        # Its name is what the column means.
        lines += explain(figure)
    else:
        lines += [column.meaning[:1].upper() + column.meaning[1:] + ".", ""]
        lines.append(f"{column.heading}: {cell(row, name) or 'not measured'}")
        if column.formula:
            lines.append(f"from {column.formula}")
            inputs = (quantity(row, i) for i in column.inputs)
            lines += [f"  {line}" for q in inputs if q is not None for line in explain(q)]
    if more:
        lines += ["", *more]
    if row.status != "ok":
        lines += ["", f"The point {row.status}."]
    lines += [f"{mark(row)} {flag}" for flag in row.flags.split("; ") if flag]
    lines += ["", *_labels(row)]
    return TextScreen(f"{column.heading} · row of {point_words(row)}", lines)


def figures_explanation(figures: Iterable[Quantity]) -> TextScreen:
    """The figures all rows of a run show together, each with its formula and inputs."""
    lines: list[str] = []
    for figure in figures:
        lines += [*explain(figure), ""]
    return TextScreen("What the rows say together", lines)


def _labels(row: Row) -> list[str]:
    dropped = f", after {row.dropped} dropped while warming up" if row.dropped else ""
    taken = f"median of {row.repeats} steps" if row.kind == BATCH else f"best of {row.repeats}"
    return [
        f"{row.model} · {quantisation_label(row)} · {row.dtype} · {row.weights} weights",
        f"context {row.context_tokens:,} · batch {row.batch:,} · {taken}{dropped}",
        f"{row.engine} {row.engine_version} · {row.device} · {row.threads} threads",
        row.machine,
    ]
