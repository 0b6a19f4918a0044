"""Batch: the live batch sweep, and which limit binds at every batch."""

from collections.abc import Callable, Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from workbench.experiments.settings import BatchSettings, RunSettings
from workbench.quantity import Quantity
from workbench.runs.row import BATCH, Row
from workbench.tracks import Track
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.run_pane import RunPane
from workbench.ui.widgets.chart import MOST_SERIES, Chart, Drawn, Picture, Series
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.field import field, whole_number, whole_numbers
from workbench.ui.widgets.sweep_table import SweepTable

SAME, MIXED = "same", "mixed"
NOTHING_YET = "no run yet · r runs this batch sweep on the Setup pane's model"


class BatchPane(RunPane):
    """Its own fields, the table with its notes, and the charts."""

    def __init__(self, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(BATCH, "batch-", NOTHING_YET, may_draw, id=id)
        self._track: str | None = None

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows; it is filled by `show`."""
        first = BatchSettings()
        with Horizontal(classes="fields"):
            yield from field("contexts", Entry(",".join(map(str, first.contexts)), id="batch-contexts"))
            yield from field("batches", Entry(",".join(map(str, first.batches)), id="batch-batches"))
        with Horizontal(classes="fields"):
            yield from field("steps", Entry(str(first.steps), id="batch-steps"))
            yield from field("lengths", Choice((SAME, MIXED), SAME, id="batch-lengths"))
        yield from self.compose_progress()
        with Horizontal(classes="run-body"):
            with Vertical(classes="run-left"):
                yield from self.compose_table()
            with Vertical(classes="charts"):
                yield Chart("all together, tok/s; lines: ceilings", self.may_draw, id="total-chart")
                yield Chart("each sequence, tok/s; lines: ceilings", self.may_draw, id="each-chart")

    def settings(self, setup: RunSettings) -> BatchSettings:
        """The batch sweep of the fields, on the model and device of the Setup pane.

        Raises SettingsError where a field holds no number.
        """
        return BatchSettings(
            model=setup.model,
            weights=setup.weights,
            dtype=setup.dtype,
            device=setup.device,
            threads=setup.threads,
            track=setup.track,
            contexts=whole_numbers(self._text("contexts"), "contexts"),
            batches=whole_numbers(self._text("batches"), "batches"),
            steps=whole_number(self._text("steps"), "steps"),
            mixed=self.query_one("#batch-lengths", Choice).value == MIXED,
        )

    def follow(self, name: str, tracks: Mapping[str, Track]) -> None:
        """Fill the fields as a track that is chosen anew has them."""
        before, self._track = self._track, name
        track = tracks.get(name)
        if track is None or before in (None, name):
            return
        for field_name, text in (
            ("contexts", ",".join(map(str, track.batch.contexts))),
            ("batches", ",".join(map(str, track.batch.batches))),
            ("steps", str(track.batch.steps)),
        ):
            self.query_one(f"#batch-{field_name}", Entry).value = text

    def draw(self, live: LiveRun, rows: Sequence[Row]) -> None:
        """Rates over the batch, a series for each context, beside their ceilings."""
        contexts = list(dict.fromkeys(f.prompt_tokens for f in live.predicted.floors)) if live.predicted else []
        together, each = [], []
        for context in contexts[:MOST_SERIES]:
            floors = [f for f in live.predicted.floors if f.prompt_tokens == context] if live.predicted else []
            least = [(f.batch, self.faster(live) / f.tpot.value) for f in floors]
            measured = [row for row in rows if row.prompt_tokens == context]
            name = f"{context:,} tokens"
            together += [
                Series("", Drawn.LINE, tuple((b, b * rate) for b, rate in least)),
                Series(name, Drawn.POINTS, _points(measured, lambda row: row.total_tokens_per_s)),
            ]
            each += [
                Series("", Drawn.LINE, tuple(least)),
                Series(name, Drawn.POINTS, _points(measured, lambda row: row.decode_tokens_per_s)),
            ]
        ticks = tuple(sorted({float(f.batch) for f in live.predicted.floors})) if live.predicted else ()
        self.query_one("#total-chart", Chart).show(Picture(ticks, tuple(together)))
        self.query_one("#each-chart", Chart).show(Picture(ticks, tuple(each)))

    def figures_text(self, figures: Sequence[Quantity]) -> str:
        """Where doubling stops paying, and why, in sentences."""
        return "\n".join(figure.name for figure in figures)

    @on(Entry.Kept)
    def action_to_table(self) -> None:
        """Leave the field."""
        self.query_one(SweepTable).focus()

    @on(Input.Changed)
    @on(Choice.Changed)
    def _keep_to_itself(self, event: Input.Changed | Choice.Changed) -> None:
        # These fields say nothing to the Setup pane.
        event.stop()

    def _text(self, name: str) -> str:
        return self.query_one(f"#batch-{name}", Entry).value.strip()


def _points(rows: Sequence[Row], rate: Callable[[Row], float | None]) -> tuple[tuple[float, float], ...]:
    return tuple((float(row.batch), value) for row in rows if (value := rate(row)) is not None)
