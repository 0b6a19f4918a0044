"""Importing 10,000 rows in every form: time from the file to the committed store, and the memory it takes."""

import csv
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.report import print_bar
from tests.models.files import smollm2
from tests.runs.importers.recordings import recording
from workbench.runs.importers.importing import import_file
from workbench.runs.importers.standing import standing
from workbench.runs.store import Store

ROWS = 10_000
BAR_S = 2.0
DEPTHS = 50


def results() -> list[dict[str, Any]]:
    """As many results as there are rows to import: the recorded ones at other lengths, depths and thread counts."""
    recorded = json.loads(recording("llama-bench.json"))
    made = []
    for i in range(ROWS):
        one = dict(recorded[i % len(recorded)])
        one["n_threads"] = 1 + i * 8 // ROWS
        one["n_depth"] = 64 * (i % DEPTHS)
        # Results that are alike in everything are taken once.
        one["avg_ns"] += i
        one["avg_ts"] *= 1 + i / ROWS
        one["samples_ns"] = [ns + i for ns in one["samples_ns"]]
        made.append(one)
    return made


def as_json(rows: Sequence[dict[str, Any]]) -> str:
    return json.dumps(rows, indent=2)


def as_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if not name.startswith("samples")]
    lines = [",".join(names), *(",".join(f'"{row[name]}"' for name in names) for row in rows)]
    assert len(next(csv.reader(lines[1:2]))) == len(names)
    return "\n".join(lines) + "\n"


def as_sql(rows: Sequence[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if not name.startswith("samples")]
    head = f"INSERT INTO llama_bench ({', '.join(names)}) VALUES "
    return "".join(head + "(" + ", ".join(f"'{row[name]}'" for name in names) + ");\n" for row in rows)


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    def line(row: dict[str, Any]) -> str:
        test = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
        return f"| {row['model_type']} | {row['n_threads']} | {test} @ d{row['n_depth']} | {row['avg_ts']:.2f} ± 1.00 |"

    return "\n".join(["| model | threads | test | t/s |", "| --- | --- | --- | --- |", *map(line, rows)]) + "\n"


FORMS: dict[str, Callable[[Sequence[dict[str, Any]]], str]] = {
    "json": as_json,
    "jsonl": as_lines,
    "csv": as_csv,
    "sql": as_sql,
    "md": as_markdown,
}


def main() -> None:
    """Each form once, under the ceiling of a model and a device."""
    under = standing(str(smollm2()), "rtx-5090")
    rows = results()
    with tempfile.TemporaryDirectory() as folder:
        for form, write in FORMS.items():
            os.environ["WORKBENCH_DATA"] = str(Path(folder) / form)
            path = Path(folder) / f"results.{form}"
            path.write_text(write(rows), encoding="utf-8")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            begun = time.perf_counter()
            with Store() as store:
                imported = import_file(store, path, under)
            seconds = time.perf_counter() - begun
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
            size = path.stat().st_size / 1e6
            what = f"{form}, {size:.1f} MB, {imported.rows:,} rows in {len(imported.runs)} runs, peak +{more:.0f} MB: s"
            print_bar(what, seconds, f"< {BAR_S:g}", seconds < BAR_S)


if __name__ == "__main__":
    main()
