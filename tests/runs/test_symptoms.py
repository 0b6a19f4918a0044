"""Symptoms: the first text's timings give those it names, and rows made to show one give that one alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.fakes import a_row
from workbench.ceilings.batch import Limit
from workbench.experiments.statistics import Interval, student_t_95
from workbench.quantity import explain
from workbench.runs.checks import Verdict
from workbench.runs.readings import Reading, fit, over_contexts, readings, times
from workbench.runs.row import BATCH, Row
from workbench.runs.symptoms import SymptomLine, failures, symptom_words, symptoms, symptoms_of

W, K, B = 2_384_199_680, 229_376, 27.2e9
"""The weights and the cache per token of the text's model in FP32, and the bandwidth its first row shows."""
TTFT_MS = {1: 86, 16: 111, 64: 172, 256: 370, 1024: 1217, 4096: 6675}
TPOT_MS = {1: 87.6, 16: 90.0, 64: 84.5, 256: 87.5, 1024: 102.4, 4096: 165.7}
STEP_MS = {
    2: {1: 88.8, 2: 76.4, 4: 85.3, 8: 131.6, 16: 166.5, 32: 235.1},
    256: {1: 88.5, 2: 92.4, 4: 104.1, 8: 174.8, 16: 206.3, 32: 433.5},
}
ARITHMETIC_FROM = 8
"""Sequences from which the text names arithmetic as the limit."""

WAITS = "the first token waits longer the longer the prompt"
SHORT = "short prompts wait for the weights"
CURVED = "long prompts take more than in proportion"
STEADY = "later tokens take as long whatever the prompt"
SLOWING = "later tokens slow down as the context grows"
COPIED = "the context costs more than its bytes"
ABOVE = "a step takes longer than its bytes"
VENDOR = "bandwidth below the vendor's figure"
SPLIT = "weights in two memories"
OTHERS = "other work on the machine"
JOINING = "each sequence slows as others join"
BY_CACHE, BY_ARITHMETIC, BY_MEMORY = (
    f"{what} the batch" for what in ("caches limit", "arithmetic limits", "memory limits")
)


def a_request(n: int, ttft_ms: float, tpot_ms: float, **about: Any) -> Row:
    kt = K * (n + 8)
    beside = {"weight_bytes": W, "cache_bytes": kt, "bytes_per_step": W + kt, "read_gb_per_s": B / 1e9}
    return a_row(prompt_tokens=n, context_tokens=n + 8, ttft_ms=ttft_ms, tpot_ms=tpot_ms, **{**beside, **about})


def a_step(context: int, batch: int, step_ms: float, **about: Any) -> Row:
    bound = Limit.ARITHMETIC if batch >= ARITHMETIC_FROM else Limit.WEIGHTS
    return a_row(
        kind=BATCH,
        prompt_tokens=context,
        context_tokens=context + 5,
        batch=batch,
        step_ms=step_ms,
        total_tokens_per_s=batch / step_ms * 1e3,
        **{"bound_by": str(bound), **about},
    )


def requests(ttft_ms: Mapping[int, float], tpot_ms: Mapping[int, float], **about: Any) -> list[Row]:
    return [a_request(n, ttft_ms[n], tpot_ms[n], **about) for n in ttft_ms]


def the_texts_requests(**about: Any) -> list[Row]:
    return requests(TTFT_MS, TPOT_MS, **about)


def the_texts_steps() -> list[Row]:
    return [a_step(context, batch, ms) for context, steps in STEP_MS.items() for batch, ms in steps.items()]


def verdicts(rows: Sequence[Row]) -> dict[str, str]:
    return {line.symptom: line.verdict for line in symptoms(rows)}


def line_of(rows: Sequence[Row], symptom: str) -> SymptomLine:
    return next(line for line in symptoms(rows) if line.symptom == symptom)


