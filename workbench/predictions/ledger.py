"""The ledger: what was predicted beside what was measured, and what the misses say of other models' predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log
from statistics import median

from workbench.predictions.prediction import HALF_WIDTHS, INTERVAL, UNKNOWN_SPREAD
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed
from workbench.runs.row import BATCH, Row

LEAST_ENTRIES = 8
"""Fewer misses of other models bound no interval."""
LEAST_SPREAD = 0.02
NOT_COUNTED = ("disturbed", "drifting", "above ceiling", "implausibly low")
"""What a row is judged that counts for nothing here: the box, or one of the figures, was not itself."""


class Phase(StrEnum):
    """Which of the two times of a request an entry is of."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True)
class Entry:
    """One prediction and its measurement, in ms; `measured` is the median of the repeats."""

    run_id: str = headed("run")
    model: str = headed("model")
    dtype: str = headed("dtype")
    phase: Phase = headed("phase")
    context: int = headed("context")
    batch: int = headed("batch")
    predicted: Quantity = headed("predicted ms")
    low: Quantity = headed("from")
    high: Quantity = headed("to")
    measured: Quantity = headed("measured ms")
    error: Quantity = headed("error")
    inside: bool = headed("inside")

    @property
    def miss(self) -> float:
        """How far off, whichever way, as a share of the measurement."""
        return abs(self.error.value)


def entries(rows: Iterable[Row]) -> list[Entry]:
    """What rows hold of predictions and their measurements; rows in which the box was disturbed are left out."""
    found = []
    for row in rows:
        if row.status != "ok" or row.judgement in NOT_COUNTED or row.predicted_from is None:
            continue
        prefill = (row.predicted_ttft_ms, row.predicted_ttft_low_ms, row.predicted_ttft_high_ms, row.ttft_median_ms)
        decode = (row.predicted_tpot_ms, row.predicted_tpot_low_ms, row.predicted_tpot_high_ms, row.tpot_median_ms)
        for phase, figures in ((Phase.PREFILL, prefill), (Phase.DECODE, decode)):
            if all(figures) and not (phase is Phase.PREFILL and row.kind == BATCH):
                found.append(_entry(row, phase, *(figure or 0.0 for figure in figures)))
    return found


def _entry(row: Row, phase: Phase, predicted: float, low: float, high: float, measured: float) -> Entry:
    def ms(name: str, value: float, origin: Origin) -> Quantity:
        return Quantity(name, value, Unit.MILLISECONDS, origin, source=row.predicted_from or "")

    before, after = ms("predicted", predicted, Origin.ARITHMETIC), ms("measured", measured, Origin.MEASURED)
    return Entry(
        run_id=row.run_id,
        model=row.model,
        dtype=row.dtype,
        phase=phase,
        context=row.prompt_tokens if phase is Phase.PREFILL else row.context_tokens,
        batch=row.batch,
        predicted=before,
        low=ms("low end of the interval", low, Origin.ARITHMETIC),
        high=ms("high end of the interval", high, Origin.ARITHMETIC),
        measured=after,
        error=arithmetic(
            "error", predicted / measured - 1, Unit.SHARE, formula="predicted / measured − 1", inputs=(before, after)
        ),
        inside=low <= measured <= high,
    )


@dataclass(frozen=True)
class Accuracy:
    """How good the predictions of a phase have been: median and worst miss, and the share inside its interval."""

    phase: Phase = headed("phase")
    count: int = headed("rows")
    median_miss: Quantity = headed("median miss")
    worst_miss: Quantity = headed("worst")
    inside: Quantity = headed(f"inside the {INTERVAL:.0%} interval")

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        return (
            f"{self.phase} so far on this box: {rows}, median miss {self.median_miss}, worst {self.worst_miss}, "
            f"{self.inside} inside the interval"
        )


def accuracy(ledger: Sequence[Entry]) -> list[Accuracy]:
    """Of each phase that the ledger has."""
    found = []
    for phase in Phase:
        those = [entry for entry in ledger if entry.phase is phase]
        if those:
            misses = [entry.miss for entry in those]
            shares = (median(misses), max(misses), sum(entry.inside for entry in those) / len(those))
            names = ("median miss", "worst miss", "share inside the interval")
            figures = (arithmetic(n, v, Unit.SHARE) for n, v in zip(names, shares, strict=True))
            found.append(Accuracy(phase, len(those), *figures))
    return found


def spread(ledger: Iterable[Entry], phase: Phase, model: str) -> float:
    """Standard deviation of the logarithm of measured over predicted, as other models' entries of a phase show it.

    Entries of the model itself count for nothing, whatever their setting: a prediction never rests on what it is to
    be compared with, nor on an earlier run of it. UNKNOWN_SPREAD while there are too few.
    """
    misses = sorted(
        abs(log(entry.measured.value / entry.predicted.value))
        for entry in ledger
        if entry.phase is phase and entry.model != model
    )
    if len(misses) < LEAST_ENTRIES:
        return UNKNOWN_SPREAD
    return max(LEAST_SPREAD, misses[min(len(misses) - 1, int(INTERVAL * len(misses)))] / HALF_WIDTHS)
