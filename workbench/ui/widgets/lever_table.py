"""The levers of a pass on screen: those its ladder proposes, and beside each prediction what trying it did."""

from collections.abc import Iterable
from dataclasses import replace

from workbench.experiments.gap.levers import VARIANTS, levers
from workbench.experiments.settings import GapSettings
from workbench.runs.ladder import Ladder, LeverTried
from workbench.runs.ladder_record import lever_lines
from workbench.runs.measured_device import calibrated_gemv
from workbench.runs.row import Row
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.record_table import RecordTable

SHOWN = ("name", "predicted_ms", "measured_ms", "told", "ttft_ratio", "agrees")
WIDE, WHERE_WIDE = 96, ("memory",)
"""From so many columns on there is room for more."""


class LeverTable(RecordTable):
    """A line for each lever; what was tried on the same pass in an earlier run stays beside what this one tried."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.add_class("-empty")
        self._pass: GapSettings | None = None
        self._tried: dict[str, LeverTried] = {}

    def follow(self, live: LiveRun) -> None:
        """Show the levers of this run's pass."""
        ladder = live.ladder
        if ladder is None or not isinstance(live.settings, GapSettings):
            self._show(())
            return
        if (of := plain(live.settings)) != self._pass:
            self._pass, self._tried = of, {}
        proposed = {lever.name: lever for row in live.rows if row.status == "ok" for lever in _proposed(ladder, row)}
        self._tried |= {lever.name: lever for lever in ladder.levers if _was_tried(lever, proposed)}
        in_run = {lever.name: lever for lever in ladder.levers}
        self._show((proposed | in_run | self._tried).values(), ladder)

    @property
    def lever(self) -> str:
        """The lever under the cursor, empty where there is none that can be tried by itself."""
        name = "" if self.selected is None else self.selected.name
        return name if name in VARIANTS else ""

    def _show(self, shown: Iterable[LeverTried], ladder: Ladder | None = None) -> None:
        lines = [] if ladder is None else lever_lines(replace(ladder, levers=tuple(shown)))
        self.set_class(not lines, "-empty")
        self.show(lines, (*SHOWN, *(WHERE_WIDE if self.app.size.width >= WIDE else ())))


def plain(settings: GapSettings) -> GapSettings:
    """The same pass with nothing to be tried on it."""
    return replace(settings, levers=(), fastest_within=None)


def _was_tried(lever: LeverTried, proposed: dict[str, LeverTried]) -> bool:
    """Whether it was measured, or could not be: its note says more than that of the proposal."""
    before = proposed.get(lever.name)
    return lever.measured_saving_s is not None or (before is not None and lever.note != before.note)


def _proposed(ladder: Ladder, row: Row) -> tuple[LeverTried, ...]:
    def gemv(dtype: str) -> float | None:
        rate = calibrated_gemv(row.device, dtype)
        return None if rate is None else rate.value

    return tuple(lever.untried for lever in levers(ladder, row.dtype, row.threads, gemv))
