"""The ledger: what was predicted beside what was measured, and what the misses say of other models' predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log
from statistics import median

from workbench.predictions.prediction import HALF_WIDTHS, INTERVAL, UNKNOWN_SPREAD
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed
from workbench.runs.judgement import Judgement
from workbench.runs.row import BATCH, Row

LEAST_ENTRIES = 8
"""Fewer misses of other models bound no interval."""
LEAST_SPREAD = 0.02
NOT_COUNTED = (Judgement.DISTURBED, Judgement.DRIFTING, Judgement.ABOVE_CEILING, Judgement.IMPLAUSIBLY_LOW)
"""What a row is judged that counts for nothing here: the box, or one of the figures, was not itself."""

NONE_MEASURED = "predictions so far: none measured on this box, their intervals are assumed"


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
    context: int = headed("tokens")
    batch: int = headed("batch")
    predicted: Quantity = headed("predicted")
    low: Quantity = headed("from")
    high: Quantity = headed("to")
    measured: Quantity = headed("measured")
    error: Quantity = headed("error")
    inside: bool = headed("inside")

    @property
    def miss(self) -> float:
        """How far off, whichever way, as a share of the measurement."""
        return abs(self.error.value)


def entries(rows: Iterable[Row]) -> list[Entry]:
    """What rows hold of predictions and their measurements.

    Rows in which the box was disturbed are left out, and those extrapolated from slices: nobody measured them.
    """
    found = []
    for row in rows:
        if row.status != "ok" or row.judgement in NOT_COUNTED or row.predicted_from is None or row.extrapolated_from:
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
    """How good predictions have been: median and worst miss, and the share inside its interval.

    Of one model and dtype, or, without these, of all of a phase.
    """

    model: str | None = headed("model")
    dtype: str | None = headed("dtype")
    phase: Phase = headed("phase")
    count: int = headed("rows")
    median_miss: Quantity = headed("median miss")
    worst_miss: Quantity = headed("worst")
    inside: Quantity = headed("inside")

    def of(self, entry: Entry) -> bool:
        """Whether an entry is one of those that it is about."""
        return entry.phase is self.phase and self.model in (None, entry.model) and self.dtype in (None, entry.dtype)

    def __str__(self) -> str:
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        what = " ".join(filter(None, (self.model, self.dtype, self.phase)))
        return f"{what} median miss {self.median_miss}, worst {self.worst_miss}, {rows}"


def accuracy(ledger: Sequence[Entry]) -> list[Accuracy]:
    """Of each phase that the ledger has."""
    return [_accuracy(None, None, phase, those) for phase in Phase if (those := _of_phase(ledger, phase))]


def accuracy_by_model(ledger: Sequence[Entry]) -> list[Accuracy]:
    """Of each model, dtype and phase that the ledger has, the worst miss first."""
    groups: dict[tuple[str, str, Phase], list[Entry]] = {}
    for entry in ledger:
        groups.setdefault((entry.model, entry.dtype, entry.phase), []).append(entry)
    found = [_accuracy(model, dtype, phase, those) for (model, dtype, phase), those in groups.items()]
    return sorted(found, key=lambda group: -group.worst_miss.value)


def worst_first(ledger: Iterable[Entry]) -> list[Entry]:
    """The entries by their misses."""
    return sorted(ledger, key=lambda entry: -entry.miss)


def quoted(accuracies: Sequence[Accuracy]) -> str:
    """What stands wherever a prediction is: how good the box's have been so far, in one line."""
    if not accuracies:
        return NONE_MEASURED
    return f"predictions so far: {'; '.join(map(str, accuracies))}"


def quoted_briefly(accuracies: Sequence[Accuracy]) -> str:
    """The same in 80 columns."""
    if len(accuracies) <= 1:
        return quoted(accuracies)
    each = (f"{of.phase} {of.median_miss} (worst {of.worst_miss})" for of in accuracies)
    return f"median miss so far: {', '.join(each)}"


def _of_phase(ledger: Iterable[Entry], phase: Phase) -> list[Entry]:
    return [entry for entry in ledger if entry.phase is phase]


def _accuracy(model: str | None, dtype: str | None, phase: Phase, those: Sequence[Entry]) -> Accuracy:
    misses = [entry.miss for entry in those]
    inside = sum(entry.inside for entry in those) / len(those)
    return Accuracy(
        model,
        dtype,
        phase,
        len(those),
        arithmetic("median miss", median(misses), Unit.SHARE, formula="median |predicted / measured − 1|"),
        arithmetic("worst miss", max(misses), Unit.SHARE, formula="largest |predicted / measured − 1|"),
        arithmetic(f"share inside the interval that is to hold {INTERVAL:.0%}", inside, Unit.SHARE),
    )


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
