"""Prefill / decode: the live sweep as a table and two charts."""

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from workbench.runs.beside import extrapolated_words, predicted_words
from workbench.runs.row import PREFILL_DECODE, Row
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.run_pane import Charts, RunPane
from workbench.ui.widgets.chart import Chart, Drawn, Picture, Series

Point = tuple[float, float]

NOTHING_YET = "no run yet · r runs the sweep of the Setup pane"


class PrefillDecodePane(RunPane):
    """The heading, the table with its notes, and the charts."""

    def __init__(self, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(PREFILL_DECODE, "", NOTHING_YET, may_draw, id=id)

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows; it is filled by `show`."""
        yield from self.compose_progress()
        with Horizontal(id="sweep-body", classes="run-body"):
            with Vertical(id="sweep-left", classes="run-left"):
                yield from self.compose_table()
            with Charts(id="charts", classes="charts"):
                yield Chart("prompt tok/s", self.may_draw, id="prompt-chart")
                yield Chart("decode tok/s", self.may_draw, id="decode-chart")

    def beside(self, row: Row) -> tuple[str, str]:
        """Of slices the intervals; what was predicted."""
        return extrapolated_words(row), predicted_words(row)

    def draw(self, live: LiveRun, rows: Sequence[Row]) -> None:
        """Rates over prompt length, beside their ceilings."""
        floors = live.predicted.floors if live.predicted else ()
        # A row of another tool may have one of the two alone.
        prompt = [(f.prompt_tokens, f.prompt_tokens / f.ttft.value) for f in floors if f.ttft.value]
        decode = [(f.prompt_tokens, self.faster(live) / f.tpot.value) for f in floors if f.tpot.value]
        prompt_predicted = [
            (f.prompt_tokens, f.prompt_tokens / f.predicted_ttft.value) for f in floors if f.predicted_ttft
        ]
        decode_predicted = [(f.prompt_tokens, 1 / f.predicted_step.value) for f in floors if f.predicted_step]
        self.query_one("#prompt-chart", Chart).show(
            _picture(
                prompt,
                prompt_predicted,
                [(r.prompt_tokens, r.prompt_tokens_per_s) for r in rows if r.prompt_tokens_per_s],
            )
        )
        self.query_one("#decode-chart", Chart).show(
            _picture(
                decode,
                decode_predicted,
                [(r.prompt_tokens, r.decode_tokens_per_s) for r in rows if r.decode_tokens_per_s],
            )
        )


def _picture(ceiling: Sequence[Point], predicted: Sequence[Point], measured: Sequence[Point]) -> Picture:
    series = (
        Series("ceiling", Drawn.LINE, tuple(sorted(ceiling))),
        Series("predicted", Drawn.PREDICTED, tuple(predicted)),
        Series("measured", Drawn.POINTS, tuple(measured)),
    )
    return Picture(
        x_ticks=tuple(sorted({x for x, _ in (*ceiling, *measured)})),
        # A run without predictions names none in its legend.
        series=tuple(one for one in series if one.points or one.drawn is not Drawn.PREDICTED),
    )
