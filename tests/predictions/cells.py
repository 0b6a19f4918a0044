"""Timed operations with known seconds."""

from workbench.hardware.timings import Conditions, Operation, Timing
from workbench.predictions.passes import Pass

W = 500_000_000
UNDER = Conditions("a box", "cpu", "float32", 2, "5.24.0, torch 2.13.0")
TAKEN_AT = "2026-01-01T00:00:00Z"


def cell(
    operation: Operation, seconds: float, *, working_bytes: int = W, spread: float = 0.0, taken_at: str = TAKEN_AT
) -> Timing:
    """A cell of three passes, the outer ones `spread` away from `seconds`."""
    samples = (seconds * (1 - spread), seconds, seconds * (1 + spread))
    return Timing(operation, UNDER, working_bytes, samples, taken_at)


def cells_of(of: Pass, *, spread: float = 0.0, taken_at: str = TAKEN_AT, nanoseconds: float = 1.0) -> list[Timing]:
    """A cell of every operation of a pass, so many nanoseconds for each unit of its work."""
    return [cell(op, nanoseconds * 1e-9 * op.amount, spread=spread, taken_at=taken_at) for op in of.counts]
