"""Rows as table cells, JSON and CSV, all from the one schema."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.paths import expanded
from workbench.runs.row import COLUMNS, Row


def records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as dictionaries under the CSV's column names; None where not measured."""
    return [{column.name: getattr(row, column.name) for column in COLUMNS} for row in rows]


def csv_text(rows: Iterable[Row]) -> str:
    """Rows as CSV with a header line; an empty cell is not measured."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [column.name for column in COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(rows))
    return text.getvalue()


def write_csv(rows: Iterable[Row], path: Path) -> Path:
    """Write rows as CSV to `path`, and return it; StoreError where it can't be written."""
    return write_text(csv_text(rows), path)


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
