"""What an experiment says as it goes; every event is frozen, and no tensor is in any of them."""

from dataclasses import dataclass

from workbench.hardware.calibration import Calibration, Cell
from workbench.hardware.timings import Timing
from workbench.predictions.prediction import PointPrediction
from workbench.quantity import Quantity
from workbench.runs.foretold import Foretold
from workbench.runs.ladder import Ladder
from workbench.runs.row import Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples


@dataclass(frozen=True)
class Started:
    """The run has a name; nothing is loaded yet."""

    run: Run


@dataclass(frozen=True)
class OthersMeasure:
    """Other processes measure on this machine as this one begins to, in words."""

    words: str


@dataclass(frozen=True)
class PointFloor:
    """One point from arithmetic, before it is measured: the least time of its prefill and of each decode step.

    Both are of all `batch` sequences together. `predicted_ttft` and `predicted_step` are from operations timed one by
    one where they were; else `predicted_step` is what to expect of a step, rather than a bound: its
    operations at the rate this box gives that many rows, None where no probe has found that. `memory_bytes` is the
    memory of the whole process.
    """

    prompt_tokens: int
    ttft: Quantity
    tpot: Quantity
    batch: int = 1
    predicted_ttft: Quantity | None = None
    predicted_step: Quantity | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Predicted:
    """What arithmetic says of every point, on the rates this box has just shown."""

    floors: tuple[PointFloor, ...]
    read_rate: Quantity
    product_rate: Quantity
    resident_bytes: int


@dataclass(frozen=True)
class Progress:
    """Where the run is; the next one replaces it. `point` counts from 1, 0 before the first."""

    stage: str
    point: int = 0
    points: int = 0
    repeat: int = 0
    repeats: int = 0
    prompt_tokens: int | None = None
    left_s: float | None = None
    batch: int = 1


@dataclass(frozen=True)
class RowMeasured:
    """A point measured, with every sample behind it."""

    row: Row
    samples: Samples


@dataclass(frozen=True)
class PointFailed:
    """A point that could not be measured: a row that says why, and the sweep goes on."""

    row: Row
    samples: Samples
    reason: str


@dataclass(frozen=True)
class Finished:
    """The run is over; `figures` are what its rows say together, `note` why it ended early.

    `memory` says what the process held before and after its model was freed; empty where none was loaded.
    """

    run: Run
    status: RunStatus
    figures: tuple[Quantity, ...] = ()
    note: str = ""
    memory: str = ""


@dataclass(frozen=True)
class CellMeasured:
    """One cell of a probe's grid, before it is judged against the others."""

    cell: Cell


@dataclass(frozen=True)
class Calibrated:
    """What a probe found, whole or as far as it came."""

    calibration: Calibration


@dataclass(frozen=True)
class LadderMeasured:
    """The ladder of a run's pass as its rounds show it so far; the next one replaces it."""

    run_id: str
    ladder: Ladder


@dataclass(frozen=True)
class OperationsTimed:
    """Operations of a pass timed one by one, from which times are predicted."""

    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class PointsForetold:
    """What is predicted of each point of a run, before anything of it is measured; of no run where its name is empty.

    `figures` say what each rests on, in the same order, where they were predicted now.
    """

    run_id: str
    points: tuple[Foretold, ...]
    figures: tuple[PointPrediction, ...] = ()


Event = (
    OthersMeasure
    | Started
    | OperationsTimed
    | PointsForetold
    | Predicted
    | Progress
    | RowMeasured
    | PointFailed
    | Finished
    | CellMeasured
    | Calibrated
    | LadderMeasured
)
