"""About how long a run will still take, told by the points that it has measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean


@dataclass
class Pace:
    """Passes at `floors_s`, the least or predicted seconds of one at each point, but as much slower as those before.

    A pass is what a point repeats: a request, or the steps of a batch. A point takes as many as those before it did on
    average, but no more than the `most` of that length; until one is done, as many as a pass of that length lets
    expect (`untried`). The floor of a point that is not to be run is 0.
    """

    floors_s: Sequence[float]
    untried: Callable[[float], int]
    most: Callable[[float], int]
    measured_s: float = 0.0
    measured_floors_s: float = 0.0
    counts: list[int] = field(default_factory=list)

    def took(self, i: int, seconds: float) -> None:
        """Take in a pass of point `i`; one that has no floor tells nothing."""
        if self.floors_s[i]:
            self.measured_s += seconds
            self.measured_floors_s += self.floors_s[i]

    def done(self, count: int) -> None:
        """Take in that a point is done, after so many passes."""
        self.counts.append(count)

    def pass_s(self, i: int) -> float:
        """Seconds that a pass of point `i` is expected to take."""
        slowdown = self.measured_s / self.measured_floors_s if self.measured_floors_s else 1.0
        return slowdown * self.floors_s[i]

    def left_s(self, i: int, passes: int) -> float:
        """Seconds until the last point is expected to be done, while point `i` is measured and lacks so many passes."""
        later_s = map(self.pass_s, range(i + 1, len(self.floors_s)))
        return passes * self.pass_s(i) + sum(self._passes(seconds) * seconds for seconds in later_s)

    def _passes(self, seconds: float) -> int:
        if not self.counts:
            return self.untried(seconds)
        return min(self.most(seconds), round(mean(self.counts)))
