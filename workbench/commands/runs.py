"""The commands over the store: runs list, show, export."""

import argparse
from dataclasses import asdict

from workbench.output import Format, RowTable, json_text, note, print_json, print_records
from workbench.runs.export import csv_text, records, write_text
from workbench.runs.row import labels
from workbench.runs.store import Store


def list_runs(options: argparse.Namespace) -> int:
    """All runs, the newest first."""
    with Store() as store:
        runs = store.runs()
    listed = [
        {
            "run_id": run.run_id,
            "started_at": run.started_at,
            "kind": run.kind,
            "model": run.model,
            "rows": run.rows,
            "status": run.status.value,
            "machine": run.machine,
            "note": run.note,
        }
        for run in runs
    ]
    if not listed and options.format is Format.TABLE:
        note("No runs yet. `workbench sweep MODEL` measures one.")
        return 0
    print_records(listed, options.format)
    return 0


def show(options: argparse.Namespace) -> int:
    """One run's rows, in JSON with every sample behind each."""
    with Store() as store:
        run = store.run(options.run)
        rows = store.rows_with_samples(run.run_id)
    _say_if_empty(run.run_id, len(rows))
    match options.format:
        case Format.JSON:
            print_json([{**records([row])[0], "samples": asdict(samples)} for row, samples in rows])
        case Format.CSV:
            print(csv_text(row for row, _ in rows), end="")
        case _:
            print(f"{run.run_id} · {run.kind} · {run.started_at} · {run.status}{' · ' + run.note if run.note else ''}")
            if rows:
                print(labels(rows[0][0]))
            table = RowTable(run.kind)
            for row, _ in rows:
                table.print_row(row)
    return 0


def export(options: argparse.Namespace) -> int:
    """One run's rows as CSV or JSON, to a file or standard output."""
    with Store() as store:
        run = store.run(options.run)
        rows = store.rows(run.run_id)
    _say_if_empty(run.run_id, len(rows))
    text = json_text(records(rows)) if options.format is Format.JSON else csv_text(rows)
    if options.output is None:
        print(text, end="")
    else:
        path = write_text(text, options.output)
        note(f"{len(rows)} rows of {run.run_id} written to {path}")
    return 0


def _say_if_empty(run_id: str, rows: int) -> None:
    if not rows:
        note(f"{run_id} has no rows: it ended before its first point was measured.")
