"""The commands over the store: runs list, show, export, explain, compare, resume and delete."""

import argparse
from dataclasses import asdict

from workbench.gap_output import print_ladder
from workbench.output import Format, RowTable, json_text, note, print_json, print_records
from workbench.runs.checks import Verdict
from workbench.runs.compare import compare
from workbench.runs.export import csv_text, ladder_csv_text, records, run_csv_text, write_text
from workbench.runs.labels import figures_words, labels
from workbench.runs.ladder_record import ladder_record
from workbench.runs.listed import listed
from workbench.runs.ownership import can_be_taken_over, owner_words
from workbench.runs.store import Store
from workbench.runs.symptoms import SHOWN_APART, explained_rows, failures, symptom_words, symptoms, untold_words


def list_runs(options: argparse.Namespace) -> int:
    """All runs, the newest first."""
    with Store() as store:
        runs = store.runs()
    if not runs and options.format is Format.TABLE:
        note("No runs yet. `workbench sweep MODEL` measures one.")
        return 0
    print_records([listed(run) for run in runs], options.format)
    return 0


def show(options: argparse.Namespace) -> int:
    """One run's rows, in JSON with every sample behind each; of a pass that was taken apart its ladder."""
    with Store() as store:
        run = store.run(options.run)
        rows = store.rows_with_samples(run.run_id)
        ladder = store.ladder(run.run_id)
    if ladder is None:
        _say_if_empty(run.run_id, len(rows))
    samples_too = [{**records([row])[0], "samples": asdict(samples)} for row, samples in rows]
    match options.format:
        case Format.JSON if ladder is not None:
            print_json({"run_id": run.run_id, "status": run.status, **ladder_record(ladder), "rows": samples_too})
        case Format.JSON:
            print_json(samples_too)
        case Format.CSV if ladder is not None:
            print(ladder_csv_text(run, ladder), end="")
        case Format.CSV:
            print(csv_text(row for row, _ in rows), end="")
        case _:
            print(f"{run.run_id} · {run.kind} · {run.started_at} · {run.status}{' · ' + run.note if run.note else ''}")
            if rows:
                print(labels([row for row, _ in rows]))
            if ladder is not None:
                print_ladder(run, ladder, Format.TABLE)
                return 0
            if rows:
                print(figures_words([row for row, _ in rows]))
            table = RowTable(run.kind, [row for row, _ in rows])
            for row, _ in rows:
                table.print_row(row)
    return 0


def export(options: argparse.Namespace) -> int:
    """One run's rows, or its ladder, as CSV or JSON, to a file or standard output."""
    with Store() as store:
        run = store.run(options.run)
        rows = store.rows(run.run_id)
        ladder = store.ladder(run.run_id)
        text = run_csv_text(store, run.run_id)
    if ladder is None:
        _say_if_empty(run.run_id, len(rows))
    if options.format is Format.JSON:
        text = json_text(records(rows) if ladder is None else ladder_record(ladder))
    if options.output is None:
        print(text, end="")
    else:
        path = write_text(text, options.output)
        what = f"{len(rows)} rows" if ladder is None else "the ladder"
        note(f"{what} of {run.run_id} written to {path}")
    return 0


def import_results(options: argparse.Namespace) -> int:
    """The results of another tool's file as runs; those of a file already imported only where asked again."""
    from workbench.runs.importers.importing import import_file, words
    from workbench.runs.importers.standing import standing

    under = standing(options.model, options.hardware)
    with Store() as store:
        imported = import_file(store, options.file, under, again=options.again)
        names = [run.run_id for run in imported.runs or imported.already]
        kept = [listed(store.run(name)) for name in names]
    print_records(kept, options.format)
    for sentence in words(imported):
        note(sentence)
    if imported.already and not imported.runs:
        note("--again imports it once more, under another --model or --hardware too.")
    return 0


def explained(options: argparse.Namespace) -> int:
    """The symptoms that the rows of one run, or of several together, show."""
    with Store() as store:
        runs = [store.run(name) for name in options.runs]
        rows = explained_rows([(run, store.rows(run.run_id)) for run in runs])
    lines, failed = symptoms(rows), failures(rows)
    say = print if options.format is Format.TABLE else note
    if options.format is Format.TABLE:
        print(f"{', '.join(run.run_id for run in runs)} · {labels(rows)}")
    for sentence in failed:
        say(sentence)
    if options.format is not Format.TABLE:
        print_records(lines, options.format)
        return 0
    print_records(lines, Format.TABLE, without=SHOWN_APART)
    for line in lines:
        if line.verdict != Verdict.UNKNOWN:
            print(f"\n{line.symptom}: {line.verdict}")
            for words in symptom_words(line):
                print(f"  {words}")
    if untold := list(untold_words(lines)):
        print(f"\n{Verdict.UNKNOWN}:")
        for words in untold:
            print(f"  {words}")
    return 0


def compared(options: argparse.Namespace) -> int:
    """Two runs side by side, what differs between them named first."""
    with Store() as store:
        run, other = store.run(options.run), store.run(options.other)
        comparison = compare(run, store.rows_with_samples(run.run_id), other, store.rows_with_samples(other.run_id))
    if options.format is Format.JSON:
        print_json(comparison)
        return 0
    say = print if options.format is Format.TABLE else note
    say(f"{comparison.run} and, as the other, {comparison.other}")
    for sentence in comparison.sentences:
        say(sentence)
    print_records(comparison.points, options.format)
    for line in comparison.unmatched:
        say(f"not matched: {line}")
    return 0


def resume(options: argparse.Namespace) -> int:
    """The missing points of a run that was interrupted, measured with its own settings."""
    from workbench.headless import resume_run

    if options.take_over:
        with Store() as store:
            _take_over(store, options.run)
    return resume_run(options.run, options.format)


def delete(options: argparse.Namespace) -> int:
    """One run and its rows out of the store."""
    with Store() as store:
        if options.take_over:
            _take_over(store, options.run)
        run = store.delete_run(options.run)
    note(f"{run.run_id}, {run.model}, was deleted with its {run.rows} row{'' if run.rows == 1 else 's'}.")
    return 0


def _take_over(store: Store, name: str) -> None:
    """Take a run from a process that can't be seen from here, and say from which."""
    run = store.run(name)
    if can_be_taken_over(run):
        note(owner_words(run))
    store.take_over(name)


def _say_if_empty(run_id: str, rows: int) -> None:
    if not rows:
        note(f"{run_id} has no rows: none of its points is measured.")
