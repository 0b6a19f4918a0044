"""Results written as CSV under a line of column names, among whatever else stands in the file."""

import csv
import re
from collections.abc import Callable, Sequence

from workbench.runs.importers.record import Found, Record, by_name, left_out, word

DELIMITERS = (",", ";", "\t")
_MAY_HEAD = re.compile(r"n_prompt|n_gen|avg_ns|avg_ts|t_tg")
"""One of these is in every heading, and in hardly any line of values: looking closer takes long."""
_DECIMAL_COMMA = re.compile(r"(-?[0-9]+),([0-9]+)")


def csv_records(text: str, is_heading: Callable[[Sequence[str]], bool]) -> Found:
    """Every line of values under the last line of names before it.

    Of a line that is cut short the last value is left out, as it may be cut too; the rest of it stays.
    """
    found = Found("CSV")
    names: list[str] | None = None
    delimiter, stray, cut, example = ",", 0, 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if found.is_full:
            break
        if not line.strip():
            continue
        if names is None or _MAY_HEAD.search(line) is not None:
            headed = next((each for each in DELIMITERS if is_heading(_cells(line, each))), None)
            if headed is not None:
                names, delimiter = [name.strip().lower() for name in _cells(line, headed)], headed
                continue
        cells = _cells(line, delimiter) if names is not None else []
        # A line of a log may hold commas too, though not half as many.
        if names is None or not len(names) < 2 * len(cells) <= 2 * len(names) + 2:
            stray, example = stray + 1, example or word(line)[:60]
            continue
        if len(cells) < len(names):
            cut += 1
            cells = cells[:-1]
        if delimiter == ";":
            # Spreadsheets put semicolons between values where a comma begins decimals.
            cells = [_DECIMAL_COMMA.sub(r"\1.\2", cell) if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
        found.records.append(Record(number, by_name(names, cells)))
    if cut:
        found.notes.append(f"{cut:,} {'line is' if cut == 1 else 'lines are'} cut short: what is there is taken")
    if stray and found.records:
        found.notes.append(left_out(stray, "line", f"no result, as in {example!r}"))
    return found


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        # One line at a time: an open quote must not swallow those after it.
        return next(csv.reader([line.rstrip("\r")], delimiter=delimiter), [])
    except csv.Error:
        return []
