"""A cell of a row: how a table writes it, and the formula and inputs it came from."""

from dataclasses import replace
from typing import Any

from workbench.quantity import Quantity, Unit
from workbench.record import format_cell_number
from workbench.runs.column import Column
from workbench.runs.row import COLUMN, Row, column_of

NOT_TOLD = "–"


_OF_REPEATS = {
    "ttft_ms": "time to first token: prefill of the whole prompt; a mean, whose samples its file doesn't have",
    "tpot_ms": "time per output token after the first; a mean, whose samples its file doesn't have",
    "step_ms": "time of a decode step of all sequences; a mean, whose samples its file doesn't have",
}
"""What else is the best or the median of samples, where a row came without any."""


def column_of_row(row: Row, name: str) -> Column:
    """A column as that row has it."""
    column = column_of(name, row.kind)
    if name in _OF_REPEATS and row.ttft_median_ms is None and row.tpot_median_ms is None:
        column = replace(column, meaning=_OF_REPEATS[name])
    return column.of_operations() if row.predicted_from else column


def cell(row: Row, name: str) -> str:
    """A row's value as a table shows it, without the unit its heading carries; empty where not measured."""
    if not _is_told(row, name):
        return NOT_TOLD
    return _written(COLUMN[name], getattr(row, name))


def quantity(row: Row, name: str) -> Quantity | None:
    """A cell with its formula and inputs, as `enter` shows it; None where it holds no figure."""
    value = getattr(row, name)
    column = column_of_row(row, name)
    if not isinstance(value, int | float) or not _is_told(row, name):
        return None
    inputs = tuple(q for q in (quantity(row, i) for i in column.inputs) if q is not None)
    found = _quantity(column, value, inputs)
    return replace(found, source=row.predicted_from) if column.from_operations and row.predicted_from else found


def _is_told(row: Row, name: str) -> bool:
    """Steps that were timed alone have no prompt; of another tool's failed result it may not be known, and is 0."""
    if row.is_steps_alone:
        return name != "prompt_tokens"
    return name != "prompt_tokens" or row.prompt_tokens > 0 or row.status == "ok"


def _written(column: Column, value: Any) -> str:
    """A value as a table shows it under its column's heading."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _ if column.unit is Unit.SHARE:
            return f"{value * 100:.0f} %" if value >= 0.095 else f"{value * 100:.1f} %"
        case _ if column.unit in (Unit.BYTES, Unit.FLOP):
            return str(_quantity(column, value))
        case int():
            return f"{value:,}"
        case _:
            return format_cell_number(value)


def _quantity(column: Column, value: float, inputs: tuple[Quantity, ...] = ()) -> Quantity:
    """A column's value as a quantity."""
    return Quantity(column.meaning, value, column.unit, column.origin, column.symbol, column.formula, inputs)
