"""A timer of operations whose every time is decided beforehand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.predictions.cells import UNDER, W, cells_of
from workbench.experiments.settings import RunSettings
from workbench.hardware.timings import Conditions, Timing
from workbench.models.model import Model
from workbench.predictions.passes import Pass
from workbench.runner import CancelToken
from workbench.runs.run import now


@dataclass
class FakeTimer:
    """Operations that take so many nanoseconds a unit of work, and how many passes were asked for."""

    nanoseconds: float = 1.0
    under: Conditions | None = UNDER
    taken_at: str = ""
    asked: list[Pass] = field(default_factory=list)

    def conditions(self, settings: RunSettings) -> Conditions | None:
        return self.under

    def working_bytes(self, settings: RunSettings, model: Model, of: Pass) -> int:
        return W

    def time(
        self, settings: RunSettings, model: Model, passes: Sequence[Pass], cancel: CancelToken
    ) -> Iterator[tuple[Timing, ...]]:
        for each in passes:
            cancel.check()
            self.asked.append(each)
            cells = cells_of(each, nanoseconds=self.nanoseconds, taken_at=self.taken_at or now())
            yield tuple(replace(cell, conditions=self.under or UNDER) for cell in cells)
