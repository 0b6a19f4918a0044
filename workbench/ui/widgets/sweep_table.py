"""The prefill/decode table: one line for each prompt length, filled as it is measured."""

from rich.text import Text
from textual.widgets import DataTable

from workbench.runs.row import COLUMN, SWEEP_TABLE, Row, cell

PENDING = "…"
WIDTHS = {"prompt_tokens": 8, "ttft_ms": 8, "prompt_tokens_per_s": 7, "prefill_gflop_per_s": 8}
LEAST_WIDTH = 7


class SweepTable(DataTable[Text]):
    """Rows under the headings of the sweep, figures to the right; arrows move, enter selects a cell."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, header_height=2, cell_padding=0, cursor_type="cell")
        self.rows_shown: list[Row] = []

    def on_mount(self) -> None:
        """Make the columns."""
        for name in SWEEP_TABLE:
            lines = heading_lines(COLUMN[name].heading)
            width = max(LEAST_WIDTH, WIDTHS.get(name, 0), *(len(line) + 1 for line in lines))
            self.add_column(Text("\n".join(lines), justify="right"), width=width, key=name)

    def show(self, rows: list[Row], pending: int | None) -> None:
        """Show these rows, and the prompt length that is being measured below them."""
        if rows[: len(self.rows_shown)] != self.rows_shown:
            self.clear()
            self.rows_shown = []
        for row in rows[len(self.rows_shown) :]:
            self._put(len(self.rows_shown), [_cell_text(row, name) for name in SWEEP_TABLE])
            self.rows_shown.append(row)
        place = len(self.rows_shown)
        if pending is not None:
            texts = [f"{pending:,}", PENDING, *[""] * (len(SWEEP_TABLE) - 2)]
            self._put(place, [Text(text, justify="right") for text in texts])
        elif self.row_count > place:
            self.remove_row(str(place))

    def _put(self, place: int, texts: list[Text]) -> None:
        """Fill a line, in place where it is there already, so that the cursor stays where it is."""
        if place == self.row_count:
            self.add_row(*texts, key=str(place))
            return
        for name, text in zip(SWEEP_TABLE, texts, strict=True):
            if self.get_cell(str(place), name) != text:
                self.update_cell(str(place), name, text)

    def selected(self) -> tuple[Row, str] | None:
        """The row and the column under the cursor; None on the point being measured or an empty table."""
        place = self.cursor_coordinate
        if place.row >= len(self.rows_shown):
            return None
        return self.rows_shown[place.row], SWEEP_TABLE[place.column]


def heading_lines(heading: str) -> list[str]:
    """A heading on two lines, broken at its last space or after its stroke."""
    first, space, last = heading.rpartition(" ")
    return [first, last] if space else ["", heading]


def _cell_text(row: Row, name: str) -> Text:
    text = cell(row, name)
    if name == "prompt_tokens" and (row.flags or row.status != "ok"):
        text = f"! {text}"
    if name == "prompt_tokens_per_s" and row.status != "ok":
        text = "failed"
    return Text(text, justify="right", no_wrap=True, overflow="ellipsis")
