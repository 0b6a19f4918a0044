"""The runs kept, one a line: arrows move, space marks, enter opens."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable

from workbench.record import clipped, written
from workbench.runs.listed import EXTRAPOLATED, ListedRun
from workbench.runs.row import BATCH, GAP, PREFILL_DECODE
from workbench.runs.run import RunStatus

MARK = "*"
MOST_MARKED = 2
KINDS = {PREFILL_DECODE: "sweep", BATCH: "batch"}
HEADINGS = ("", "started", "kind", "model", "dtype", "device", "rows", "tok/s", " status")
WIDTHS = (2, 12, 6, 0, 10, 7, 6, 8, 13)
"""Of each column; the model takes what is left."""
MODEL, ROWS, BEST = HEADINGS.index("model"), HEADINGS.index("rows"), HEADINGS.index("tok/s")
LEAST_MODEL, MOST_MODEL = 10, 40


class RunTable(DataTable[Text]):
    """Lines of runs; at most two are marked, the older mark gives way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    class MarksChanged(Message):
        """Other runs are marked."""

    class NothingSelected(Message):
        """A run was asked for where there is none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cell_padding=0, cursor_type="row", cursor_foreground_priority="renderable")
        self.runs: tuple[ListedRun, ...] = ()
        self.marked: tuple[str, ...] = ()

    def show(self, runs: Sequence[ListedRun]) -> None:
        """Show these runs; the cursor stays on the run it was on, and marks on those still there."""
        before = self.selected
        self.runs = tuple(runs)
        names = [run.run_id for run in runs]
        self.marked = tuple(name for name in self.marked if name in names)
        self._fill()
        if before is not None and before.run_id in names:
            self.move_cursor(row=names.index(before.run_id))

    @property
    def selected(self) -> ListedRun | None:
        """The run under the cursor."""
        place = self.cursor_coordinate.row
        return self.runs[place] if place < len(self.runs) else None

    @property
    def resumable(self) -> bool:
        """Whether the run under the cursor lacks points that can be measured by themselves, and nothing does now."""
        run = self.selected
        return run is not None and run.kind != GAP and run.status in (RunStatus.INTERRUPTED, RunStatus.FAILED)

    def action_select_cursor(self) -> None:
        """Select the run under the cursor, or say that there is none."""
        if self.selected is None:
            self.post_message(self.NothingSelected())
        else:
            super().action_select_cursor()

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take its mark away."""
        run = self.selected
        if run is None:
            self.post_message(self.NothingSelected())
            return
        if run.run_id in self.marked:
            self.marked = tuple(name for name in self.marked if name != run.run_id)
        else:
            self.marked = (*self.marked, run.run_id)[-MOST_MARKED:]
        for place, each in enumerate(self.runs):
            self.update_cell(str(place), "0", Text(MARK if each.run_id in self.marked else ""))
        self.post_message(self.MarksChanged())

    def on_resize(self) -> None:
        """Give the model what room there is."""
        self._fill()

    def _fill(self) -> None:
        place = self.cursor_coordinate.row
        self.clear(columns=True)
        room = min(MOST_MODEL, max(LEAST_MODEL, self.size.width - sum(WIDTHS) - 1))
        for column, (heading, width) in enumerate(zip(HEADINGS, WIDTHS, strict=True)):
            right = column in (ROWS, BEST)
            text = Text(heading, justify="right" if right else "left")
            self.add_column(text, width=width or room, key=str(column))
        for line, run in enumerate(self.runs):
            self.add_row(*self._cells(run, room), key=str(line))
        self.move_cursor(row=place)

    def _cells(self, run: ListedRun, room: int) -> list[Text]:
        model = run.model if len(run.model) < room else f"…{run.model[-(room - 2) :]}"
        best = "" if run.best_tokens_per_s is None else written(run.best_tokens_per_s)
        texts = [
            MARK if run.run_id in self.marked else "",
            f"{run.started_at[5:10]} {run.started_at[11:16]}",
            KINDS.get(run.kind, run.kind),
            model,
            run.dtype or "",
            run.device or "",
            f"{run.rows}/{run.points}" if run.points else f"{run.rows}",
            best,
            f" {_status(run)}",
        ]
        # A cell ends before its column does, and its cut is seen; the last has nothing behind it.
        rooms = [*(width - 1 if width else room for width in WIDTHS[:-1]), WIDTHS[-1]]
        return [
            Text(clipped(text, most), justify="right" if i in (ROWS, BEST) else "left")
            for i, (text, most) in enumerate(zip(texts, rooms, strict=True))
        ]


def _status(run: ListedRun) -> str:
    """How the run stands; of one that is complete, how many points failed, or that its figures are extrapolated."""
    if run.status == RunStatus.FINISHED and run.failed:
        return f"{run.failed:,} failed"
    return EXTRAPOLATED if run.status == RunStatus.FINISHED and run.figures == EXTRAPOLATED else run.status
