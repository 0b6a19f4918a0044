"""How often a point is measured: warmed up until it is steady, then until its median is known well enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median

from workbench.experiments.statistics import median_interval

LEAST_REPEATS = 3
"""Fewer samples give an interval so wide that only a lucky pair would end them."""
WARM_UP_SHARE = 0.05
"""A sample this much slower than the one after it still paid for what only the first of a shape pay for."""
MOST_DROPPED = 2
LONG_S = 3.0
"""What takes longer is warmed once at most: a long prefill touches everything at once."""


@dataclass(frozen=True)
class Repeats:
    """At least and at most so many repeats of a point; between them until each median is as precise as asked.

    `precision` is the half width of a median's 95 per cent interval as a share of it, None for a fixed count.
    After `most_s` seconds of a point the least number is enough.
    """

    least: int
    most: int
    precision: float | None = None
    most_s: float = inf

    @property
    def fixed(self) -> bool:
        """Whether the count is known beforehand."""
        return self.least == self.most

    def enough(self, series: Sequence[Sequence[float]], spent_s: float) -> bool:
        """Whether a point needs no further repeat, by the samples of each of its figures and the seconds it took."""
        taken = min(map(len, series), default=0)
        if taken < self.least:
            return False
        if taken >= self.most or spent_s >= self.most_s or self.precision is None:
            return True
        return half_width_share(series) <= self.precision

    def most_in(self, request_s: float) -> int:
        """The most repeats of a request that takes so long."""
        return max(self.least, min(self.most, int(min(self.most_s / request_s, self.most)) if request_s else self.most))

    def expected(self, series: Sequence[Sequence[float]], request_s: float) -> int:
        """How many repeats a point will have taken, as far as its samples tell: the interval narrows with √n."""
        taken, most = min(map(len, series), default=0), self.most_in(request_s)
        if self.precision is None or taken < self.least:
            return most if self.fixed else max(self.least, taken)
        share = half_width_share(series)
        return taken if share <= self.precision else int(min(most, taken * (share / self.precision) ** 2))


def half_width_share(series: Sequence[Sequence[float]]) -> float:
    """The widest of the figures' intervals, as a share of its median; infinite where one has no interval yet."""
    intervals = [(samples, median_interval(samples)) for samples in series]
    return max((inf if found is None else found.share_of(median(samples)) for samples, found in intervals), default=inf)


def warm_ups(samples: Sequence[Sequence[float]]) -> int:
    """How many of the first samples of a shape were its warm-up: those before two that follow each other steadily.

    A sample holds the seconds of each of its figures, the longest of them those of the whole.
    """
    dropped = 0
    for earlier, later in pairwise(samples):
        if dropped >= (1 if max(earlier) > LONG_S else MOST_DROPPED) or not _still_warming(earlier, later):
            break
        dropped += 1
    return dropped


def _still_warming(earlier: Sequence[float], later: Sequence[float]) -> bool:
    """Whether the earlier of two following samples was slower than it would be now.

    Only slower: memory not yet touched, kernels not yet chosen and cold caches never make a sample fast.
    """
    return any(before > (1 + WARM_UP_SHARE) * after for before, after in zip(earlier, later, strict=True))
