"""What llama-batched-bench measured: PP tokens of each of B sequences prefilled, then TG decode steps of them together.

Source: llama.cpp, tools/batched-bench. N_KV is B·(PP + TG), or PP + B·TG where the prompt is shared.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.runs.importers.imported_point import MOST_RATE, MOST_SECONDS, ImportedPoint, Labels, Times, differs
from workbench.runs.importers.record import NotAFigure, Record, amount, count, known_count, word

TOOL = "llama-batched-bench"
MOST_SEQUENCES = 1 << 20
MEASURED = frozenset("pp tg pl n_kv t_pp speed_pp t_tg speed_tg t speed".split())  # noqa: SIM905
ROUNDED_S = 0.001
"""What a time of the table may be off by."""
RATE_SHARE = 0.05


def batched_bench_labels(values: Mapping[str, Any]) -> Labels:
    """The labels of one record: the tool names neither model, machine nor version."""
    threads = word(values.get("n_threads"))
    return Labels(
        tool=TOOL,
        threads=int(threads) if threads.isdecimal() and 0 < int(threads) < MOST_SEQUENCES else None,
        settings=tuple(sorted((name, word(value)) for name, value in values.items() if name not in MEASURED)),
    )


def batched_bench_point(record: Record, labels: Labels) -> ImportedPoint | None:
    """The point of one record; None where it doesn't say what was measured."""
    values = record.values
    try:
        n, k, b = count(values, "pp"), count(values, "tg"), count(values, "pl", MOST_SEQUENCES)
    except NotAFigure as error:
        n, k, b = known_count(values, "pp"), known_count(values, "tg"), known_count(values, "pl", MOST_SEQUENCES)
        problem = f"failed: {error}"
        return ImportedPoint(record.line, labels, prompt_tokens=n, steps=k, batch=max(b, 1), problem=problem)
    if n is None or k is None or b is None:
        return None
    is_shared = _is_shared(values, n, k, b)
    point = ImportedPoint(record.line, labels, prompt_tokens=n, steps=k, batch=max(b, 1), is_shared=is_shared)
    if not b or not k:
        return replace(point, problem=f"failed: {b:,} sequences and {k:,} steps, so no step was measured")
    if word(values.get("is_tg_separate")) == "1":
        return replace(point, problem=f"not told: each of {b:,} sequences was decoded apart, none together")
    remarks = ["a mean of the steps: their spread isn't known"]
    if is_shared:
        remarks.append("all sequences share one prompt")
    try:
        step = _seconds(values, "t_tg", "speed_tg", b * k) / k
        prefill = _seconds(values, "t_pp", "speed_pp", n if is_shared else b * n) if n else None
        _check_total(values, n, k, b, is_shared)
    except NotAFigure as error:
        return replace(point, problem=f"failed: {error}", remarks=tuple(remarks))
    return replace(
        point,
        step=Times(mean_s=step),
        prefill=None if prefill is None else Times(mean_s=prefill),
        remarks=tuple(remarks),
    )


def _is_shared(values: Mapping[str, Any], n: int, k: int, b: int) -> bool:
    """Whether all sequences go on from one prompt; a table without its line of settings tells by what they hold."""
    if "is_pp_shared" in values:
        return word(values["is_pp_shared"]) == "1"
    return b > 1 and word(values.get("n_kv")) == str(n + b * k)


def _seconds(values: Mapping[str, Any], time: str, speed: str, tokens: int) -> float:
    """The time of so many tokens: by their rate, which the table rounds less, where the time agrees with it."""
    told, rate = amount(values, time), amount(values, speed)
    if told is None and rate is None:
        raise NotAFigure(f"{time} and {speed} are missing")
    seconds = tokens / rate if rate is not None else told or 0.0
    if told is not None and abs(told - seconds) > ROUNDED_S and differs(told, seconds, RATE_SHARE):
        raise NotAFigure(f"{time} is {told:.4g} s, and {speed} says {seconds:.4g} s")
    if seconds > MOST_SECONDS or tokens / seconds > MOST_RATE:
        raise NotAFigure(f"{tokens:,} tokens in {seconds:.3g} s can't be")
    return seconds


def _check_total(values: Mapping[str, Any], n: int, k: int, b: int, is_shared: bool) -> None:
    held = count(values, "n_kv")
    expected = n + b * k if is_shared else b * (n + k)
    if held is not None and held != expected:
        raise NotAFigure(f"n_kv is {held:,}, and {b:,} sequences of {n:,} and {k:,} tokens hold {expected:,}")
