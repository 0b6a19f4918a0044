"""Rows and ladders as JSON and CSV, and how an export is written."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.paths import expanded
from workbench.runs.ladder import Ladder
from workbench.runs.ladder_record import ladder_rows
from workbench.runs.row import COLUMNS, Row
from workbench.runs.run import Run
from workbench.runs.store import Store


def records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries under the CSV's column names; None where not measured."""
    return [{column.name: getattr(row, column.name) for column in COLUMNS} for row in rows]


def csv_text(rows: Iterable[Row]) -> str:
    """Rows as CSV with a header line; an empty cell is not measured."""
    return _csv_text([column.name for column in COLUMNS], records(rows))


def ladder_csv_text(run: Run, ladder: Ladder) -> str:
    """A run's ladder as CSV with a header line; the ceiling and the measured time have no interval."""
    lines = ladder_rows(run, ladder)
    return _csv_text(list(lines[0]), lines)


def run_csv_text(store: Store, run_id: str) -> str:
    """What a run came to as CSV: the ladder of a pass that was taken apart, else its rows."""
    ladder = store.ladder(run_id)
    return csv_text(store.rows(run_id)) if ladder is None else ladder_csv_text(store.run(run_id), ladder)


def _csv_text(names: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def write_text(text: str, path: Path) -> Path:
    """Write an export to `path`, whole or not at all, and return it; StoreError where it can't be written.

    Something that is no ordinary file, such as /dev/stdout, is written to directly.
    """
    path = expanded(path)
    try:
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise IsADirectoryError(f"{path} is a folder")
            path.write_text(text, encoding="utf-8")
            return path
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"The export can't be written to {path}: {reason}. The rows are still in the store: export again to a "
            "path that can be written, as in `workbench runs export RUN --output PATH`."
        ) from error
    return path
