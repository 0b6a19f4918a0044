"""Whether a row can be trusted: what its samples, the box beside it and its ceiling say, and what to do about it."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from statistics import median

from workbench.ceilings.batch import Limit
from workbench.experiments.statistics import median_interval, trend
from workbench.hardware.load import BUSY_SHARE, STOLEN_SHARE
from workbench.quantity import Unit, format_value
from workbench.runs.judgement import Judgement
from workbench.runs.row import BATCH, Row
from workbench.runs.samples import Samples

UI_SHARE = 0.01
"""The part of its timed windows that the screen may take; the project's own bar."""
PRECISION = 0.05
"""What a fixed count of repeats is held to: three of them seldom bound a median closer."""
CHANCE, DRIFT_SHARE = 0.05, 0.03
"""A course so steady, and of such a size, is a drift."""
LEAST_COURSE = 5
"""Of fewer samples no course is so steady."""
CLOCK_SHARE = 0.90
SWAPPED_BYTES = 10_000_000
LOW_SHARE = 0.10
"""Under a tenth of its ceiling a decode rate is more often a wrong setting than a slow engine."""


@dataclass(frozen=True)
class Finding:
    """One reason to doubt a row, and what to do about it."""

    judgement: Judgement
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.judgement}: {self.reason} ({self.advice})"


def judged(row: Row, samples: Samples, precision: float | None = None) -> Row:
    """The row with the intervals of its medians, its gravest judgement, and every reason after what `flags` says.

    `precision` is what its repeats were to reach, as a share of each median; None for a fixed count of them.
    """
    ttft, tpot = _ends_ms(samples.ttft_s), _ends_ms(samples.tpot_s)
    found = list(findings(row, samples, precision))
    gravest = min((finding.judgement for finding in found), key=list(Judgement).index, default=Judgement.OK)
    columns = {
        "judgement": str(gravest),
        "flags": "; ".join(filter(None, [row.flags, *map(str, found)])),
        "ttft_low_ms": ttft[0],
        "ttft_high_ms": ttft[1],
        "tpot_low_ms": tpot[0],
        "tpot_high_ms": tpot[1],
    }
    # Its labels are checked already, and making a row of so many columns anew takes longer than judging it: files of
    # thousands of rows are judged.
    judged_row = copy(row)
    vars(judged_row).update(columns)
    return judged_row


def findings(row: Row, samples: Samples, precision: float | None = None) -> Iterator[Finding]:
    """Every reason to doubt a measured row."""
    yield from _above_its_ceiling(row)
    yield from _beside_it(row)
    if not _explains_a_low_rate(row):
        yield from _far_below_its_ceiling(row)
    figures = {"TTFT": samples.ttft_s, "step" if row.kind == BATCH else "TPOT": samples.tpot_s}
    for name, seconds in figures.items():
        yield from _drift(name, seconds)
        yield from _noise(row, name, seconds, precision)


