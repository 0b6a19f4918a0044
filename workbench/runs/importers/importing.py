"""Importing a file of another tool's results: one run for each set of settings in it, kept whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import ImportRefused
from workbench.experiments.settings import BatchSettings, SweepSettings, Weights
from workbench.experiments.sittings import about_model
from workbench.runs.importers import batched_bench, llama_bench
from workbench.runs.importers.imported_point import ImportedPoint, Labels
from workbench.runs.importers.reading import found_in, read_bytes
from workbench.runs.importers.record import Found, Record, left_out, word
from workbench.runs.importers.rows import (
    NO_CEILING,
    NOT_DATED,
    SampledRow,
    batch_row,
    folded,
    prefill_decode_row,
    row_labels,
)
from workbench.runs.importers.standing import Standing, is_of
from workbench.runs.row import BATCH, PREFILL_DECODE
from workbench.runs.run import Run, RunStatus, new_run_id, now
from workbench.runs.store import Store

MOST_RUNS = 1_000
MOST_NAMED = 6
"""Settings that a run's note names before it says how many others there are."""


@dataclass(frozen=True)
class Imported:
    """The runs that a file became, and in words what was left out; `already` are those that hold it from before.

    `failures` are the reasons of those of its rows that have no figure.
    """

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    already: tuple[Run, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Of all its runs together."""
        return sum(run.rows for run in self.runs)


def words(imported: Imported) -> Iterator[str]:
    """What came of an import, in sentences."""
    if not imported.runs:
        names = ", ".join(run.run_id for run in imported.already)
        yield f"This file is already imported, as {names}: nothing was added."
        return
    rows = "1 row" if imported.rows == 1 else f"{imported.rows:,} rows"
    names = ", ".join(run.run_id for run in imported.runs[:MOST_NAMED])
    more = len(imported.runs) - MOST_NAMED
    others = f" and {more:,} other runs" if more > 0 else ""
    without = f", {len(imported.failures):,} of them without a figure" if imported.failures else ""
    yield f"{rows} imported as {names}{others}{without}."
    if imported.failures:
        first = "It" if len(imported.failures) == 1 else "The first"
        yield f"{first} says: {imported.failures[0]}."
    for note in imported.notes:
        yield f"{note[:1].upper()}{note[1:]}."


def import_file(store: Store, path: Path, under: Standing, *, again: bool = False) -> Imported:
    """Keep the results of a file as runs; those of a file already imported only where that is asked for `again`.

    Raises ImportRefused where the file can't be read or holds no results, StoreError where the store can't be written.
    """
    data, is_longer = read_bytes(path)
    name = word(path.name)
    found = found_in(data, name)
    digest = found.digest
    before = [run for run in store.runs() if _source(run)]
    already = tuple(run for run in before if _source(run).get("sha256") == digest)
    if already and not again:
        return Imported((), already=already)
    if is_longer:
        found.notes.append(f"only the first {len(data) >> 20} MiB are read: split the file for the rest")
    source = {"file": name, "form": found.form, "sha256": digest}
    moment = now()
    kept = runs_of(found, under, source, moment)
    if not again:
        found.notes += _known(store, before, kept, moment)
    found.notes += _without_ceiling(kept, under)
    store.add_finished_runs(kept)
    failures = tuple(row.status for _, rows in kept for row, _ in rows if row.status != "ok")
    return Imported(tuple(replace(run, rows=len(rows)) for run, rows in kept), tuple(found.notes), failures=failures)


def _without_ceiling(kept: Sequence[tuple[Run, Sequence[SampledRow]]], under: Standing) -> Iterator[str]:
    """Why rows have no ceiling although a model and hardware were named for it, each reason once."""
    if under.model is not None and under.device is not None:
        flags = (flag for _, rows in kept for row, _ in rows for flag in row.flags.split("; "))
        yield from dict.fromkeys(flag for flag in flags if flag.startswith(NO_CEILING))


def _known(
    store: Store, before: Sequence[Run], kept: Sequence[tuple[Run, Sequence[SampledRow]]], moment: str
) -> Iterator[str]:
    """In words how many of the rows were imported before, by the moment and the point of each: a log that has grown.

    Rows whose file has no moments have that of the import, and can't be known again.
    """
    moments = {
        (row.started_at, row.prompt_tokens, row.context_tokens, row.new_tokens, row.batch)
        for run, rows in kept
        for row, _ in rows
        if row.started_at != moment
    }
    for run in before:
        known = sum(
            (row.started_at, row.prompt_tokens, row.context_tokens, row.new_tokens, row.batch) in moments
            for row in store.rows(run.run_id)
        )
        if known:
            yield (
                f"{known:,} of its rows {'is' if known == 1 else 'are'} in {run.run_id} already, from "
                f"{_source(run).get('file')}: they are now there twice"
            )


def _source(run: Run) -> Mapping[str, Any]:
    source = run.settings.get("imported")
    return source if isinstance(source, Mapping) else {}


def runs_of(
    found: Found, under: Standing, source: Mapping[str, str], moment: str
) -> list[tuple[Run, list[SampledRow]]]:
    """The runs and rows of what was found, as imported at a moment; what is left out joins its notes.

    Raises ImportRefused where nothing is.
    """
    groups = _grouped(found)
    if not groups:
        raise ImportRefused(
            f"{source['file']} holds no results that can be read: no line says what was measured, by n_prompt and "
            "n_gen, or pp, tg and pl."
        )
    names: set[str] = set()
    while len(names) < len(groups):
        names.add(new_run_id())
    differing = _differing([points[0].labels for points in groups])
    return [
        _run(run_id, points, under, source, said, moment)
        for run_id, points, said in zip(sorted(names), groups, differing, strict=True)
    ]


def _grouped(found: Found) -> list[list[ImportedPoint]]:
    """The points of each set of settings, in the order of the file; of batches also those of as many steps."""
    labels_of: dict[tuple[Any, ...], Labels] = {}
    equal_to: dict[Labels, Labels] = {}
    settings_of: dict[tuple[str, ...], list[str]] = {}
    groups: dict[tuple[int, int], list[ImportedPoint]] = {}
    untold: list[Record] = []
    for record in found.records:
        is_request = llama_bench.is_llama_bench(record.values)
        names = tuple(record.values)
        settings = settings_of.get(names)
        if settings is None:
            measured = llama_bench.MEASURED if is_request else batched_bench.MEASURED
            settings = settings_of[names] = [name for name in names if name not in measured]
        key = (names, *[v if isinstance(v := record.values[name], str | int) else str(v) for name in settings])
        labels = labels_of.get(key)
        if labels is None:
            read = llama_bench.llama_bench_labels if is_request else batched_bench.batched_bench_labels
            labels = read(record.values)
            # One object for each, by which rows are grouped: hashing so many settings for every row takes long.
            labels = labels_of[key] = equal_to.setdefault(labels, labels)
        point_of = llama_bench.llama_bench_point if is_request else batched_bench.batched_bench_point
        point = point_of(record, labels)
        if point is None:
            untold.append(record)
            continue
        groups.setdefault((id(labels), 0 if is_request else point.steps), []).append(point)
    if untold:
        found.notes.append(
            left_out(len(untold), "result", f"it doesn't say what was measured (line {untold[0].line:,})")
        )
    if len(groups) > MOST_RUNS:
        raise ImportRefused(
            f"The file holds {len(groups):,} different sets of settings, each of which would be a run; {MOST_RUNS:,} "
            "are the most. Split it."
        )
    return list(groups.values())


def _differing(labels: Sequence[Labels]) -> list[str]:
    """Of each set of settings what tells it from the others, in words."""
    values: dict[str, set[str]] = {}
    for each in labels:
        for name, value in each.settings:
            values.setdefault(name, set()).add(value)
    names = [name for name, seen in values.items() if len(seen) > 1]
    said = []
    for each in labels:
        parts = [f"{name} {value}" for name, value in each.settings if name in names]
        more = [f"and {len(parts) - MOST_NAMED} others"] if len(parts) > MOST_NAMED else []
        said.append(", ".join((*parts[:MOST_NAMED], *more)))
    return said


def _run(
    run_id: str,
    points: Sequence[ImportedPoint],
    under: Standing,
    source: Mapping[str, str],
    differing: str,
    moment: str,
) -> tuple[Run, list[SampledRow]]:
    labels = points[0].labels
    kind = PREFILL_DECODE if labels.tool == llama_bench.TOOL else BATCH
    about = row_labels(run_id, kind, labels, under)
    if kind == PREFILL_DECODE:
        rows = [prefill_decode_row(about, point, decoded, moment) for point, decoded in folded(points)]
    else:
        rows = [batch_row(about, point, moment) for point in points]
    columns = about.columns
    model = under.model if is_of(under.model, labels) else None
    began = next((point.started_at for point in points if point.started_at), "")
    form = f"{labels.tool}, {source['form']}"
    run = Run(
        run_id,
        kind,
        began or moment,
        columns["model"],
        columns["machine"],
        {**_settings(kind, rows, points, labels, columns), "imported": {**source, "settings": dict(labels.settings)}},
        RunStatus.FINISHED,
        "; ".join(filter(None, (f"imported from {source['file']} ({form})", differing, "" if began else NOT_DATED))),
        about_model={} if model is None else about_model(model),
    )
    return run, rows


def _settings(
    kind: str, rows: Sequence[SampledRow], points: Sequence[ImportedPoint], labels: Labels, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """What a run of the workbench would have been asked for the same points."""
    common: dict[str, Any] = {
        "model": columns["model"],
        "weights": Weights.REAL,
        "dtype": columns["dtype"],
        "device": columns["device"],
        "threads": labels.threads,
        "track": columns["track"],
    }
    prompts = tuple(row.prompt_tokens for row, _ in rows)
    if kind == PREFILL_DECODE:
        prompts = tuple(filter(None, prompts)) or SweepSettings.prompts
        steps = [row.new_tokens for row, _ in rows if row.tpot_ms]
        repeats = max(row.repeats for row, _ in rows)
        return SweepSettings(**common, prompts=prompts, new_tokens=max(steps, default=1), repeats=repeats).plain()
    batches = tuple(dict.fromkeys(row.batch for row, _ in rows))
    return BatchSettings(
        **common, contexts=tuple(dict.fromkeys(prompts)), batches=batches, steps=points[0].steps
    ).plain()
