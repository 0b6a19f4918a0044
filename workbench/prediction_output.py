"""How the command line prints predictions: a line a point, and below it how good they have been on this box."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.ceilings.memory_fit import MemoryNeed
from workbench.experiments.events import Event, OperationsTimed, PointsForetold, Progress
from workbench.output import Format, note, print_records
from workbench.predictions.age import age_words
from workbench.predictions.ledger import Accuracy, Entry, accuracy, accuracy_by_model, quoted
from workbench.predictions.prediction import Prediction
from workbench.quantity import Origin, Quantity, Unit, arithmetic, explain, format_duration
from workbench.record import clipped, headed

MODEL_WIDTH = 24
SAID_ABOVE = ("run_id", "model", "dtype", "phase")
"""What a group's table leaves to its heading, and the run, which JSON and CSV have."""


@dataclass(frozen=True)
class PredictedPoint:
    """One point: its times in ms, each with the interval that is to hold 80 % of its measurements."""

    model: str = headed("model")
    dtype: str = headed("dtype")
    prompt_tokens: int = headed("context")
    batch: int = headed("batch")
    ttft_ms: Quantity | None = headed("TTFT ms")
    ttft_low_ms: Quantity | None = headed("from")
    ttft_high_ms: Quantity | None = headed("to")
    tpot_ms: Quantity | None = headed("TPOT ms")
    tpot_low_ms: Quantity | None = headed("from")
    tpot_high_ms: Quantity | None = headed("to")
    timed: Quantity | None = headed("timed")
    cache_bytes: Quantity | None = headed("cache")
    beside_bytes: Quantity | None = headed("besides")
    resident_bytes: Quantity | None = headed("peak memory")


def predicted_points(
    model: str, dtype: str, event: PointsForetold, memory: Sequence[MemoryNeed]
) -> list[PredictedPoint]:
    """The lines of what was foretold, and the memory of each point: its cache, what is neither, and its peak."""
    lines = []
    for kept, figures, need in zip(event.points, event.figures, memory, strict=True):
        tpot = figures.tpot
        timed = None
        if tpot is not None:
            timed = arithmetic("share of the time from cells of its own", tpot.timed, Unit.SHARE)
        lines.append(
            PredictedPoint(
                model,
                dtype,
                kept.prompt_tokens,
                kept.batch,
                *_milliseconds(figures.ttft),
                *_milliseconds(tpot),
                timed,
                *_memory(need),
            )
        )
    return lines


def _memory(need: MemoryNeed) -> tuple[Quantity, Quantity, Quantity]:
    """The cache that the last step reads, what is held beside weights and cache, and all of it at the peak."""
    weights = arithmetic("weights", need.weights, Unit.BYTES, "W")
    cache = arithmetic("cache that the last step reads", need.cache, Unit.BYTES)
    parts = (
        arithmetic("activations of a pass", need.activations, Unit.BYTES),
        arithmetic("copies of the cache and holes of the heap", need.appended, Unit.BYTES),
        arithmetic("Python, torch and transformers", need.engine, Unit.BYTES),
    )
    beside = arithmetic("besides", need.working + need.engine, Unit.BYTES, inputs=parts)
    what, formula = "memory of the process at its peak", "weights + cache + besides"
    peak = arithmetic(what, need.total, Unit.BYTES, formula=formula, inputs=(weights, cache, beside))
    return cache, beside, peak


def _milliseconds(of: Prediction | None) -> tuple[Quantity | None, Quantity | None, Quantity | None]:
    if of is None:
        return None, None, None

    def ms(name: str, seconds: float) -> Quantity:
        return Quantity(name, seconds * 1e3, Unit.MILLISECONDS, Origin.ARITHMETIC, inputs=(of.time,))

    return ms(of.time.name, of.seconds), ms("low end of its interval", of.low_s), ms("high end", of.high_s)


class PredictionPrinter:
    """Prints progress to standard error as it comes, and keeps what was foretold."""

    def __init__(self) -> None:
        self.foretold: PointsForetold | None = None
        self._timed = 0

    def show(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Progress():
                note(event.stage if event.left_s is None else f"{event.stage}, {format_duration(event.left_s)} left")
            case OperationsTimed(timings):
                self._timed += len(timings)
            case PointsForetold():
                self.foretold = event
                if self._timed:
                    note(f"timed {self._timed} operations")

    def end(self, points: list[PredictedPoint], accuracies: list[Accuracy], chosen: Format) -> None:
        """Print the lines, what the first of them rests on, and how good predictions have been."""
        if chosen is Format.TABLE and points:
            print(f"{points[0].model}, {points[0].dtype}")
        print_records(points, chosen, without=("model", "dtype"))
        if chosen is Format.TABLE and self.foretold is not None:
            for figures in self.foretold.figures[:1]:
                for each in (figures.tpot, figures.ttft):
                    if each is not None:
                        print("\n" + "\n".join(explain(each.time)))
        note(quoted(accuracies))
        if self.foretold is not None and (age := age_words(self.foretold.figures)):
            note(f"{age}; --renew times them again")


def print_ledger(ledger: Sequence[Entry], chosen: Format) -> None:
    """Entries as they come; as a table by model, dtype and phase, those with the worst miss first."""
    if chosen is not Format.TABLE:
        print_records(ledger, chosen)
    else:
        groups = accuracy_by_model(ledger)
        print_records([replace(group, model=clipped(group.model or "", MODEL_WIDTH)) for group in groups], chosen)
        for group in groups:
            print(f"\n{group.model}, {group.dtype}, {group.phase}: ms, the worst miss first")
            print_records([entry for entry in ledger if group.of(entry)], chosen, without=SAID_ABOVE)
    note(quoted(accuracy(ledger)))
