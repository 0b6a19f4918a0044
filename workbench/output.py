"""How the command line prints records: a table for people, JSON or CSV for scripts, one schema behind all."""

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, TextIO

from workbench.record import cells, headings, plain, written
from workbench.runs.beside import experts_words, extrapolated_words
from workbench.runs.cell import cell
from workbench.runs.labels import FLAGS_APART, flags_of_all, mark
from workbench.runs.row import POINT_COLUMNS, PREFILL_DECODE, Row
from workbench.runs.row_columns import TableColumn, columns_shown


class Format(StrEnum):
    """What `--format` takes."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def note(text: str) -> None:
    """A line for the person, on standard error; where that can't be written there is nobody to tell."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        write_nowhere(sys.stderr)


def write_nowhere(stream: TextIO) -> None:
    """Let a stream that can't be written any more take what is left in it, and what comes, without an error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(value: Any) -> None:
    """A value as JSON on standard output."""
    print(json_text(value), end="", flush=True)


def json_text(value: Any) -> str:
    """A value as JSON, a line a key; records and figures in it as `plain` has them."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"


def print_records(records: Sequence[Any], chosen: Format, without: Sequence[str] = ()) -> None:
    """Records of one kind, dataclasses or mappings, in the format chosen.

    A table leaves out the fields `without`, and those that no record has a figure or word in.
    """
    match chosen:
        case Format.JSON:
            print_json(list(records))
        case Format.CSV:
            _print_csv([cells(record) for record in records])
        case _ if records:
            rows = [cells(record) for record in records]
            shown = [name for name in rows[0] if name not in without and any(row[name] is not None for row in rows)]
            words = [i for i, name in enumerate(shown) if any(isinstance(row[name], str) for row in rows)]
            heads = headings(records[0])
            print_table(
                [heads[name] for name in shown], [[written(row[name]) for name in shown] for row in rows], words
            )
        case _:
            pass


def _print_csv(records: Sequence[dict[str, Any]]) -> None:
    if not records:
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(cell) for name, cell in record.items()} for record in records)
    print(text.getvalue(), end="", flush=True)


def _csv_cell(cell: Any) -> Any:
    """A figure or word as one cell of CSV: yes and no as in JSON, what has several parts as a table shows it."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case Mapping() | list() | tuple():
            return written(cell)
        case _:
            return plain(cell)


def print_table(headings: Sequence[str], lines: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> None:
    """Lines under their headings, columns as wide as their widest cell, figures to the right."""
    body = [list(line) for line in lines]
    head = [list(headings)] if any(headings) else []
    widths = [max((len(row[i]) for row in [*head, *body]), default=0) for i in range(len(headings))]
    for row in [*head, *body]:
        cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip(), flush=True)


class RowTable:
    """A table of one kind's rows, printed one by one as they are measured: the first says what columns there are.

    Where all its `rows` are known beforehand, what is to be said of every one of them is said once above.
    """

    def __init__(self, kind: str, rows: Sequence[Row] = ()) -> None:
        self._kind = kind
        self._rows = rows
        self._columns: tuple[TableColumn, ...] = ()
        self._point = (*POINT_COLUMNS.get(kind, POINT_COLUMNS[PREFILL_DECODE]), "depth_tokens")
        self._of_all = flags_of_all(rows)

    def print_row(self, row: Row) -> None:
        """The headings before the first row, then the row; a failed one says why in its own words."""
        if not self._columns:
            for flag in self._of_all:
                print(f"! every row: {flag}", flush=True)
            self._columns = columns_shown(self._kind, self._rows or [row])
            for line in range(2):
                self._print([column.heading[line] for column in self._columns])
        names = [column.name for column in self._columns]
        if row.status == "ok":
            self._print([cell(row, name) for name in names])
        else:
            self._print([*(cell(row, name) for name in names if name in self._point), row.status])
        own = "; ".join(flag for flag in row.flags.split(FLAGS_APART) if flag not in self._of_all)
        flags = f"{mark(row)} {own}" if own else ""
        for words in (experts_words(row), extrapolated_words(row), flags):
            if words:
                print(f"{'':>{self._columns[0].width}}  {words}", flush=True)

    def _print(self, cells: Sequence[str]) -> None:
        widths = (column.width - 1 for column in self._columns)
        print(" ".join(text.rjust(width) for text, width in zip(cells, widths, strict=False)), flush=True)
