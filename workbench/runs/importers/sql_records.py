"""Results written as SQL: INSERT statements of llama-bench itself, or of a dump of the table they went into."""

import re
from collections.abc import Sequence

from workbench.runs.importers.record import Found, Record, by_name, left_out, line_counter

_INSERT = re.compile(r"INSERT\s+INTO\s+[\"`\[]?\w+[\"`\]]?\s*(?:\(([^()]{1,4000})\))?\s*VALUES\s*\(", re.IGNORECASE)
_CREATE = re.compile(r"CREATE\s+TABLE\s+[^(;]{1,200}\(([^;]{1,8000}?)\)\s*;", re.IGNORECASE)
_VALUE = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^\s,()']*))\s*([,)])")
_PLAIN = re.compile(r"('[^'\n]*'(?:, '[^'\n]*'){0,199})\)")
"""What llama-bench itself writes: every value in quotes, and no quote in one."""
_NEXT = re.compile(r"\s*,\s*\(")
_MARKS = ' \t\r\n"`[]'
MOST_VALUES = 200


def sql_records(text: str) -> Found:
    """Every row inserted, by the names before VALUES, or those of the table where a dump leaves them out."""
    found = Found("SQL")
    made = _CREATE.search(text)
    table = [column.split()[0].strip(_MARKS) for column in made[1].split(",") if column.split()] if made else []
    line_at, cut = line_counter(text), 0
    for insert in _INSERT.finditer(text):
        names = [name.strip(_MARKS) for name in insert[1].split(",")] if insert[1] else table
        place: int | None = insert.end()
        while place is not None and not found.is_full:
            values, end = _values(text, place, names)
            if values is None:
                cut += 1
                break
            found.records.append(Record(line_at(place), by_name(names, values)))
            following = _NEXT.match(text, end)
            place = following.end() if following is not None else None
    if cut:
        found.notes.append(left_out(cut, "statement", "cut short or not readable"))
    return found


def _values(text: str, place: int, names: Sequence[str]) -> tuple[list[str] | None, int]:
    """The values from there to the closing bracket, and where that is; None where they are cut short."""
    if (plain := _PLAIN.match(text, place)) is not None:
        return plain[1][1:-1].split("', '"), plain.end()
    values: list[str] = []
    begun = place
    while len(values) < MOST_VALUES and (value := _VALUE.match(text, place)) is not None:
        values.append(value[2] if value[1] is None else value[1].replace("''", "'"))
        place = value.end()
        if value[3] == ")":
            return values, place
    # llama-bench puts a quote into its values as it stands, so one in a name ends the value too soon.
    line = text[begun : text.find("\n", begun) if "\n" in text[begun:] else len(text)].rstrip().removesuffix(";")
    parts = line.removesuffix(")").strip().removeprefix("'").removesuffix("'").split("', '")
    whole = line.endswith(")") and len(parts) in (len(names), len(names) + 1)
    return (parts if whole else None), begun + len(line)
