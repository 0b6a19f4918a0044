"""The parts of a pass that are timed apart, and what an engine must offer for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

SHORT_S = 0.25
"""What a pass as short as this is timed as is run once before, so that memory near the cores holds what that leaves."""


class Part(StrEnum):
    """What a pass is made of, besides the Python between it."""

    WEIGHTS = "weight kernels"
    HEAD = "output head"
    ATTENTION = "attention"
    CACHE = "cache handling"
    ELEMENTWISE = "norms, rotary, activations, routing"
    SAMPLING = "sampling and the loop"


@dataclass(frozen=True)
class Sample:
    """One timed pass: seconds by the clock, and of those the seconds our threads waited for a core that others had.

    Where several threads waited, something between the most that one of them did and all they did together was lost.
    """

    wall_s: float
    least_waited_s: float = 0.0
    most_waited_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """The middle of what may have been lost."""
        return (self.least_waited_s + self.most_waited_s) / 2

    @property
    def own_s(self) -> float:
        """Seconds it would have taken with the cores to itself."""
        return max(0.0, self.wall_s - self.waited_s)


@dataclass(frozen=True)
class InPlace:
    """A pass with a clock around each part's calls: the whole of it, and the seconds of each part inside it."""

    sample: Sample
    parts_s: Mapping[Part, float]

    @property
    def own_share(self) -> float:
        """The share of its time by the clock in which the pass had its cores."""
        return self.sample.own_s / self.sample.wall_s if self.sample.wall_s else 1.0

    def own_s(self, part: Part) -> float:
        """Seconds of a part, its share of the waiting taken off."""
        return self.parts_s[part] * self.own_share

    @property
    def between_s(self) -> float:
        """Seconds outside of every part's calls."""
        return self.sample.own_s - sum(self.own_s(part) for part in self.parts_s)


class Dissected(Protocol):
    """One pass that can be run whole, with parts left out of it, or part by part, always on the same cache."""

    def whole(self) -> Sample:
        """The pass as the engine runs it."""

    def without(self, parts: Sequence[Part]) -> Sample:
        """The same pass where these parts give back at once what they gave when it was recorded."""

    def alone(self, part: Part) -> Sample:
        """The part's own calls, in the pass's order and on its own tensors, without the rest."""

    def in_place(self) -> InPlace | None:
        """The pass with a clock around each part's calls; None on a device that works behind the clock's back."""

    def unchanged(self) -> bool:
        """Whether the pass still gives what it gave before anything was recorded."""


@dataclass(frozen=True)
class Dissection:
    """The pass itself, the same of one sequence and two tokens at most, and the same of a model of negligible width.

    `short` is None where the pass is no longer than that itself, `narrow` where such a model can't be built.
    """

    full: Dissected
    short: Dissected | None
    narrow: Dissected | None
