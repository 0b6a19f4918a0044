"""What samples say of the figure behind them: its interval, its trend, and ratios of two series of them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb, exp, fsum, hypot, log, pi, sqrt
from statistics import median, variance
from typing import TypeVar

LEVEL = 0.95
RESAMPLES = 2_000
FEW = 6
"""From so many samples on the least and the greatest hold the median between them at 95 per cent: 1 - 2·0.5^n."""
STUDENT_T_95 = (12.706, 4.303, 3.182, 2.776)
"""97.5 per cent points of Student's t for 1 to 4 degrees of freedom: any table of it."""
Z_95 = 1.959964
"""97.5 per cent point of the normal distribution: any table of it."""

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class Interval:
    """Where a figure lies, at the level it was asked for."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of what lies between its ends."""
        return (self.high - self.low) / 2

    def share_of(self, figure: float) -> float:
        """Its half width as a share of `figure`; infinite of zero."""
        return abs(self.half_width / figure) if figure else float("inf")


@dataclass(frozen=True)
class Ratio:
    """A ratio of two series of samples, and where it lies."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class Trend:
    """What samples gain from each to the next, and how probable so steady a course is by chance (two-sided)."""

    slope: float
    probability: float


def median_interval(samples: Sequence[float]) -> Interval | None:
    """The 95 per cent confidence interval of the median, in the samples' unit; None of fewer than two.

    From six samples on it is made of the order statistics, whatever the distribution: binomial, interpolated between
    two ranks as in Hettmansperger and Sheather, "Confidence intervals based on interpolated order statistics" (1986).
    Fewer samples can't bound a median so at this level: theirs is Student's interval of the mean, moved to the median,
    which takes the noise for normal and is wide (12.7 standard errors for two samples, 4.3 for three).
    """
    n = len(samples)
    if n < 2:
        return None
    x = sorted(samples)
    if n < FEW:
        half = STUDENT_T_95[n - 2] * _standard_deviation(x) / sqrt(n)
        return Interval(median(x) - half, median(x) + half)
    k = max(k for k in range(1, n // 2 + 1) if _coverage(n, k) >= LEVEL)
    if k == n // 2:
        return Interval(x[k - 1], x[n - k])
    I = (_coverage(n, k) - LEVEL) / (_coverage(n, k) - _coverage(n, k + 1))
    λ = (n - k) * I / (k + (n - 2 * k) * I)
    return Interval((1 - λ) * x[k - 1] + λ * x[k], (1 - λ) * x[n - k] + λ * x[n - k - 1])


def _standard_deviation(x: Sequence[float]) -> float:
    """Of at least two samples; the standard library's, in exact fractions, takes a hundred times as long."""
    mean = fsum(x) / len(x)
    return hypot(*(sample - mean for sample in x)) / sqrt(len(x) - 1)


def bootstrap_interval(
    samples: Sequence[Sample],
    statistic: Callable[[Sequence[Sample]], float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of any statistic of whole samples, pairs among them.

    The same samples and seed give the same interval. Of few samples it is too narrow: below about ten prefer another.
    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13.
    Raises ValueError where there are no samples.
    """
    if not samples:
        raise ValueError("an interval needs at least one sample")
    draw = random.Random(seed)
    found = sorted(statistic(draw.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = (1 - level) / 2
    return Interval(quantile(found, tail), quantile(found, 1 - tail))


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float], seed: int = 0) -> Ratio:
    """The median of the ratios of pairs, with its bootstrap interval.

    Raises ValueError where their numbers differ or there are none.
    """
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    return Ratio(median(ratios), bootstrap_interval(ratios, median, seed=seed))


def ratio_of_medians(numerators: Sequence[float], denominators: Sequence[float], seed: int = 0) -> Ratio | None:
    """The ratio of the medians of two series taken apart, with its 95 per cent interval; None of fewer than two of one.

    With six samples or more of each it is the percentile bootstrap, each series drawn again on its own. Of fewer that
    is too narrow: theirs is Welch's interval of the difference of the mean logarithms, moved to the ratio of the
    medians and as much wider as a median's error is (B. L. Welch, "The generalization of Student's problem", 1947),
    which takes the noise for log-normal.
    Raises ValueError for a sample that is not above zero.
    """
    if min(len(numerators), len(denominators)) < 2:
        return None
    if min(*numerators, *denominators) <= 0:
        raise ValueError("a ratio of medians needs samples above zero")
    ratio = median(numerators) / median(denominators)
    if min(len(numerators), len(denominators)) < FEW:
        width = exp(_welch_half_width([log(x) for x in numerators], [log(x) for x in denominators]))
        return Ratio(ratio, Interval(ratio / width, ratio * width))
    draw = random.Random(seed)

    def drawn(samples: Sequence[float]) -> float:
        return median(draw.choices(samples, k=len(samples)))

    found = sorted(drawn(numerators) / drawn(denominators) for _ in range(RESAMPLES))
    tail = (1 - LEVEL) / 2
    return Ratio(ratio, Interval(quantile(found, tail), quantile(found, 1 - tail)))


def student_t_95(freedom: int) -> float:
    """97.5 per cent point of Student's t: a table for few degrees of freedom, an expansion for more, good to 0.2 %.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.5.
    """
    if freedom <= len(STUDENT_T_95):
        return STUDENT_T_95[freedom - 1]
    z, ν = Z_95, freedom
    return (
        z
        + (z**3 + z) / (4 * ν)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * ν**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * ν**3)
    )


def trend(samples: Sequence[float]) -> Trend | None:
    """Whether samples rise or fall in the order they were taken; None of fewer than two.

    The slope is Theil and Sen's, the median of all slopes between two samples. The probability is that of Mann and
    Kendall's S, exact for samples without ties; of fewer than five no course is steady enough for 5 per cent.
    """
    n = len(samples)
    if n < 2:
        return None
    pairs = list(combinations(range(n), 2))
    S = sum((samples[j] > samples[i]) - (samples[j] < samples[i]) for i, j in pairs)
    slope = median((samples[j] - samples[i]) / (j - i) for i, j in pairs)
    inversions = _inversion_counts(n)
    steadier = sum(count for d, count in enumerate(inversions) if abs(len(pairs) - 2 * d) >= abs(S))
    return Trend(slope, steadier / sum(inversions))


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of samples in ascending order, linear between two of them."""
    place = q * (len(ordered) - 1)
    i = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    following = ordered[min(i + 1, len(ordered) - 1)]
    return ordered[i] + (place - i) * (following - ordered[i])


def _welch_half_width(x: Sequence[float], y: Sequence[float]) -> float:
    """Half the 95 per cent interval of the difference of two means; degrees of freedom rounded down to whole ones."""
    a, b = variance(x) / len(x), variance(y) / len(y)
    if not a + b:
        return 0.0
    ν = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    # The variance of a median is π/2 times that of a mean, of many samples; of few a little less.
    return student_t_95(max(1, int(ν))) * sqrt(pi / 2 * (a + b))


def _coverage(n: int, k: int) -> float:
    """The probability that the median lies between the k-th smallest and the k-th greatest of n samples."""
    return float(1 - 2 * sum(comb(n, i) for i in range(k)) / 2**n)


@cache
def _inversion_counts(n: int) -> tuple[int, ...]:
    """How many orders of n samples have 0, 1, 2 … pairs in descending order."""
    counts = [1]
    for size in range(2, n + 1):
        longer = [0] * (len(counts) + size - 1)
        for d, count in enumerate(counts):
            for more in range(size):
                longer[d + more] += count
        counts = longer
    return tuple(counts)
