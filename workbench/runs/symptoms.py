"""Which symptoms rows of a run show: the phase each belongs to, what contributes to it, and what acts on it.

The symptoms, their phases and what acts on each are those of the lesson "Inference: Prefill, Decode and Why Memory
Bandwidth Rules", its tables of symptoms, of the limits of batching and of what lies between ceiling and measurement.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.ceilings.batch import Limit
from workbench.errors import StoreError
from workbench.hardware.load import BUSY_SHARE
from workbench.quantity import Quantity
from workbench.record import headed
from workbench.runs.checks import (
    Check,
    Found,
    Verdict,
    above_bytes,
    below_vendor,
    cache_passes,
    fetch_bound,
    limited_by,
    other_work,
    prompt_growth,
    same_at_any_context,
    second_memory,
    slows_with_batch,
    slows_with_context,
    square,
)
from workbench.runs.labels import point_words
from workbench.runs.readings import Reading, readings
from workbench.runs.row import COLUMN, Row
from workbench.runs.run import Run

GROWS = 1.25
"""A figure that grew by less is flat: other work on the box moves one as far."""
CURVES = 1.10
CACHE_PASSES = 1.5
"""Halfway from one reading of the cache to a reading and a copy."""


class Phase(StrEnum):
    """Where in a request a symptom arises."""

    PREFILL = "prefill"
    DECODE = "decode"
    CACHE = "decode, cache reads"
    BATCH = "batching"
    BOTH = "both"


@dataclass(frozen=True)
class Symptom:
    """One line of the tables: what is seen, in which phase, what contributes to it, and what acts on it.

    `check` decides it by a figure, at `threshold` times: present from there on, or below it of what stays `flat`. Where
    its figure is none, as of a limit that is named by its rows, that stands for nothing.
    """

    name: str
    phase: Phase
    threshold: float
    causes: tuple[str, ...]
    acts: tuple[str, ...]
    check: Check
    flat: bool = False


@dataclass(frozen=True)
class SymptomLine:
    """A symptom with what the rows say of it, as table, JSON and CSV have it."""

    symptom: str = headed("symptom")
    phase: str = headed("phase")
    verdict: str = headed("verdict")
    times: Quantity | None = headed("times")
    low: float | None = headed("from")
    high: float | None = headed("to")
    threshold: float | None = headed("decided at")
    present_at: str | None = headed("present at")
    why: str = headed("why")
    causes: str = headed("contributes")
    acts: str = headed("acts on it")
    would_tell: str = headed("would tell")


SHOWN_APART = ("threshold", "why", "causes", "acts", "would_tell")
"""The fields of a line that are sentences, and stand under a table rather than in it, and what `present_at` says."""
ALIKE_BUT_THREADS = ("model", "weights", "quantisation", "dtype", "engine", "device", "machine")
ALIKE = (*ALIKE_BUT_THREADS, "threads")
"""What rows that are read together must have in common."""


def explained_rows(runs: Sequence[tuple[Run, Sequence[Row]]], alike: Sequence[str] = ALIKE) -> list[Row]:
    """The rows of several runs, to be read together.

    Raises StoreError where there are none, or they are not of one model on one box and engine.
    """
    rows = [row for _, of_run in runs for row in of_run]
    if not rows:
        names = " and ".join(run.run_id for run, _ in runs)
        raise StoreError(
            f"{names}: no rows, so there is nothing to explain. `workbench runs list` shows which have some."
        )
    for name in alike:
        values = list(dict.fromkeys(str(getattr(row, name)) for row in rows))
        if len(values) > 1:
            raise StoreError(
                f"These runs differ in {COLUMN[name].heading}: {' and '.join(values)}. Explain one of them, or runs of "
                "one model on one box; `workbench runs compare` says what differs."
            )
    return rows


def symptoms(rows: Sequence[Row]) -> tuple[SymptomLine, ...]:
    """Every symptom of the tables as the rows of a run, or of several of one model and box, show it.

    Of rows none of which was measured only those that can be told without a figure.
    """
    found = symptoms_of(readings(rows))
    if any(row.status == "ok" for row in rows):
        return found
    return tuple(line for line in found if line.verdict == Verdict.PRESENT)


def failures(rows: Iterable[Row]) -> tuple[str, ...]:
    """Why rows have no figures, each reason once with the points it holds for."""
    points: dict[str, list[str]] = {}
    for row in rows:
        if row.status != "ok":
            points.setdefault(row.status, []).append(point_words(row))
    return tuple(f"{'; '.join(dict.fromkeys(each))}: {status}" for status, each in points.items())


def symptoms_of(found: Sequence[Reading]) -> tuple[SymptomLine, ...]:
    """Every symptom of the tables as readings show it."""
    return tuple(_line(symptom, symptom.check(symptom.threshold, found)) for symptom in SYMPTOMS)


def symptom_words(line: SymptomLine) -> tuple[str, ...]:
    """What is to be read under a symptom: why, and what acts on it or what would tell."""
    said = [line.why]
    if line.verdict == Verdict.PRESENT:
        said += [f"contributes: {line.causes}", f"acts on it: {line.acts}"]
    if line.would_tell:
        said.append(f"would tell: {line.would_tell}")
    return tuple(said)


def untold_words(lines: Iterable[SymptomLine]) -> Iterator[str]:
    """The symptoms that can't be told, a line each, and under those that one thing would tell what that is."""
    by_telling: dict[str, list[SymptomLine]] = {}
    for line in lines:
        if line.verdict == Verdict.UNKNOWN:
            by_telling.setdefault(line.would_tell, []).append(line)
    for would_tell, each in by_telling.items():
        yield from (f"{line.symptom}: {line.why}" for line in each)
        yield f"  would tell{f' these {len(each)}' if len(each) > 1 else ''}: {would_tell}"


