"""Whether a ladder still stands for its pass, so that levers can be tried without measuring it anew."""

from datetime import UTC, datetime

from workbench.experiments.gap.gap_plan import LEAST_ROUNDS
from workbench.hardware.machine import this_machine
from workbench.runs import owner
from workbench.runs.ladder import Ladder
from workbench.runs.run import Run

FRESH_S = 600.0
"""How long a box is taken to stay as it was: what is tried is compared with passes of its own time in any case."""


def is_fresh(ladder: Ladder, run: Run, at: datetime | None = None) -> bool:
    """Whether this process measured the ladder on this machine, whole and at most FRESH_S ago."""
    if ladder.rounds < LEAST_ROUNDS or run.machine != str(this_machine()):
        return False
    if run.owner not in ("", owner.this_process()):
        return False
    try:
        age = (at or datetime.now(UTC)) - datetime.fromisoformat(ladder.measured_at)
    except ValueError:
        return False
    return age.total_seconds() <= FRESH_S
