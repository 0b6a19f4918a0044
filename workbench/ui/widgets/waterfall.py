"""A waterfall drawn with characters: each bar begins where the one before it ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from workbench.runs.ladder import Ladder


@dataclass(frozen=True)
class Bars:
    """The characters of a ladder's bars, told apart without colour; `thin` stands for what is narrower than one."""

    total: str
    more: str
    less: str
    unresolved: str
    thin: str


BLOCK_BARS = Bars(total="▒", more="█", less="<", unresolved="░", thin="▏")
ASCII_BARS = Bars(total="=", more="#", less="<", unresolved="?", thin="|")


def waterfall(ladder: Ladder, width: int, bars: Bars) -> list[str]:
    """Bars `width` characters wide at most: the ceiling, every rung from there on, the remainder, the measured time."""
    terms = ladder.terms
    ends = list(accumulate((rung.time.value for rung in terms), initial=ladder.ceiling.value))
    spans = [(0.0, ends[0]), *pairwise(ends), (0.0, ladder.measured.value)]
    drawn = [bars.total, *(_character(rung.resolved, rung.time.value, bars) for rung in terms), bars.total]
    return list(_drawn(spans, drawn, max(1, width), bars))


def _character(resolved: bool, seconds: float, bars: Bars) -> str:
    if not resolved:
        return bars.unresolved
    return bars.more if seconds > 0 else bars.less


def _drawn(spans: Sequence[tuple[float, float]], characters: Sequence[str], width: int, bars: Bars) -> Iterator[str]:
    least = min(min(span) for span in spans)
    most = max(max(span) for span in spans)
    scale = width / (most - least) if most > least else 0.0
    for span, character in zip(spans, characters, strict=True):
        left, right = (round((edge - least) * scale) for edge in (min(span), max(span)))
        body = character * (right - left) or bars.thin
        yield " " * min(left, width - 1) + body
