"""Statistics of repeats."""

from collections.abc import Sequence
from statistics import median

__all__ = ["best", "median"]


def best(samples: Sequence[float]) -> float:
    """The shortest of the samples, the one least disturbed."""
    return min(samples)
