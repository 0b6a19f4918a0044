"""Every judgement with the least that brings it, its reason and what to do; the gravest stands for the row."""

from typing import Any

import pytest

from tests.fakes import a_row
from workbench.experiments.judging import findings, judged
from workbench.runs.judgement import Judgement
from workbench.runs.samples import Samples

STEADY = Samples((1.0, 1.001, 0.999), (0.1, 0.1001, 0.0999))
RISING = tuple(1 + 0.01 * i for i in range(6))


def judgements(samples: Samples = STEADY, precision: float | None = None, **changed: Any) -> list[str]:
    return [str(finding.judgement) for finding in findings(a_row(**changed), samples, precision)]


def test_a_row_with_nothing_against_it_is_ok_and_has_its_intervals() -> None:
    row = judged(a_row(ceiling_share=0.5, ui_share=0.01, other_load=0.10, clock_share=0.9), STEADY)
    assert (row.judgement, row.flags) == ("ok", "")
    assert row.ttft_low_ms is not None
    assert row.ttft_high_ms is not None
    assert row.ttft_low_ms < 1000.0 < row.ttft_high_ms
    assert row.tpot_low_ms is not None
    assert row.tpot_low_ms < 100.0


@pytest.mark.parametrize(
    ("changed", "judgement", "words"),
    [
        ({"ceiling_share": 1.01}, "above ceiling", "101 % of it"),
        ({"ttft_ms": 9.0, "ttft_floor_ms": 10.0}, "above ceiling", "prefill under its floor"),
        ({"ceiling_share": 0.099}, "implausibly low", "9.9 % of its ceiling"),
        ({"ceiling_share": 0.09, "threads": 1}, "implausibly low", "one thread"),
        ({"ceiling_share": 0.09, "device": "cuda:0"}, "implausibly low", "host's memory"),
        ({"ui_share": 0.011}, "disturbed", "the screen took 1.1 %"),
        ({"other_load": 0.11}, "disturbed", "other processes took 11 %"),
        ({"stolen_share": 0.06}, "disturbed", "the hypervisor took 6 %"),
        ({"swapped_bytes": 11_000_000}, "disturbed", "11 MB went to or from swap"),
        ({"clock_share": 0.89}, "disturbed", "the clock fell to 89 %"),
    ],
)
def test_each_judgement_says_why_and_what_to_do(changed: dict[str, Any], judgement: str, words: str) -> None:
    row = judged(a_row(**changed), STEADY)
    assert row.judgement == judgement
    assert words in row.flags
    assert row.flags.startswith(f"{judgement}: ")
    assert row.flags.endswith(")")
    assert "; " not in row.flags


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"other_load": 0.71}, "other processes took 71 %"),
        ({"stolen_share": 0.4}, "the hypervisor took 40 %"),
        ({"swapped_bytes": 10**9}, "1,000 MB went to or from swap"),
    ],
)
def test_what_others_took_explains_a_low_rate_and_no_wrong_setting_is_suspected(
    beside: dict[str, Any], words: str
) -> None:
    row = judged(a_row(ceiling_share=0.03, **beside), STEADY)
    assert row.judgement == "disturbed"
    assert row.flags.startswith(f"disturbed: {words}")
    assert "debug build" not in row.flags


def test_a_screen_does_not_explain_a_low_rate_but_is_told_first() -> None:
    row = judged(a_row(ceiling_share=0.03, ui_share=0.02), STEADY)
    assert row.judgement == "disturbed"
    assert row.flags.index("the screen took") < row.flags.index("debug build")


def test_noise_is_judged_by_the_precision_asked_for_or_a_fixed_counts_own() -> None:
    three_per_cent = Samples((), (1.0, 1.012, 0.988))
    assert judgements(three_per_cent) == []
    assert judgements(three_per_cent, precision=0.02) == ["noisy"]
    assert judgements(Samples((1.0,), ())) == ["noisy"]
    assert judgements(Samples()) == []


def test_samples_that_bound_nothing_are_told_by_where_they_lie_and_no_time_is_below_none() -> None:
    row = judged(a_row(), Samples((1.0, 1.5), (0.100, 0.101, 0.300)))
    assert "TTFT took 1.00 s to 1.50 s in 2 samples, too few or too uneven to bound its median" in row.flags
    assert "TPOT took 100 ms to 300 ms in 3 samples" in row.flags
    assert "±" not in row.flags
    assert (row.ttft_low_ms, row.tpot_low_ms) == (0.0, 0.0)


def test_a_steady_course_of_some_size_is_a_drift_either_way() -> None:
    assert "drifting" in judgements(Samples((), RISING))
    assert "TPOT rose by 5 % over 6 samples" in judged(a_row(), Samples((), RISING)).flags
    assert "step fell by" in judged(a_row(kind="batch"), Samples((), RISING[::-1])).flags
    assert "drifting" not in judgements(Samples((), tuple(1 + 0.001 * i for i in range(6))))
    assert "drifting" not in judgements(Samples((), RISING[:4]))


def test_a_step_bound_by_arithmetic_is_not_low_for_being_under_the_ceiling_of_reads() -> None:
    assert judgements(kind="batch", bound_by="arithmetic", ceiling_share=0.05) == []
    assert judgements(kind="batch", bound_by="weight reads", ceiling_share=0.05) == ["implausibly low"]


def test_the_gravest_stands_for_the_row_and_all_reasons_for_the_person() -> None:
    row = judged(a_row(flags="of unequal length", ceiling_share=1.2, other_load=0.5), Samples((), RISING))
    assert row.judgement == Judgement.ABOVE_CEILING
    reasons = row.flags.split("; ")
    assert reasons[0] == "of unequal length"
    assert [reason.partition(":")[0] for reason in reasons[1:]] == ["above ceiling", "disturbed", "drifting"]
