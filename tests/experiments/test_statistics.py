"""Intervals that hold what they promise, exact probabilities of a trend, and ratios of two series."""

import random
from collections.abc import Sequence
from itertools import permutations
from statistics import median

import pytest

from workbench.experiments.statistics import (
    Interval,
    bootstrap_interval,
    median_interval,
    paired_ratio,
    quantile,
    ratio_of_medians,
    trend,
)


def lognormal(draw: random.Random, n: int) -> list[float]:
    """Timings as a busy box gives them: many near the least, a few far above."""
    return [draw.lognormvariate(0, 0.3) for _ in range(n)]


@pytest.mark.parametrize("n", [2, 3, 5, 6, 7, 9, 15, 30])
def test_the_interval_of_the_median_holds_it_as_often_as_it_says(n: int) -> None:
    draw = random.Random(n)
    trials = 2_000
    held = 0
    for _ in range(trials):
        found = median_interval(lognormal(draw, n))
        assert found is not None
        held += found.low <= 1.0 <= found.high
    # Student's few samples lose a little to skewed noise.
    assert 0.92 <= held / trials <= 0.98


def test_the_interval_of_few_samples_is_wide_and_of_one_unknown() -> None:
    assert median_interval([1.0]) is None
    two, three = median_interval([1.0, 1.01]), median_interval([1.0, 1.005, 1.01])
    assert two is not None
    assert three is not None
    assert two.half_width == pytest.approx(12.706 * 0.005, rel=1e-3)
    assert three.half_width == pytest.approx(4.303 * 0.005 / 3**0.5, rel=1e-3)
    assert three.share_of(1.005) == pytest.approx(three.half_width / 1.005)
    assert Interval(-1.0, 1.0).share_of(0.0) == float("inf")


def test_the_interval_lies_between_ranks_of_the_binomial() -> None:
    found = median_interval([float(i) for i in range(1, 16)])
    assert found is not None
    # Ranks 4 and 12 of 15 cover 96.5 per cent, 5 and 11 cover 88.2: 95 lies near the wider pair.
    assert 4 < found.low < 4.5
    assert 11.5 < found.high < 12


def test_the_bootstrap_is_the_same_every_time_and_takes_pairs() -> None:
    pairs = [(x, 2 * x + noise) for x, noise in zip(range(1, 30), lognormal(random.Random(1), 29), strict=True)]

    def ratio(sample: Sequence[tuple[int, float]]) -> float:
        return sum(b for _, b in sample) / sum(a for a, _ in sample)

    first, second = bootstrap_interval(pairs, ratio), bootstrap_interval(pairs, ratio)
    assert first == second
    assert first != bootstrap_interval(pairs, ratio, seed=1)
    assert first.low < ratio(pairs) < first.high
    narrower = bootstrap_interval(pairs, ratio, level=0.5)
    assert first.low < narrower.low < narrower.high < first.high
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval([], median)


def test_a_ratio_is_that_of_pairs_and_not_of_medians() -> None:
    found = paired_ratio([2.0, 20.0, 6.0], [1.0, 10.0, 3.0])
    assert (found.value, found.interval) == (2.0, Interval(2.0, 2.0))
    with pytest.raises(ValueError, match="zip"):
        paired_ratio([1.0], [1.0, 2.0])


def test_the_probability_of_a_trend_is_that_of_all_orders() -> None:
    for order in permutations(range(5)):
        S = sum((order[j] > order[i]) - (order[j] < order[i]) for i in range(5) for j in range(i + 1, 5))
        steadier = 0
        for other in permutations(range(5)):
            T = sum((other[j] > other[i]) - (other[j] < other[i]) for i in range(5) for j in range(i + 1, 5))
            steadier += abs(T) >= abs(S)
        found = trend([float(x) for x in order])
        assert found is not None
        assert found.probability == pytest.approx(steadier / 120)


def test_the_slope_is_that_of_most_pairs() -> None:
    found = trend([1.0, 2.0, 3.0, 100.0, 5.0, 6.0])
    assert found is not None
    assert found.slope == 1.0
    assert trend([1.0]) is None
    four = trend([1.0, 2.0, 3.0, 4.0])
    assert four is not None
    assert four.probability == pytest.approx(2 / 24)


def test_quantiles_are_linear_between_samples() -> None:
    assert [quantile([1.0, 2.0, 4.0], q) for q in (0.0, 0.25, 0.5, 0.9, 1.0)] == pytest.approx([1, 1.5, 2, 3.6, 4])
    assert quantile([3.0], 0.9) == 3.0


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (3, 9), (5, 5), (6, 6), (12, 30)])
def test_the_interval_of_a_ratio_of_medians_holds_it_as_often_as_it_says(n: int, m: int) -> None:
    draw = random.Random(n * m)
    trials = 200 if min(n, m) >= 6 else 2_000
    held = 0
    for _ in range(trials):
        found = ratio_of_medians(lognormal(draw, n), lognormal(draw, m))
        assert found is not None
        held += found.interval.low <= 1.0 <= found.interval.high
    # Of very few samples, degrees of freedom rounded down make it wider than it must be.
    assert 0.93 <= held / trials <= 1.0


def test_a_ratio_of_medians_needs_two_samples_of_each_above_zero() -> None:
    assert ratio_of_medians([1.0], [1.0, 2.0]) is None
    assert ratio_of_medians([1.0, 2.0], []) is None
    with pytest.raises(ValueError, match="above zero"):
        ratio_of_medians([1.0, 0.0], [1.0, 2.0])
    same = ratio_of_medians([2.0, 2.0], [1.0, 1.0])
    assert same is not None
    assert (same.value, same.interval) == (2.0, Interval(2.0, 2.0))
