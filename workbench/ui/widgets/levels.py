"""Levels drawn with characters, none of them braille: a short bar for one figure, a row of steps for many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

BAR_WIDTH = 8


@dataclass(frozen=True)
class Levels:
    """The characters of a bar and of the steps from nothing to all, told apart without colour."""

    full: str
    empty: str
    over: str
    steps: str
    unknown: str = " "


BLOCK_LEVELS = Levels(full="█", empty="·", over="!", steps="▁▂▃▄▅▆▇█")
ASCII_LEVELS = Levels(full="#", empty=".", over="!", steps="_.-:=+*#")


def bar(part: float, whole: float, levels: Levels, width: int = BAR_WIDTH) -> str:
    """How much of the whole the part is; ends in a mark where it is more."""
    if whole <= 0:
        return levels.empty * width
    filled = min(width, round(width * max(0.0, part) / whole))
    drawn = levels.full * filled + levels.empty * (width - filled)
    return drawn[:-1] + levels.over if part > whole * 1.005 else drawn


def steps(values: Iterable[float | None], top: float, levels: Levels) -> str:
    """A character for each value, from 0 to `top`; where there is none it stays blank."""
    highest = len(levels.steps) - 1
    return "".join(
        levels.unknown
        if value is None
        else levels.steps[min(highest, max(0, round(highest * value / top)))]
        if top > 0
        else levels.steps[0]
        for value in values
    )


def spread_over(
    points: Sequence[tuple[float, float, float]], start: float, end: float, width: int
) -> list[float | None]:
    """The mean of the values that hold in each of `width` equal parts of a time; None where none does.

    A point is the time from which, and to which, its value holds, and the value.
    """
    seconds = (end - start) / width
    sums, counts = [0.0] * width, [0] * width
    for begins, ends, value in points:
        if ends < start or begins > end:
            continue
        first = min(width - 1, max(0, int((begins - start) / seconds)))
        # What holds up to the very end of a part does not hold in the next.
        last = min(width, max(first + 1, ceil((ends - start) / seconds)))
        for part in range(first, last):
            sums[part] += value
            counts[part] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]
