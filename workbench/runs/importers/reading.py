"""A file of results, read whatever it was written as: JSON, JSON lines, SQL, CSV, or a table for people."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import ImportRefused
from workbench.paths import expanded
from workbench.runs.importers.csv_records import csv_records
from workbench.runs.importers.json_records import json_records
from workbench.runs.importers.plain_text import MOST_BYTES, plain_text
from workbench.runs.importers.record import MOST_RECORDS, Found, Record, left_out
from workbench.runs.importers.sql_records import sql_records
from workbench.runs.importers.table_records import table_records

EXPECTED = "what llama-bench writes (csv, json, jsonl, md or sql) or llama-batched-bench (its table or jsonl)"
_KNOWN = frozenset({"n_prompt", "n_gen", "avg_ns", "avg_ts", "model_filename", "n_threads", "pp", "tg", "pl", "t_tg"})
LEAST_KNOWN = 3


def read_bytes(path: Path) -> tuple[bytes, bool]:
    """The file's first MOST_BYTES, and whether there are more; raises ImportRefused where it can't be read."""
    path = expanded(path)
    try:
        if path.is_dir():
            raise ImportRefused(f"{path} is a folder. Name the file of results: {EXPECTED}.")
        if not path.exists():
            raise ImportRefused(f"There is no file {path}. Check the path.")
        if not path.is_file():
            # A pipe or a device may never end.
            raise ImportRefused(f"{path} is not an ordinary file. Write the results to one, and name that.")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ImportRefused(f"{path} can't be read: {reason}. Check the path and its permissions.") from error
    return data[:MOST_BYTES], len(data) > MOST_BYTES


def found_in(data: bytes, name: str) -> Found:
    """The results in a file's bytes, by the fullest of the forms they were written in.

    Raises ImportRefused where there are none.
    """
    text, notes = plain_text(data, name, EXPECTED)
    # A log of both streams may hold the same results twice: what says most of them comes first.
    readers: tuple[Callable[[], Found], ...] = (
        lambda: json_records(text, _is_result),
        lambda: sql_records(text),
        lambda: csv_records(text, _is_heading),
        lambda: table_records(text),
    )
    cut_only: Found | None = None
    for read in readers:
        found = read()
        if found.records:
            if found.is_full:
                found.notes.append(f"only the first {MOST_RECORDS:,} results are taken: split the file for the others")
            _take_once(found)
            found.notes += notes
            return found
        cut_only = cut_only or (found if found.notes else None)
    why = [*notes, *(cut_only.notes[:1] if cut_only is not None else ())]
    cut = f" ({'; '.join(why)})" if why else ""
    raise ImportRefused(f"{name} holds no results that can be read{cut}. Expected is {EXPECTED}.")


def _take_once(found: Found) -> None:
    """Leave out results that are there before, to the last figure: a log that was kept twice, or joined to itself."""
    seen: set[str] = set()
    once: list[Record] = []
    for record in found.records:
        said = record.said
        if said not in seen:
            seen.add(said)
            once.append(record)
    repeated = len(found.records) - len(once)
    if repeated:
        found.records[:] = once
        found.notes.append(left_out(repeated, "result", "it stands in the file before, with the same figures"))


def _is_result(values: Mapping[str, Any]) -> bool:
    return len(_KNOWN & values.keys()) >= LEAST_KNOWN


def _is_heading(cells: Sequence[str]) -> bool:
    return len(_KNOWN & {cell.strip().lower() for cell in cells}) >= LEAST_KNOWN