def _line(symptom: Symptom, found: Found) -> SymptomLine:
    return SymptomLine(
        symptom=symptom.name,
        phase=symptom.phase,
        verdict=found.verdict,
        times=found.times,
        low=None if found.interval is None else max(0.0, found.interval.low),
        high=None if found.interval is None else found.interval.high,
        threshold=None if found.times is None else symptom.threshold,
        present_at=None if found.times is None else f"{'<' if symptom.flat else '≥'} {symptom.threshold:.3g}",
        why=found.why,
        causes="; ".join(symptom.causes),
        acts="; ".join(symptom.acts),
        would_tell=found.would_tell,
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "the first token waits longer the longer the prompt",
        Phase.PREFILL,
        GROWS,
        (
            "arithmetic of every prompt token",
            "attention over all pairs of tokens",
            "queueing and tokenisation, elsewhere",
        ),
        (
            "a shorter prompt",
            "the cache of a prefix that requests share",
            "more operations a second: a faster dtype, more cores, an accelerator",
            "attention that never holds all n × n scores",
        ),
        prompt_growth,
    ),
    Symptom(
        "short prompts wait for the weights",
        Phase.PREFILL,
        GROWS,
        ("one fetch of all weights, however few the tokens",),
        ("fewer bytes of weights", "more bandwidth", "several short prompts in one pass"),
        fetch_bound,
        flat=True,
    ),
    Symptom(
        "long prompts take more than in proportion",
        Phase.PREFILL,
        CURVES,
        ("attention's work, which grows with n²",),
        ("an attention kernel that works in tiles", "sliding-window layers", "a cached prefix", "a shorter prompt"),
        square,
    ),
    Symptom(
        "later tokens take as long whatever the prompt",
        Phase.DECODE,
        GROWS,
        ("the weights, which every step reads",),
        (
            "fewer bytes a token: coarser quantisation, a smaller model or a mixture of experts",
            "more bandwidth",
            "several drafted tokens checked in one pass",
        ),
        same_at_any_context,
        flat=True,
    ),
    Symptom(
        "later tokens slow down as the context grows",
        Phase.CACHE,
        GROWS,
        ("the cache, which every step reads whole", "an engine that copies or expands it"),
        ("a shorter context", "a quantised cache", "a model with fewer KV heads or with sliding windows"),
        slows_with_context,
    ),
    Symptom(
        "the context costs more than its bytes",
        Phase.CACHE,
        CACHE_PASSES,
        (
            "appending that copies the whole cache",
            "keys and values repeated for every query head",
            "a slow attention kernel",
        ),
        (
            "a preallocated cache",
            "another attention implementation",
            "workbench gap MODEL --context N tells them apart",
        ),
        cache_passes,
    ),
    Symptom(
        "a step takes longer than its bytes",
        Phase.DECODE,
        GROWS,
        ("kernels that don't reach B, unpacking of quantised weights among them", "the framework between the kernels"),
        ("another dtype or kernel", "torch.compile", "a larger batch, which shares what each step costs"),
        above_bytes,
    ),
    Symptom(
        "bandwidth below the vendor's figure",
        Phase.BOTH,
        CURVES,
        ("a peak no real access reaches", "memory channels left empty", "heat"),
        (
            "all memory channels filled, at the modules' own speed",
            "as many threads as fill the memory: workbench probe",
        ),
        below_vendor,
    ),
    Symptom(
        "weights in two memories",
        Phase.BOTH,
        GROWS,
        ("layers or experts on a slower memory", "swap"),
        (
            "fewer bytes, so that all fit the fast memory",
            "less context, which leaves it room",
            "experts on the slower one",
        ),
        second_memory,
    ),
    Symptom(
        "other work on the machine",
        Phase.BOTH,
        1 / (1 - BUSY_SHARE),
        ("other processes and models", "other machines on the same host"),
        ("ending them", "measuring again at another time"),
        other_work,
    ),
    Symptom(
        "each sequence slows as others join",
        Phase.BATCH,
        GROWS,
        ("caches of all sequences", "arithmetic of few rows", "memory"),
        ("fewer sequences at once", "less context in each", "a server that batches continuously"),
        slows_with_batch,
    ),
    Symptom(
        "caches limit the batch",
        Phase.BATCH,
        GROWS,
        ("each sequence's cache, read in every step",),
        ("less context in each", "a quantised cache", "fewer KV heads"),
        limited_by(Limit.CACHE),
    ),
    Symptom(
        "arithmetic limits the batch",
        Phase.BATCH,
        GROWS,
        ("products of few rows, which get little of C",),
        ("kernels and dtypes made for few rows", "fewer sequences at once"),
        limited_by(Limit.ARITHMETIC),
    ),
    Symptom(
        "memory limits the batch",
        Phase.BATCH,
        GROWS,
        ("a cache for every sequence's whole context",),
        ("less context in each", "a quantised cache", "pages of cache, given as they are needed"),
        limited_by(Limit.MEMORY),
    ),
)
"""What can be seen, then what contributes to it, phase by phase."""
