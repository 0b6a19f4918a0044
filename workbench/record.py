"""Records: dataclasses whose fields are figures or words, from which table, JSON, CSV and screen are all made."""

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

from workbench.quantity import Quantity, Unit, format_number, format_value

_BARE_UNITS = frozenset(
    {
        Unit.TOKENS_PER_SECOND,
        Unit.TOKENS,
        Unit.COUNT,
        Unit.MILLISECONDS,
        Unit.GB_PER_SECOND,
        Unit.GFLOP_PER_SECOND,
        Unit.FLOP_PER_BYTE,
    }
)
"""Units that stand in a column's heading rather than in each of its cells."""


def headed(heading: str) -> Any:
    """A field of a record, with the heading of its column."""
    return field(metadata={"heading": heading})


def headings(record: Any) -> dict[str, str]:
    """Each field's heading, in order, of a record or its class; of a mapping its keys."""
    if isinstance(record, Mapping):
        return {str(key): str(key) for key in record}
    return {f.name: f.metadata.get("heading", f.name) for f in fields(record)}


def cells(record: Any) -> dict[str, Any]:
    """Each field's figure or word, in order."""
    return dict(record) if isinstance(record, Mapping) else {f.name: getattr(record, f.name) for f in fields(record)}


def plain(value: Any) -> Any:
    """A record, figure or word as values JSON can hold, under the names of its fields; whole figures as integers."""
    match value:
        case Quantity():
            whole = value.unit in (Unit.BYTES, Unit.FLOP, Unit.PARAMETERS, Unit.TOKENS)
            return int(value.value) if whole and value.value == int(value.value) else value.value
        case str():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if is_dataclass(value):
            return {name: plain(cell) for name, cell in cells(value).items()}
        case _:
            return value


def written(cell: Any) -> str:
    """A figure or word as a table shows it under its heading: a dash where there is none."""
    match cell:
        case None:
            return "–"
        case bool():
            return "yes" if cell else "no"
        case Quantity() if cell.unit in _BARE_UNITS:
            return format_cell_number(cell.value)
        case Quantity():
            return format_value(cell.value, cell.unit)
        case int():
            return f"{cell:,}"
        case float():
            return format_cell_number(cell)
        case Mapping():
            return ", ".join(f"{count} {name}" for name, count in cell.items())
        case list() | tuple():
            return " ".join(map(str, cell))
        case _:
            return str(cell)


def clipped(text: str, width: int) -> str:
    """A text in so many characters at most, the last of them an ellipsis where some are left out."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def format_cell_number(value: float) -> str:
    """One decimal between 10 and 1,000, three significant digits otherwise: figures that line up in a column."""
    return f"{value:,.1f}" if 10 <= abs(value) < 1000 else format_number(value)
