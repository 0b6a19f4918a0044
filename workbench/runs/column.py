"""What a column of a row means, and how the fields of a row say it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.quantity import Origin, Unit


@dataclass(frozen=True)
class Column:
    """What a column of a row means: its heading, unit, origin, and the formula over other columns.

    `in_batch` holds what of these is otherwise in a row of a batch sweep, `from_operations` what is in one whose
    predictions rest on timed operations.
    """

    name: str
    type: type
    heading: str
    meaning: str
    unit: Unit = Unit.COUNT
    origin: Origin = Origin.MEASURED
    symbol: str = ""
    formula: str = ""
    inputs: tuple[str, ...] = ()
    in_batch: Mapping[str, Any] = field(default_factory=dict)
    from_operations: Mapping[str, Any] = field(default_factory=dict)

    def in_batch_sweep(self) -> "Column":
        """The column as rows of a batch sweep have it."""
        return replace(self, **self.in_batch)

    def of_operations(self) -> "Column":
        """The column as rows have it whose predictions rest on timed operations."""
        return replace(self, **self.from_operations)


def described(heading: str, meaning: str, **about: Any) -> Mapping[str, Any]:
    """What a field says of its column."""
    return {"heading": heading, "meaning": meaning, **about}


def label(heading: str, meaning: str) -> Any:
    """A field that names what was measured."""
    return field(metadata=described(heading, meaning))


def figure(heading: str, meaning: str, **about: Any) -> Any:
    """A field that is empty where it was not measured."""
    return field(default=None, metadata=described(heading, meaning, **about))


def interval(heading: str, phase: str, end: str) -> Any:
    """An end of the interval of a measured median."""
    meaning = f"{end} end of the 95 % confidence interval of the median {phase}"
    in_step = {"meaning": f"{end} end of the 95 % confidence interval of the median step"} if phase == "TPOT" else {}
    return figure(heading, meaning, unit=Unit.MILLISECONDS, in_batch=in_step)


def predicted_end(heading: str, phase: str, end: str) -> Any:
    """An end of the interval of a prediction."""
    meaning = f"{end} end of the interval predicted to hold 80 % of the measurements of {phase}"
    return figure(f"predicted {heading}", meaning, unit=Unit.MILLISECONDS, origin=Origin.ARITHMETIC)


def foretold(phase: str) -> Mapping[str, Any]:
    """What of a prediction is otherwise where it rests on timed operations."""
    return {
        "meaning": f"the {phase} predicted before measuring",
        "formula": "Σ calls · seconds over its operations",
        "inputs": (f"predicted_{phase.lower()}_low_ms", f"predicted_{phase.lower()}_high_ms"),
    }
