"""Batch: the live batch sweep, and which limit binds at every batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.widgets import Input

from workbench.experiments.events import PointFloor
from workbench.experiments.settings import AUTO_REPEATS, BatchSettings, RunSettings
from workbench.quantity import Quantity
from workbench.runs.beside import extrapolated_words, step_words, sum_words
from workbench.runs.doubling import context_words, doublings
from workbench.runs.row import BATCH, Row
from workbench.tracks import Track
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.run_pane import Charts, RunPane
from workbench.ui.widgets.chart import MOST_SERIES, Chart, Drawn, Legend, Markers, Picture, Series
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.field import field, whole_number, whole_numbers
from workbench.ui.widgets.sweep_table import SweepTable

SAME, MIXED = "same", "mixed"
NOTHING_YET = "no run yet · r runs this batch sweep on the Setup pane's model"


class BatchPane(RunPane):
    """Its own fields, the table with its notes, and the charts."""

    CHARTS_FROM_LINES = 27

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
            yield from field("repeats", Entry(str(first.repeats), id="batch-repeats"))
            yield from field("lengths", Choice((SAME, MIXED), SAME, id="batch-lengths"))
        yield from self.compose_progress()
        with Horizontal(classes="run-body"):
            with Vertical(classes="run-left"):
                yield from self.compose_table()
            with Charts(classes="charts"):
                yield Legend(id="batch-legend")
                with Container(id="batch-charts"):
                    yield Chart("tok/s of all together", self.may_draw, id="total-chart", has_legend=False)
                    yield Chart("tok/s of each sequence", self.may_draw, id="each-chart", has_legend=False)

    def settings(self, setup: RunSettings) -> BatchSettings:
        """The batch sweep of the fields, on the model and device of the Setup pane.

        Raises SettingsError where a field holds no number.
        """
        repeats = self._text("repeats")
        return BatchSettings(
            model=setup.model,
            weights=setup.weights,
            dtype=setup.dtype,
            device=setup.device,
            threads=setup.threads,
            variant=setup.variant,
            track=setup.track,
            engine=setup.engine,
            endpoint=setup.endpoint,
            llama_cpp=setup.llama_cpp,
            contexts=whole_numbers(self._text("contexts"), "contexts"),
            batches=whole_numbers(self._text("batches"), "batches"),
            steps=whole_number(self._text("steps"), "steps"),
            repeats=AUTO_REPEATS if repeats == AUTO_REPEATS else whole_number(repeats, "repeats"),
            mixed=self.query_one("#batch-lengths", Choice).value == MIXED,
        )

    def follow(self, name: str, tracks: Mapping[str, Track]) -> None:
        """Fill the fields as a track that is chosen anew has them."""
        before, self._track = self._track, name
        track = tracks.get(name)
        if track is None or before in (None, name):
            return
        self._fill(track.batch.contexts, track.batch.batches, track.batch.steps, track.batch.repeats)

    def take_fields(self, settings: RunSettings) -> None:
        """Fill the fields with what the run shown was asked, so that r measures the same points again."""
        if isinstance(settings, BatchSettings):
            self._fill(settings.contexts, settings.batches, settings.steps, settings.repeats)
            self.query_one("#batch-lengths", Choice).value = MIXED if settings.mixed else SAME

    def _fill(self, contexts: Sequence[int], batches: Sequence[int], steps: int, repeats: int | str) -> None:
        for name, text in (
            ("contexts", ",".join(map(str, contexts))),
            ("batches", ",".join(map(str, batches))),
            ("steps", str(steps)),
            ("repeats", str(repeats)),
        ):
            self.query_one(f"#batch-{name}", Entry).value = text

    def draw(self, live: LiveRun, rows: Sequence[Row]) -> None:
        """Rates over the batch, for each context: its ceiling, measurement, prediction, and where doubling stops."""
        floors = live.predicted.floors if live.predicted else ()
        ticks = tuple(sorted({*(float(floor.batch) for floor in floors), *(float(row.batch) for row in rows)}))
        stops = {doubling.context: doubling.batch for doubling in doublings(rows) if doubling.stops}
        contexts = tuple(
            dict.fromkeys([*(floor.prompt_tokens for floor in floors), *(row.prompt_tokens for row in rows)])
        )
        each: list[Series] = []
        together: list[Series] = []
        for context in contexts[:MOST_SERIES]:
            of_context = [floor for floor in floors if floor.prompt_tokens == context]
            measured = [row for row in rows if row.prompt_tokens == context]
            series = list(_series(context, of_context, measured, self.faster(live), stops.get(context)))
            each += series
            together += [replace(one, points=tuple((b, b * rate) for b, rate in one.points)) for one in series]
        self.query_one("#total-chart", Chart).show(Picture(ticks, tuple(together)))
        self.query_one("#each-chart", Chart).show(Picture(ticks, tuple(each)))
        predicted = ", predicted" if any(one.drawn is Drawn.PREDICTED for one in each) else ""
        left_out = f" (the first {MOST_SERIES} contexts)" if len(contexts) > MOST_SERIES else ""
        self.query_one(Legend).show(tuple(each), f"ceiling, measured{predicted}{left_out}:")

    def use_markers(self, markers: Markers) -> None:
        """Draw the charts, and write their legend, with these characters."""
        super().use_markers(markers)
        self.query_one(Legend).use(markers)

    def beside(self, row: Row) -> tuple[str, str]:
        """Bound and prediction by name, experts counted and expected; then what the step reads, does and holds."""
        return " · ".join(filter(None, (extrapolated_words(row), step_words(row)))), sum_words(row)

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


def _series(
    context: int, floors: Sequence[PointFloor], rows: Sequence[Row], faster: float, stops: int | None
) -> Iterator[Series]:
    """Rates of each sequence of one context over the batch; the ceiling rises with a `faster` bandwidth.

    The upright stands where doubling `stops` paying.
    """
    name = context_words(context)
    measured = {float(row.batch): row.decode_tokens_per_s for row in rows if row.decode_tokens_per_s is not None}
    predicted = {float(f.batch): 1 / f.predicted_step.value for f in floors if f.predicted_step is not None}
    ceiling = {float(f.batch): faster / f.tpot.value for f in floors if f.tpot.value}
    yield Series(name, Drawn.LINE, tuple(sorted(ceiling.items())))
    yield Series(name, Drawn.POINTS, tuple(measured.items()))
    if predicted:
        yield Series(name, Drawn.PREDICTED, tuple(predicted.items()))
    if stops in measured:
        yield Series("stops paying", Drawn.UPRIGHT, ((float(stops), measured[stops]),))
