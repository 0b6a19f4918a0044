"""How the command line prints records: a table for people, JSON or CSV for scripts, one schema behind all."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from workbench.runs.row import COLUMN, Row, cell


class Format(StrEnum):
    """What `--format` takes."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def note(text: str) -> None:
    """A line for the person, on standard error."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A value as JSON on standard output."""
    print(json_text(value), end="", flush=True)


def json_text(value: Any) -> str:
    """A value as JSON, a line a key."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def print_csv(records: Sequence[Mapping[str, Any]]) -> None:
    """Records of one shape as CSV on standard output."""
    if not records:
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    print(text.getvalue(), end="", flush=True)


def print_table(headings: Sequence[str], lines: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> None:
    """Lines under their headings, columns as wide as their widest cell, figures to the right."""
    body = [list(line) for line in lines]
    widths = [max(len(row[i]) for row in [list(headings), *body]) for i in range(len(headings))]
    for row in [list(headings), *body]:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip(), flush=True)


class RowTable:
    """A table of rows printed one by one as they are measured."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._widths = [max(len(COLUMN[name].heading), 8) for name in names]
        self._headed = False

    def print_row(self, row: Row) -> None:
        """The headings before the first row, then the row; a failed one says why in its own words."""
        if not self._headed:
            self._print([COLUMN[name].heading for name in self._names])
            self._headed = True
        if row.status == "ok":
            self._print([cell(row, name) for name in self._names])
        else:
            print(f"{cell(row, self._names[0]):>{self._widths[0]}}  {row.status}", flush=True)
        if row.flags:
            print(f"{'':>{self._widths[0]}}  ! {row.flags}", flush=True)

    def _print(self, cells: Sequence[str]) -> None:
        print("  ".join(text.rjust(width) for text, width in zip(cells, self._widths, strict=True)), flush=True)