def _ends_ms(seconds: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Where the median lies, in milliseconds, no time below none; unknown of fewer than two samples."""
    found = median_interval(seconds)
    return (None, None) if found is None else (max(0.0, found.low) * 1e3, found.high * 1e3)


def _above_its_ceiling(row: Row) -> Iterator[Finding]:
    share = row.ceiling_share
    if share is not None and share > 1:
        reason = f"decode above its ceiling, at {share * 100:.0f} % of it: the read rate was taken in a slower minute"
        yield Finding(
            Judgement.ABOVE_CEILING, f"{reason}, or the weights sit in cache", "measure again, and probe the box with p"
        )
    if row.ttft_ms is not None and row.ttft_floor_ms is not None and row.ttft_ms < row.ttft_floor_ms:
        reason = "prefill under its floor: the box's rates were taken in a slower minute"
        yield Finding(Judgement.ABOVE_CEILING, reason, "measure again, and probe the box with p")


def _far_below_its_ceiling(row: Row) -> Iterator[Finding]:
    share = row.ceiling_share
    if share is not None and share < LOW_SHARE and row.bound_by not in (Limit.ARITHMETIC, Limit.MEMORY):
        reason = f"decode reached {share * 100:.1f} % of its ceiling"
        yield Finding(Judgement.IMPLAUSIBLY_LOW, reason, f"look for {', '.join(_suspects(row))}")


def _explains_a_low_rate(row: Row) -> bool:
    """Whether others took what slows a step by many times: threads that wait for each other wait for the slowest."""
    swapped = (row.swapped_bytes or 0) > SWAPPED_BYTES
    return swapped or bool(others_words(row.other_load)) or (row.stolen_share or 0.0) > STOLEN_SHARE


def _suspects(row: Row) -> Iterator[str]:
    if row.threads == 1 and row.device == "cpu":
        yield "one thread where there are more cores"
    if row.device == "cpu":
        yield "the processor where an accelerator was meant"
        yield "weights in swap"
    else:
        yield "weights held in the host's memory"
        yield "a model so small that starting its kernels takes longer than they do"
    yield f"{row.dtype} kernels that this device has only in software"
    yield "a debug build"


def _beside_it(row: Row) -> Iterator[Finding]:
    if row.ui_share is not None and row.ui_share > UI_SHARE:
        reason = f"the screen took {row.ui_share * 100:.1f} % of the timed windows"
        yield Finding(
            Judgement.DISTURBED, reason, "workbench selfcheck tells whether it does here, without a key pressed"
        )
    if reason := others_words(row.other_load):
        yield Finding(Judgement.DISTURBED, reason, "end them, or measure when they have ended")
    if row.stolen_share is not None and row.stolen_share > STOLEN_SHARE:
        reason = f"the hypervisor took {row.stolen_share * 100:.0f} % of the cores for others"
        yield Finding(Judgement.DISTURBED, reason, "measure at another hour, or on a box of your own")
    if row.swapped_bytes is not None and row.swapped_bytes > SWAPPED_BYTES:
        reason = f"{row.swapped_bytes / 1e6:,.0f} MB went to or from swap"
        yield Finding(Judgement.DISTURBED, reason, "free memory, or take a smaller model or dtype")
    if row.clock_share is not None and row.clock_share < CLOCK_SHARE:
        reason = f"the clock fell to {row.clock_share * 100:.0f} % of the highest seen in this run"
        yield Finding(Judgement.DISTURBED, reason, "let the box cool, or set its governor to performance")


def others_words(share: float | None) -> str:
    """What other processes took of the cores, where that is enough to disturb a timing; empty where it is not."""
    if share is None or share <= BUSY_SHARE:
        return ""
    return f"other processes took {share * 100:.0f} % of the cores"


def _drift(name: str, seconds: Sequence[float]) -> Iterator[Finding]:
    course = trend(seconds) if len(seconds) >= LEAST_COURSE else None
    if course is None or course.probability > CHANCE:
        return
    change = course.slope * (len(seconds) - 1) / median(seconds)
    if abs(change) > DRIFT_SHARE:
        way, advice = ("rose", "let the box cool, and see what has begun to run") if change > 0 else ("fell", "repeat")
        yield Finding(
            Judgement.DRIFTING, f"{name} {way} by {abs(change) * 100:.0f} % over {len(seconds)} samples", advice
        )


def _noise(row: Row, name: str, seconds: Sequence[float], precision: float | None) -> Iterator[Finding]:
    if not seconds:
        return
    interval = median_interval(seconds)
    if interval is None:
        yield Finding(Judgement.NOISY, f"one sample of {name} says nothing of its noise", "take more repeats")
    elif (share := interval.share_of(median(seconds))) > (precision or PRECISION):
        reason = f"median {name} of {len(seconds)} known to ±{share * 100:.1f} %"
        if share >= 1:
            low, high = (format_value(end, Unit.SECONDS) for end in (min(seconds), max(seconds)))
            reason = f"{name} took {low} to {high} in {len(seconds)} samples, too few or too uneven to bound its median"
        yield Finding(Judgement.NOISY, reason, "end what else runs, or repeat more")
