"""One request by the stopwatch: the worked request, its three changes, and readings that can't be."""

import pytest

from tests.ceilings.figures import Figures, digits_of
from workbench.ceilings.latency import (
    Change,
    Stopwatch,
    changes,
    latency,
    with_cached_prefix,
    with_faster_decode,
    with_prompt,
)
from workbench.errors import SettingsError

READ = Stopwatch(prompt_tokens=8_000, output_tokens=400, ttft_s=12.0, end_s=30.0)
QUESTION = Stopwatch(prompt_tokens=6_000, output_tokens=300, ttft_s=8.0, end_s=23.0)

WORKED: Figures = {
    "TTFT": ("12.0", lambda: latency(READ).ttft_s.value),
    "prompt rate": ("667", lambda: latency(READ).prompt_tokens_per_s.value),
    "TPOT, ms": ("45.1", lambda: latency(READ).tpot_ms.value),
    "decode rate": ("22.2", lambda: latency(READ).decode_tokens_per_s.value),
    "stopwatch rate": ("13.3", lambda: latency(READ).stopwatch_tokens_per_s.value),
    "end to end": ("30.0", lambda: latency(READ).end_to_end_s.value),
    "question 2, TPOT, ms": ("50", lambda: latency(QUESTION).tpot_ms.value),
    "question 2, decode rate": ("20", lambda: latency(QUESTION).decode_tokens_per_s.value),
    "question 2, stopwatch rate": ("13", lambda: latency(QUESTION).stopwatch_tokens_per_s.value),
    "question 2, prompt rate": ("750", lambda: latency(QUESTION).prompt_tokens_per_s.value),
}


@pytest.mark.parametrize("figure", WORKED)
def test_the_worked_request(figure: str) -> None:
    printed, computed = WORKED[figure]
    assert digits_of(printed, computed()) == printed


# What is changed: TTFT in s, TPOT in ms, end to end in s.
CHANGES = {
    "none": ("12.0", "45.1", "30.0"),
    "prompt of 2,000 tokens": ("3.0", "45.1", "21.0"),
    "decode 1.5 times faster": ("12.0", "30.1", "24.0"),
    "7,500 prompt tokens cached": ("0.75", "45.1", "18.8"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_thing_changed_at_a_time(change: str) -> None:
    found = {c.change: c for c in changes(READ, prompt=2_000, faster=1.5, cached=7_500)}
    assert set(found) == set(CHANGES)
    c = found[change]
    figures = (c.ttft_s.value, c.tpot_ms.value, c.end_to_end_s.value)
    assert tuple(digits_of(p, f) for p, f in zip(CHANGES[change], figures, strict=True)) == CHANGES[change]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (with_prompt(READ, 2_000), "slightly less"),
        (with_prompt(READ, 16_000), "TTFT at least this"),
        (with_cached_prefix(READ, 7_500), "500 new tokens still attend over all 8,000"),
        (with_faster_decode(READ, 1.5), ""),
    ],
)
def test_a_least_time_says_so(change: Change, note: str) -> None:
    assert note in change.note
    assert bool(note) is bool(change.note)


def test_waiting_is_kept_apart_from_prefill() -> None:
    waited = Stopwatch(8_000, 400, ttft_s=12.0, end_s=30.0, waited_s=4.0)
    assert latency(waited).prompt_tokens_per_s.value == 1_000
    assert latency(waited).ttft_s.value == 12
    assert with_prompt(waited, 4_000).ttft_s.value == 8
    assert with_cached_prefix(waited, 6_000).ttft_s.value == 6


@pytest.mark.parametrize(
    ("prompt", "output", "ttft", "end", "waited", "message"),
    [
        (0, 400, 12, 30, 0, "prompt has 0 tokens; it must have at least 1"),
        (-5, 400, 12, 30, 0, "prompt has -5 tokens"),
        (8_000, 1, 12, 30, 0, "answer has 1 tokens; it must have at least 2"),
        (8_000, 0, 12, 30, 0, "answer has 0 tokens"),
        (8_000, 400, 0, 30, 0, "must come after 0 s and before the last"),
        (8_000, 400, -1, 30, 0, "must come after 0 s and before the last"),
        (8_000, 400, 30, 30, 0, "must come after 0 s and before the last"),
        (8_000, 400, 31, 30, 0, "first token came after 31 s and the last after 30 s"),
        (8_000, 400, 12, float("inf"), 0, "must come after 0 s and before the last"),
        (8_000, 400, float("nan"), 30, 0, "must come after 0 s and before the last"),
        (8_000, 400, 12, float("nan"), 0, "must come after 0 s and before the last"),
        (8_000, 400, 12, 30, -1, "-1 s of waiting must be at least 0 s"),
        (8_000, 400, 12, 30, 12, "12 s of waiting must be at least 0 s and less than the 12 s"),
        (8_000, 400, 12, 30, float("nan"), "of waiting must be at least 0 s"),
    ],
)
def test_readings_that_cannot_be(
    prompt: int, output: int, ttft: float, end: float, waited: float, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        Stopwatch(prompt, output, ttft, end, waited)


@pytest.mark.parametrize("factor", [0, -1, float("inf"), float("nan")])
def test_decode_faster_by_nothing_is_refused(factor: float) -> None:
    with pytest.raises(SettingsError, match="must be above 0"):
        with_faster_decode(READ, factor)


@pytest.mark.parametrize("cached", [-1, 8_000, 9_000])
def test_a_prefix_as_long_as_the_prompt_is_refused(cached: int) -> None:
    with pytest.raises(SettingsError, match="at least 0 tokens and be shorter than the prompt, 8,000 tokens"):
        with_cached_prefix(READ, cached)


@pytest.mark.parametrize("n", [0, -1])
def test_a_prompt_of_nothing_is_refused(n: int) -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        with_prompt(READ, n)
