"""The table of a run: one line for each of its points, filled as it is measured."""

from collections.abc import Sequence

from rich.text import Text

from workbench.runs.cell import cell
from workbench.runs.labels import mark
from workbench.runs.row import POINT_COLUMNS, PREFILL_DECODE, Row
from workbench.runs.row_columns import columns_shown
from workbench.ui.widgets.telling_table import TellingTable

PENDING = "…"


class SweepTable(TellingTable):
    """Rows of one kind under their headings, figures to the right; arrows move, enter selects a cell."""

    def __init__(self, kind: str = PREFILL_DECODE, *, id: str) -> None:
        super().__init__(id=id, header_height=2, cell_padding=0, cursor_type="cell")
        self._kind = kind
        self._names: tuple[str, ...] = ()
        self._point = POINT_COLUMNS[kind]
        self.rows_shown: list[Row] = []

    def on_mount(self) -> None:
        """Make the columns."""
        self._make_columns([])

    def _make_columns(self, rows: Sequence[Row]) -> None:
        """Make those that these rows have, where they are others than before."""
        columns = columns_shown(self._kind, rows)
        names = tuple(column.name for column in columns)
        if names == self._names:
            return
        self._names = names
        self.clear(columns=True)
        self.rows_shown = []
        for column in columns:
            self.add_column(Text("\n".join(column.heading), justify="right"), width=column.width, key=column.name)

    def show(self, rows: list[Row], pending: Sequence[int] | None) -> None:
        """Show these rows, and below them the point that is being measured: its prompt length, and its batch."""
        self._make_columns(rows)
        if rows[: len(self.rows_shown)] != self.rows_shown:
            self.clear()
            self.rows_shown = []
        for row in rows[len(self.rows_shown) :]:
            self._put(len(self.rows_shown), [_cell_text(row, name, self._point) for name in self._names])
            self.rows_shown.append(row)
        place = len(self.rows_shown)
        if pending is not None:
            lead = [f"{value:,}" for value in pending[: len(self._point)]]
            texts = [*lead, PENDING, *[""] * (len(self._names) - len(lead) - 1)]
            self._put(place, [Text(text, justify="right") for text in texts])
        elif self.row_count > place:
            self.remove_row(str(place))

    def _put(self, place: int, texts: list[Text]) -> None:
        """Fill a line, in place where it is there already, so that the cursor stays where it is."""
        if place == self.row_count:
            self.add_row(*texts, key=str(place))
            return
        for name, text in zip(self._names, texts, strict=True):
            if self.get_cell(str(place), name) != text:
                self.update_cell(str(place), name, text)

    def selected(self) -> tuple[Row, str] | None:
        """The row and the column under the cursor; None on the point being measured or an empty table."""
        place = self.cursor_coordinate
        if place.row >= len(self.rows_shown):
            return None
        return self.rows_shown[place.row], self._names[place.column]


def _cell_text(row: Row, name: str, point: Sequence[str]) -> Text:
    text = cell(row, name)
    if name == point[0] and (row.flags or row.status != "ok"):
        text = f"{mark(row)} {text}"
    if name in ("prompt_tokens_per_s", "total_tokens_per_s") and row.status != "ok":
        text = row.status.partition(":")[0]
    return Text(text, justify="right", no_wrap=True, overflow="ellipsis")