def test_the_texts_requests_show_what_the_text_says_of_them() -> None:
    found = verdicts(the_texts_requests())
    assert found[WAITS] == found[SHORT] == found[CURVED] == Verdict.PRESENT
    assert (found[SLOWING], found[STEADY], found[COPIED]) == (Verdict.PRESENT, Verdict.ABSENT, Verdict.PRESENT)


def test_up_to_a_thousand_tokens_the_texts_later_tokens_take_as_long_whatever_the_prompt() -> None:
    found = verdicts([row for row in the_texts_requests() if row.prompt_tokens <= 1024])
    assert (found[STEADY], found[SLOWING]) == (Verdict.PRESENT, Verdict.ABSENT)
    line = line_of([row for row in the_texts_requests() if row.prompt_tokens <= 1024], SLOWING)
    assert "about 5,197 tokens" in line.would_tell


def test_the_texts_context_costs_a_second_pass_over_the_cache() -> None:
    line = line_of(the_texts_requests(), COPIED)
    assert line.times is not None
    assert line.times.value == pytest.approx(2.26, abs=0.02)
    assert line.low is not None
    assert line.high is not None
    assert line.low < 2 < line.high
    slow = line_of(the_texts_requests(), SLOWING).times
    assert slow is not None
    assert slow.value == pytest.approx(1.89, abs=0.005)


def test_the_texts_batches_name_both_limits_of_the_step() -> None:
    found = verdicts(the_texts_steps())
    assert found[JOINING] == found[BY_ARITHMETIC] == found[BY_CACHE] == Verdict.PRESENT
    assert found[BY_MEMORY] == Verdict.ABSENT
    line = line_of(the_texts_steps(), JOINING)
    assert line.times is not None
    assert line.times.value == pytest.approx(433.5 / 88.5)
    assert "2.31 tok/s instead of 11.3" in line.why


def test_every_present_symptom_says_its_phase_what_contributes_and_what_acts_on_it() -> None:
    for line in symptoms([*the_texts_requests(), *the_texts_steps()]):
        words = symptom_words(line)
        assert words[0] == line.why
        assert line.phase
        assert line.causes
        assert line.acts
        assert any(word.startswith("acts on it: ") for word in words) == (line.verdict == Verdict.PRESENT)
        assert bool(line.would_tell) or line.verdict != Verdict.UNKNOWN
        if line.times is not None:
            assert line.times.formula
            assert line.times.inputs
            assert list(explain(line.times))


def test_prompts_below_the_crossover_hardly_lengthen_the_wait() -> None:
    flat = requests({1: 100, 4: 101, 16: 103, 32: 104}, dict.fromkeys((1, 4, 16, 32), 99.0))
    line = line_of(flat, WAITS)
    assert line.verdict == Verdict.ABSENT
    assert "n*" in line.would_tell


def test_a_wait_in_proportion_does_not_curve() -> None:
    prompts = (64, 256, 1024, 4096)
    found = verdicts(requests({n: 50 + n for n in prompts}, dict.fromkeys(prompts, 90.0)))
    assert (found[WAITS], found[CURVED], found[STEADY]) == (Verdict.PRESENT, Verdict.ABSENT, Verdict.PRESENT)


def test_a_prefill_of_one_token_longer_than_a_step_does_not_wait_for_the_weights_alone() -> None:
    assert verdicts([a_request(1, 200.0, 90.0)])[SHORT] == Verdict.ABSENT
    noisy = a_request(1, 86.0, 87.0, ttft_low_ms=5.0, ttft_high_ms=900.0)
    assert verdicts([noisy])[SHORT] == Verdict.UNKNOWN
    longer = line_of([a_request(512, 200.0, 90.0)], SHORT)
    assert longer.verdict == Verdict.UNKNOWN
    assert "1 token" in longer.would_tell


