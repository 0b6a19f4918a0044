"""The ladder on screen: its rungs under each other with their bars, times, intervals and shares."""

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from workbench.experiments.gap.ladder import FRAMEWORK
from workbench.experiments.gap.parts import Part
from workbench.record import written
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, OTHER_LOAD, Ladder, Rung
from workbench.runs.ladder_record import NOT_RESOLVED, LadderLine, ladder_lines, milliseconds
from workbench.runs.row_ladder.terms import CONTEXT, FIXED, PROMPT, SEQUENCES, SQUARE
from workbench.ui.widgets.telling_table import TellingTable
from workbench.ui.widgets.waterfall import BLOCK_BARS, Bars, waterfall

SHORT_NAMES: Mapping[str, str] = {
    BELOW_VENDOR: "below the vendor",
    Part.ELEMENTWISE: "norms, routing …",
    FRAMEWORK: "framework",
    Part.SAMPLING: "sampling, loop",
    OTHER_LOAD: "other load",
    BELOW_QUIET: "below quiet",
    FIXED: "fixed cost",
    CONTEXT: "context, extra",
    SEQUENCES: "sequences, extra",
    PROMPT: "prompt, extra",
    SQUARE: "n² term, extra",
}
"""Of the rungs whose names are too long for a narrow terminal."""
NARROW_NAME, WIDE_NAME, WIDE = 17, 35, 110
MS, INTERVAL, SHARE = 9, 21, 13
LEAST_BAR = 8


class LadderTable(TellingTable):
    """A line for the ceiling, each rung, the remainder and the measured time; arrows move, enter selects a line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cell_padding=0, cursor_type="row", cursor_foreground_priority="renderable")
        self.ladder: Ladder | None = None
        self._bars = BLOCK_BARS
        self._drawn_for = 0

    def show(self, ladder: Ladder | None) -> None:
        """Show this ladder; the cursor stays on its line."""
        if ladder == self.ladder:
            return
        self.ladder = ladder
        self._fill()

    def use(self, bars: Bars) -> None:
        """Draw the bars with these characters."""
        self._bars = bars
        self._fill()

    def on_resize(self) -> None:
        """Give the bars what room there is."""
        if self.size.width != self._drawn_for:
            self._fill()

    @property
    def place(self) -> int:
        """The line under the cursor: 0 the ceiling, then the rungs and the remainder, last the measured time."""
        return self.cursor_coordinate.row

    def _fill(self) -> None:
        place, width = self.place, self.size.width
        self._drawn_for = width
        self.clear(columns=True)
        if self.ladder is None or not width:
            return
        wide = width >= WIDE
        name = WIDE_NAME if wide else NARROW_NAME
        bar = max(LEAST_BAR, width - name - MS - INTERVAL - SHARE - 1)
        for heading, room, left in (
            ("rung", name, True),
            ("", bar, True),
            ("ms", MS, False),
            ("95 % interval", INTERVAL, False),
            ("of the pass", SHARE, False),
        ):
            self.add_column(Text(heading, justify="left" if left else "right"), width=room)
        rungs = (None, *self.ladder.terms, None)
        drawn = waterfall(self.ladder, bar, self._bars)
        for line, rung, picture in zip(ladder_lines(self.ladder), rungs, drawn, strict=True):
            self.add_row(*_cells(line, rung, picture, wide))
        self.move_cursor(row=place)


def _cells(line: LadderLine, rung: Rung | None, picture: str, wide: bool) -> tuple[Text, ...]:
    name = line.name if wide else SHORT_NAMES.get(line.name, line.name)
    share = written(line.of_pass) if rung is None or rung.resolved else NOT_RESOLVED
    figures = (milliseconds(line.ms.value / 1e3), line.interval, share)
    return Text(name), Text(picture), *(Text(figure, justify="right") for figure in figures)
