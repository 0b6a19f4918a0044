"""About how long timing the operations of passes takes, guessed before any is timed and revised as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ceilings import decode, prefill
from workbench.hardware.timings import FRAMEWORK, Timing
from workbench.models.model import Model
from workbench.predictions.passes import Pass
from workbench.quantity import Quantity

ROUNDS = 2
"""How often all passes are gone through: a box's seconds are more alike than its minutes."""
READY_S = 6.0
"""Filling the arrays that are gone over, and the narrow networks that show the framework's share."""
PASS_S = 0.25
"""A pass over the operations is made of as many layers as take about so long, LEAST_LAYERS at least."""
LEAST_LAYERS = 2
PASSES = 3
"""Passes of a round, about: one to warm up and two that are timed."""


def pass_seconds(of: Pass, model: Model, element_bytes: float, B: Quantity, C: Quantity) -> float:
    """About the seconds in which a pass's operations are timed once: a layer that is long alone, else several."""
    if of.new == 1:
        floor = decode.step_seconds(model, of.context, element_bytes, B, C, of.sequences).value
    else:
        floor = prefill.seconds(model, of.new, B, C, of.sequences).value
    head_s = model.head_parameters * element_bytes / B.value
    layer_s = max(0.0, floor - head_s) / len(of.layers)
    tried_s = 2 * layer_s
    if layer_s > PASS_S:
        return tried_s + layer_s + head_s
    return tried_s + PASSES * (max(PASS_S, LEAST_LAYERS * layer_s) + head_s)


@dataclass
class TimingPace:
    """Where the timing of passes stands, by the cells that came of it; `each_s` are the guessed seconds of each."""

    passes: Sequence[Pass]
    each_s: Sequence[float]
    place: int = 0
    """Passes timed so far, all rounds together."""

    @property
    def guessed_s(self) -> float:
        """All of it, as guessed."""
        return READY_S + ROUNDS * sum(self.each_s)

    @property
    def done_s(self) -> float:
        """What was guessed of that which is done."""
        rounds, rest = divmod(self.place, len(self.passes))
        return min(self.guessed_s, READY_S + rounds * sum(self.each_s) + sum(self.each_s[:rest]))

    def took(self, cells: Sequence[Timing]) -> None:
        """Take in the cells of a pass: that it is of the next one that has them all, others having been left out."""
        operations = {cell.operation for cell in cells}
        if all(operation.task in FRAMEWORK for operation in operations):
            return
        for ahead in range(len(self.passes)):
            if operations <= self.passes[(self.place + ahead) % len(self.passes)].counts.keys():
                self.place += ahead + 1
                return

    def left_s(self, spent_s: float) -> float:
        """Seconds until all is timed, where what is done took `spent_s`."""
        slowdown = spent_s / self.done_s if self.place else 1.0
        return slowdown * (self.guessed_s - self.done_s)

    def __str__(self) -> str:
        count = ROUNDS * len(self.passes)
        if self.place >= count:
            return "timing operations once more that took otherwise than before"
        return f"timing {self.passes[self.place % len(self.passes)]}, {self.place + 1} of {count}"