def test_a_cache_read_once_at_the_boxs_rate_costs_no_more_than_its_bytes() -> None:
    prompts = (16, 1024, 4096, 16384)
    tpot_ms = {n: (W + K * (n + 8)) / B * 1e3 for n in prompts}
    found = verdicts(requests({n: 50 + n for n in prompts}, tpot_ms))
    assert (found[SLOWING], found[COPIED], found[ABOVE]) == (Verdict.PRESENT, Verdict.ABSENT, Verdict.ABSENT)


def test_a_step_twice_its_bytes_is_above_them() -> None:
    line = line_of([a_request(16, 150.0, 2 * (W + 24 * K) / B * 1e3)], ABOVE)
    assert line.verdict == Verdict.PRESENT
    assert line.times is not None
    assert line.times.value == pytest.approx(2)


def test_what_stands_beside_the_rows_tells_the_rest() -> None:
    about = {"vendor_gb_per_s": 54.4, "other_load": 0.2, "stolen_share": 0.0, "swapped_bytes": W // 10}
    found = verdicts(the_texts_requests(**about))
    assert found[VENDOR] == found[OTHERS] == found[SPLIT] == Verdict.PRESENT
    quiet = {"vendor_gb_per_s": 28.0, "other_load": 0.01, "stolen_share": 0.0, "swapped_bytes": 0}
    found = verdicts(the_texts_requests(**quiet))
    assert found[VENDOR] == found[OTHERS] == found[SPLIT] == Verdict.ABSENT
    found = verdicts(the_texts_requests())
    assert found[VENDOR] == found[OTHERS] == found[SPLIT] == Verdict.UNKNOWN


def test_steps_that_share_the_weights_for_nothing_slow_nobody() -> None:
    found = verdicts([a_step(2, b, 90.0, bound_by=str(Limit.WEIGHTS)) for b in (1, 2, 4)])
    assert (found[JOINING], found[BY_ARITHMETIC], found[BY_CACHE]) == (Verdict.ABSENT, Verdict.ABSENT, Verdict.ABSENT)


def test_a_batch_that_was_refused_is_limited_by_memory() -> None:
    refused = a_row(kind=BATCH, prompt_tokens=2, batch=8, bound_by=str(Limit.MEMORY), status="refused: needs 9 GB")
    assert verdicts([a_step(2, 1, 90.0), a_step(2, 2, 91.0), refused])[BY_MEMORY] == Verdict.PRESENT


def test_intervals_that_span_both_answers_decide_nothing() -> None:
    def request(n: int, tpot_ms: float) -> Row:
        return a_request(n, 100.0 + n, tpot_ms, tpot_low_ms=0.7 * tpot_ms, tpot_high_ms=1.3 * tpot_ms)

    rows = [request(16, 90.0), request(4096, 120.0)]
    found = verdicts(rows)
    assert found[SLOWING] == found[STEADY] == Verdict.UNKNOWN
    assert "more repeats" in line_of(rows, SLOWING).would_tell


def test_too_few_rows_say_what_would_tell() -> None:
    found = {line.symptom: line for line in symptoms([a_request(64, 172.0, 84.5)])}
    for name in (WAITS, CURVED, STEADY, SLOWING, COPIED, JOINING, BY_CACHE):
        assert found[name].verdict == Verdict.UNKNOWN
        assert "workbench " in found[name].would_tell


def test_failed_rows_count_for_nothing() -> None:
    failed = a_request(8192, 1.0, 1.0, status="failed: out of memory")
    assert symptoms([*the_texts_requests(), failed]) == symptoms(the_texts_requests())
    assert len(readings([failed])) == 0


def test_rows_none_of_which_was_measured_say_why_each_reason_once() -> None:
    failed = [
        a_request(n, 1.0, 1.0, status=f"failed: {why}") for n, why in ((1, "too hot"), (16, "cold"), (64, "cold"))
    ]
    assert symptoms(failed) == ()
    assert failures([*the_texts_requests(), *failed]) == (
        "prompt 1: failed: too hot",
        "prompt 16; prompt 64: failed: cold",
    )


def test_no_number_of_times_is_below_none() -> None:
    found = line_of(requests(TTFT_MS, {1: 90.0, 16: 100.0, 64: 80.0, 256: 110.0, 1024: 85.0, 4096: 95.0}), COPIED)
    assert found.low == 0.0


def test_readings_without_rows_are_enough_for_the_times() -> None:
    found = [Reading(n, n + 8, 1, TTFT_MS[n] / 1e3, TPOT_MS[n] / 1e3) for n in TTFT_MS]
    said = {line.symptom: line.verdict for line in symptoms_of(found)}
    assert said[WAITS] == said[SLOWING] == said[CURVED] == Verdict.PRESENT
    assert said[COPIED] == Verdict.UNKNOWN


def test_steps_of_requests_and_of_batches_are_not_mixed() -> None:
    steps = over_contexts(readings([*the_texts_requests(), a_step(2, 1, 500.0)]))
    assert [reading.context_tokens for reading in steps] == [n + 8 for n in TTFT_MS]


def test_a_fit_finds_the_curve_it_was_made_of_and_how_sure_it_is() -> None:
    exact = fit([(x, 80 + 2 * x + 0.001 * x * x) for x in (1, 16, 256, 1024, 4096)], 2)
    assert exact is not None
    assert [c.value for c in exact.coefficients] == pytest.approx([80, 2, 0.001])
    assert all(c.interval is not None and c.interval.half_width < 1e-6 for c in exact.coefficients)
    noisy = fit([(x, (80 + 2 * x) * s) for x, s in ((1, 1.02), (100, 0.97), (200, 1.03), (400, 0.98))], 1)
    assert noisy is not None
    slope = noisy.coefficients[1]
    assert slope.interval is not None
    assert slope.interval.low < 2 < slope.interval.high
    two = fit([(1, 3.0), (2, 5.0)], 1)
    assert two is not None
    assert two.at(3) == pytest.approx(7)
    assert two.coefficients[0].interval is None
    assert fit([(1, 3.0), (1, 4.0)], 1) is None


def test_students_t_is_the_tables() -> None:
    assert [student_t_95(ν) for ν in (1, 4, 5, 10, 30)] == pytest.approx([12.706, 2.776, 2.571, 2.228, 2.042], rel=2e-3)


def test_a_ratio_is_as_wide_as_its_two_intervals_allow() -> None:
    ratio = times(20.0, Interval(18.0, 22.0), 10.0, Interval(9.0, 11.0))
    assert (ratio.value, ratio.interval.low, ratio.interval.high) == pytest.approx((2.0, 18 / 11, 22 / 9))


@pytest.mark.parametrize(
    ("half_ms", "steady", "slowing"),
    [
        (0.5, Verdict.PRESENT, Verdict.ABSENT),
        (4.0, Verdict.UNKNOWN, Verdict.UNKNOWN),
    ],
)
def test_a_growth_just_below_what_decides_is_told_only_where_its_interval_is(
    half_ms: float, steady: Verdict, slowing: Verdict
) -> None:
    around = {n: {"tpot_low_ms": ms - half_ms, "tpot_high_ms": ms + half_ms} for n, ms in ((64, 100.0), (512, 122.0))}
    rows = [a_request(64, 100.0, 100.0, **around[64]), a_request(512, 900.0, 122.0, **around[512])]
    found = verdicts(rows)
    assert (found[STEADY], found[SLOWING]) == (steady, slowing)


def test_a_row_of_another_tool_is_above_its_bytes_by_the_bandwidth_of_its_ceiling() -> None:
    about = {"read_gb_per_s": None, "ceiling_read_gb_per_s": 100.0, "vendor_gb_per_s": 100.0}
    line = line_of([a_request(64, 500.0, 80.0, **about)], ABOVE)
    assert line.verdict == Verdict.PRESENT
    assert "its bytes at the vendor's 100 GB/s" in line.why
    assert line.times is not None
    assert line.times.value == pytest.approx(80e-3 / ((W + K * 72) / 100e9))
