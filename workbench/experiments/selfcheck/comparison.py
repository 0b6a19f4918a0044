"""What stands beside the same decode steps, and whether they take longer for it than bare ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import mean, median

from workbench.experiments.selfcheck.blocks import Block
from workbench.experiments.statistics import Interval, bootstrap_interval, quantile
from workbench.record import headed

MEDIAN_BAR, P90_BAR = 1.01, 1.03
"""What the steps under a live screen may take of the bare ones: this project's own bars."""


class Condition(StrEnum):
    """What stands beside the same decode steps, in one measuring thread; nothing at all in the first two."""

    BARE = "bare"
    BARE_AGAIN = "bare again"
    HEADLESS = "headless"
    IDLE_APP = "idle app"
    SWEEP_ON_SCREEN = "sweep on screen"
    KEYS_PRESSED = "keys pressed"


MEASURED = tuple(condition for condition in Condition if condition is not Condition.BARE)
"""Bare blocks are measured in every other condition."""
APP = (Condition.IDLE_APP, Condition.SWEEP_ON_SCREEN, Condition.KEYS_PRESSED)


@dataclass(frozen=True)
class Taken:
    """One condition of one round: its blocks, and what their windows say of the instrument."""

    blocks: tuple[Block, ...]
    ui_share: float | None = None

    @property
    def step_s(self) -> tuple[float, ...]:
        """Every step's seconds."""
        return tuple(seconds for block in self.blocks for seconds in block.step_s)

    @property
    def bare_s(self) -> tuple[float, ...]:
        """Every bare step's, of the block before each."""
        return tuple(seconds for block in self.blocks for seconds in block.around[0])

    @property
    def median_ratio(self) -> float:
        """The median of its blocks' ratios."""
        return median(block.ratio for block in self.blocks)

    @property
    def p90_ratio(self) -> float:
        """The step that a tenth of them exceed, over that of the bare ones."""
        return _p90(self.step_s) / _p90(self.bare_s)


def _p90(seconds: Sequence[float]) -> float:
    return quantile(sorted(seconds), 0.9)


class Verdict(StrEnum):
    """Whether a condition's ratios are within the bars."""

    WITHIN = "within"
    NOT_WITHIN = "not within"
    TOO_NOISY = "can't tell: too noisy"


@dataclass(frozen=True)
class Compared:
    """A condition against the bare steps between its own: milliseconds, ratios with their intervals, a verdict.

    `median_ratio` is the median over all blocks of their median steps over those of the bare blocks around them, with
    an interval from drawing rounds; `p90_ratio` the median over the rounds of the ratio of the 90th percentiles. None
    for the bare steps themselves. `ui_share` is the CPU time of all threads of ours but the measuring
    one inside the timed windows, over their length.
    """

    condition: Condition = headed("steps")
    rounds: int = headed("rounds")
    median_ms: float = headed("median ms")
    p90_ms: float = headed("p90 ms")
    median_ratio: float | None = headed("median / bare")
    median_low: float | None = headed("from")
    median_high: float | None = headed("to")
    p90_ratio: float | None = headed("p90 / bare")
    p90_low: float | None = headed("p90 from")
    p90_high: float | None = headed("p90 to")
    ui_share: float | None = headed("UI share")
    verdict: Verdict | None = headed("verdict")


def verdict(median_ratio: Interval, p90_ratio: Interval) -> Verdict:
    """Within where both intervals lie under their bars, not within where one lies above; else it can't be told."""
    bars = ((median_ratio, MEDIAN_BAR), (p90_ratio, P90_BAR))
    if any(interval.low > bar for interval, bar in bars):
        return Verdict.NOT_WITHIN
    return Verdict.WITHIN if all(interval.high <= bar for interval, bar in bars) else Verdict.TOO_NOISY


def compared(rounds: Sequence[Mapping[Condition, Taken]]) -> list[Compared]:
    """Each condition over its own bare steps, in the order of Condition."""
    bare = [Taken(tuple(block for taken in each.values() for block in taken.blocks)) for each in rounds]
    found = [_figures(Condition.BARE, [taken.bare_s for taken in bare])]
    for condition in MEASURED:
        taken = [each[condition] for each in rounds]
        ratios = [[block.ratio for block in each.blocks] for each in taken]
        tails = [each.p90_ratio for each in taken]
        middle, tail = bootstrap_interval(ratios, _middle_of_all), bootstrap_interval(tails, median)
        shares = [each.ui_share for each in taken if each.ui_share is not None]
        found.append(
            replace(
                _figures(condition, [each.step_s for each in taken]),
                median_ratio=_middle_of_all(ratios),
                median_low=middle.low,
                median_high=middle.high,
                p90_ratio=median(tails),
                p90_low=tail.low,
                p90_high=tail.high,
                ui_share=mean(shares) if shares else None,
                verdict=verdict(middle, tail),
            )
        )
    return found


def _middle_of_all(ratios: Sequence[Sequence[float]]) -> float:
    return median(ratio for of_round in ratios for ratio in of_round)


def _figures(condition: Condition, step_s: Sequence[Sequence[float]]) -> Compared:
    """A condition's milliseconds, from its steps round by round, before anything is compared."""
    return Compared(
        condition=condition,
        rounds=len(step_s),
        median_ms=median(median(each) for each in step_s) * 1e3,
        p90_ms=median(_p90(each) for each in step_s) * 1e3,
        median_ratio=None,
        median_low=None,
        median_high=None,
        p90_ratio=None,
        p90_low=None,
        p90_high=None,
        ui_share=None,
        verdict=None,
    )


def overall(found: Sequence[Compared]) -> Verdict:
    """The gravest verdict of the conditions in which the app is open."""
    gravest_first = (Verdict.NOT_WITHIN, Verdict.TOO_NOISY, Verdict.WITHIN)
    verdicts = [each.verdict for each in found if each.condition in APP and each.verdict is not None]
    return min(verdicts, key=gravest_first.index)
