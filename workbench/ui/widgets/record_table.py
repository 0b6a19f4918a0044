"""Records as a table: a line each, and enter on a cell shows where its figure comes from."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual import on
from textual.widgets import DataTable

from workbench.quantity import Quantity, explain
from workbench.record import cells, clipped, headings, written
from workbench.ui.widgets.explanation import TextScreen


class RecordTable(DataTable[Text]):
    """Shows some fields of records of one kind; arrows move, enter explains the cell under the cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cell_padding=1, cursor_type="cell", cursor_foreground_priority="renderable")
        self._records: tuple[Any, ...] = ()
        self._names: tuple[str, ...] = ()

    def show(self, records: Sequence[Any], names: Sequence[str], widest: int | None = None) -> None:
        """Show these fields of these records, no cell wider than `widest`; the cursor stays where it was."""
        if (tuple(records), tuple(names)) == (self._records, self._names):
            return
        place, same = self.cursor_coordinate, tuple(names) == self._names
        self._records, self._names = tuple(records), tuple(names)
        self.clear(columns=True)
        if not records:
            return
        for name in names:
            left = any(isinstance(cells(record)[name], str) for record in records)
            self.add_column(Text(headings(records[0])[name], justify="left" if left else "right"), key=name)
        for record in records:
            found = cells(record)
            self.add_row(
                *(
                    Text(
                        written(found[name]) if widest is None else clipped(written(found[name]), widest),
                        justify="left" if isinstance(found[name], str) else "right",
                    )
                    for name in names
                )
            )
        column = place.column if same else _first_figure(records[0], names)
        self.move_cursor(row=min(place.row, len(records) - 1), column=column)

    @property
    def selected(self) -> Any | None:
        """The record under the cursor, None in an empty table."""
        return self._records[self.cursor_coordinate.row] if self._records else None

    @on(DataTable.CellSelected)
    def _explain(self, event: DataTable.CellSelected) -> None:
        event.stop()
        record, name = self.selected, self._names[event.coordinate.column]
        if record is not None:
            self.app.push_screen(cell_explanation(record, name))

    def action_cursor_down(self) -> None:
        """Down, and past the last line on to what follows."""
        if self.cursor_coordinate.row >= self.row_count - 1:
            self.screen.focus_next()
        else:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Up, and past the first line back to what comes before."""
        if self.cursor_coordinate.row == 0:
            self.screen.focus_previous()
        else:
            super().action_cursor_up()


def _first_figure(record: Any, names: Sequence[str]) -> int:
    """The column of the first figure that has something to explain."""
    return next((i for i, name in enumerate(names) if isinstance(cells(record)[name], Quantity)), 0)


def cell_explanation(record: Any, name: str) -> TextScreen:
    """The figure with its formula and inputs; under it what else says which case it is."""
    found, heads = cells(record), headings(record)
    value = found[name]
    lines = list(explain(value)) if isinstance(value, Quantity) else [f"{heads[name]}: {written(value)}"]
    for other in getattr(record, "explained_by", {}).get(name, ()):
        if isinstance(found[other], Quantity):
            lines += ["", *explain(found[other])]
    case = [
        f"{heads[key]} {written(cell)}" for key, cell in found.items() if isinstance(cell, str | int) and key != name
    ]
    return TextScreen(heads[name], [*lines, "", " · ".join(case)])
