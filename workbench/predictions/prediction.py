"""The time of a pass as the sum of its operations, each as long as this box took for it, and how sure that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist, median

from workbench.hardware.load import BUSY_SHARE
from workbench.hardware.timings import FRAMEWORK, Estimate, Operation, Table, Task, Timing
from workbench.predictions.passes import Pass
from workbench.quantity import Origin, Quantity, Unit, arithmetic

INTERVAL = 0.8
"""The share of measurements that an interval is to hold."""
HALF_WIDTHS = NormalDist().inv_cdf(0.5 + INTERVAL / 2)
UNKNOWN_SPREAD = 0.06
"""Standard deviation of the logarithm of measured over predicted, until a ledger of other models tells: 0.055 to 0.063
over 135 points of four models on the two-core box, tests/benchmarks/predictions.py."""
QUARTILE = NormalDist().inv_cdf(0.75)
"""The median distance from the median, in standard deviations of a normal distribution."""
BETWEEN_CELLS = 0.25
"""What is added to it for the share of the time that no cell was timed for but those around it."""

WORDS: Mapping[Task, str] = {
    Task.PRODUCT: "matrix products",
    Task.ATTEND: "attention, and appending to the cache",
    Task.NORM: "norms",
    Task.ROTATE: "rotary positions",
    Task.GATE: "gates",
    Task.ADD: "additions",
    Task.CHOOSE: "choosing the token",
    Task.EXPERTS: "routed experts",
    Task.LAYER: "the framework, each layer",
    Task.STEP: "the framework, each pass",
}


@dataclass(frozen=True)
class Prediction:
    """Seconds of a pass, and the ends of the interval that is to hold INTERVAL of its measurements.

    `timed` is the share of it whose operations were timed themselves; `oldest` when the first of their cells was.
    """

    time: Quantity
    low_s: float
    high_s: float
    timed: float
    oldest: str

    @property
    def seconds(self) -> float:
        """Of the pass."""
        return self.time.value


@dataclass(frozen=True)
class PointPrediction:
    """What is predicted of a point of a run: its prefill and its middle decode step, None where nothing can be."""

    ttft: Prediction | None
    tpot: Prediction | None


def predicted(of: Pass, table: Table, working_bytes: int, spread: float = UNKNOWN_SPREAD) -> Prediction | None:
    """Σ calls · seconds over the operations of a pass; None where nothing like one of them was timed.

    What the framework takes besides is left out where it was not timed. `spread` is the standard deviation of the
    logarithm of measured over predicted; the spread of the cells, what lies between cells and the share that other
    programs took while they were timed are added to it.
    """
    estimates = {operation: table.estimate(operation, working_bytes) for operation in of.counts}
    known = {operation: found for operation, found in estimates.items() if found is not None}
    if any(operation not in known and operation.task not in FRAMEWORK for operation in of.counts):
        return None
    seconds = {operation: of.counts[operation] * found.seconds for operation, found in known.items()}
    total = sum(seconds.values())
    timed = sum(seconds[operation] for operation, found in known.items() if found.timed) / total
    # Beside other programs an operation takes up to the share that they took longer, or not at all.
    load = max(_beside(found) for found in known.values())
    deviation = sqrt(spread**2 + _cells_spread(seconds, known) ** 2 + (BETWEEN_CELLS * (1 - timed)) ** 2 + load**2)
    width = exp(HALF_WIDTHS * deviation)
    cells = [cell for found in known.values() for cell in found.cells]
    oldest = min(cell.taken_at for cell in cells)
    what = "a decode step" if of.new == 1 else f"a prefill of {of.new:,} tokens"
    source = f"operations timed on this box from {oldest} on, {timed:.0%} of the time by cells of its own"
    if load:
        source += f"; beside other programs that took {load:.0%} of the cores"
    time = arithmetic(
        f"time of {what}", total, Unit.SECONDS, "t", "Σ calls · seconds", _parts(of, seconds), source=source
    )
    return Prediction(time, total / width, total * width, timed, oldest)


def _parts(of: Pass, seconds: Mapping[Operation, float]) -> tuple[Quantity, ...]:
    """The seconds of each kind of operation."""
    parts = []
    for task in dict.fromkeys(operation.task for operation in seconds):
        those = [operation for operation in seconds if operation.task is task]
        calls = sum(of.counts[operation] for operation in those)
        name = f"{WORDS[task]}, {calls:,} calls" if calls > 1 else WORDS[task]
        value = sum(seconds[operation] for operation in those)
        parts.append(Quantity(name, value, Unit.SECONDS, Origin.MEASURED, source="the operations' own passes"))
    return tuple(parts)


def _beside(found: Estimate) -> float:
    """The largest share of all cores that other programs took while its cells were timed; 0 where that is nothing."""
    load = max(cell.other_load for cell in found.cells)
    return load if load > BUSY_SHARE else 0.0


def _cells_spread(seconds: Mapping[Operation, float], known: Mapping[Operation, Estimate]) -> float:
    """Standard deviation of the logarithm of the sum, were all cells slow and fast together, as a box's minutes are."""
    total = sum(seconds.values())
    return sum(seconds[operation] * _spread(found.cells[0]) for operation, found in known.items()) / total


def _spread(cell: Timing) -> float:
    """Of a cell's passes: the median distance of their logarithms from the median's, as a standard deviation."""
    middle = log(cell.median)
    return median(abs(log(each) - middle) for each in cell.seconds) / QUARTILE
