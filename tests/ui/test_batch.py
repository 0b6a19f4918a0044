"""The batch sweep in the app: its fields, its rows and charts, what stops doubling, and what is refused or failed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.fake_grid import a_calibration, a_cell, a_product
from tests.fakes import FakeModel, fake_load
from tests.ui.driving import SIZES, Gate, finished, message, shown, until
from workbench.engines.engine import BatchTiming, PointError
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import SweepSettings
from workbench.hardware.machine import this_machine
from workbench.runner import CancelToken
from workbench.runs.export import csv_text
from workbench.runs.row_columns import BATCH_TABLE
from workbench.runs.run import RunStatus
from workbench.runs.store import Store
from workbench.ui.app import WorkbenchApp
from workbench.ui.panes.run_pane import Charts
from workbench.ui.widgets.chart import ASCII, DOTS, Chart, Drawn, Picture, Series, legend
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.sweep_table import PENDING, SweepTable

STEP_MS = {
    2: {1: 88.8, 2: 76.4, 4: 85.3, 8: 131.6, 16: 166.5, 32: 235.1},
    256: {1: 88.5, 2: 92.4, 4: 104.1, 8: 174.8, 16: 206.3, 32: 433.5},
}
"""Steps of the first text, by context and batch."""
BATCHES = tuple(STEP_MS[2])


class TextModel(FakeModel):
    """Takes the text's steps; twice the longest of them for what it has none of."""

    def batch(self, lengths: Any, steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        timing = super().batch(lengths, steps, seed, cancel)
        step_ms = STEP_MS.get(lengths[0], {}).get(len(lengths), 2 * STEP_MS[256][32])
        return BatchTiming(timing.prefill_s, (step_ms / 1e3,) * steps, timing.experts_touched)


def a_batch_app(
    on_batch: Callable[[int], None] = lambda batch: None, model: str = "qwen3-0.6b", **about: Any
) -> WorkbenchApp:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        return TextModel(made.model, made.labels, on_request=on_batch, **about)

    return WorkbenchApp(SweepSettings(model=model, device="cpu"), load)


def table(app: WorkbenchApp) -> SweepTable:
    return app.screen_stack[0].query_one("#batch-sweep-table", SweepTable)


def cells(app: WorkbenchApp, line: int) -> list[str]:
    return [str(text).lstrip("!~ ") for text in table(app).get_row_at(line)]


def picture(app: WorkbenchApp, name: str = "total") -> Picture:
    return app.screen_stack[0].query_one(f"#{name}-chart", Chart)._picture


def of_kind(app: WorkbenchApp, drawn: Drawn) -> list[Series]:
    return [series for series in picture(app).series if series.drawn is drawn]


def set_field(app: WorkbenchApp, name: str, text: str) -> None:
    app.screen_stack[0].query_one(f"#batch-{name}", Entry).value = text


async def run(pilot: Pilot[Any], app: WorkbenchApp, **fields: str) -> None:
    """The sweep of the fields, to its end."""
    await pilot.press("4")
    for name, text in fields.items():
        set_field(app, name, text)
    await pilot.press("r")
    await finished(pilot, app)


def keep_probe() -> None:
    """A probe of this machine: few rows get little of C, more of them more."""
    products = (a_product(rate, rows) for rows, rate in ((1, 12), (4, 50), (8, 75), (16, 110), (32, 170)))
    with Store() as store:
        store.add_calibration(replace(a_calibration(a_cell(), *products), machine=str(this_machine()), device="cpu"))


@pytest.mark.parametrize("size", SIZES)
async def test_the_texts_run_parts_its_curves_and_names_both_causes(size: tuple[int, int]) -> None:
    keep_probe()
    app = a_batch_app()
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
        points = [(context, batch) for context in STEP_MS for batch in BATCHES]
        assert [(row.prompt_tokens, row.batch) for row in table(app).rows_shown] == points
        assert cells(app, 5)[:3] == ["2", "32", "235.1"]
        assert cells(app, 5)[4] == "136.1"
        shorter, longer = shown(app, "#batch-figures").splitlines()
        assert shorter.startswith("2 tokens each: doubling pays to batch 32; arithmetic lengthens the step: ")
        assert longer.startswith("256 tokens each: past batch 16 doubling stops paying, because of cache reads: ")
        assert [len(series.points) for series in of_kind(app, Drawn.POINTS)] == [6, 6]
        assert shown(app, "#batch-progress").startswith("finished")
        width = table(app).size.width
        assert sum(column.get_render_width(table(app)) for column in table(app).ordered_columns) <= width


async def test_charts_have_for_each_context_its_ceiling_measurement_and_prediction() -> None:
    keep_probe()
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app)
        assert picture(app).x_ticks == BATCHES
        for drawn in (Drawn.LINE, Drawn.POINTS, Drawn.PREDICTED):
            assert [series.label for series in of_kind(app, drawn)] == ["2 tokens", "256 tokens"]
            assert [[x for x, _ in series.points] for series in of_kind(app, drawn)] == [[*BATCHES]] * 2
        ceilings, predictions = of_kind(app, Drawn.LINE), of_kind(app, Drawn.PREDICTED)
        rows = {(row.prompt_tokens, row.batch): row for row in table(app).rows_shown}
        for t, ceiling, predicted in zip(STEP_MS, ceilings, predictions, strict=True):
            for (b, least), (_, expected) in zip(ceiling.points, predicted.points, strict=True):
                row = rows[t, int(b)]
                assert expected == pytest.approx(1e3 * b / (row.predicted_tpot_ms or 0), rel=1e-6)
                assert least >= expected * (1 - 1e-9)
        assert shown(app, "#batch-legend").startswith("ceiling, measured, predicted:")
        predicted_column = BATCH_TABLE.index("predicted_tpot_ms")
        assert cells(app, 5)[predicted_column] == "224.7"


async def test_without_a_probe_nothing_is_predicted_and_the_row_says_how_to() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app)
        assert not of_kind(app, Drawn.PREDICTED)
        assert shown(app, "#batch-legend").startswith("ceiling, measured:")
        await until(pilot, lambda: "not predicted: p probes" in shown(app, "#batch-row-note"))


async def test_where_doubling_stops_paying_an_upright_stands_under_that_contexts_point() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app)
        for name, top in (("total", 16 / 0.2063), ("each", 1 / 0.2063)):
            uprights = [series for series in picture(app, name).series if series.drawn is Drawn.UPRIGHT]
            ((at, height),) = [point for series in uprights for point in series.points]
            assert (at, height) == pytest.approx((16.0, top))
        assert "│ stops paying" in shown(app, "#batch-legend")
        lines = app.screen.query_one("#total-chart", Chart).render().plain.splitlines()
        assert sum("│" in line[6:] for line in lines) >= 3
        app.action_markers()
        assert "| stops paying" in shown(app, "#batch-legend")


def test_series_of_one_name_share_their_place_in_the_legend() -> None:
    series = tuple(
        Series(name, drawn, ()) for name in ("a", "b") for drawn in (Drawn.LINE, Drawn.POINTS, Drawn.PREDICTED)
    )
    stops = Series("stops", Drawn.UPRIGHT, ())
    assert legend((*series, stops, stops), DOTS) == ["··●+ a", "--○x b", "│ stops"]
    for markers in (DOTS, ASCII):
        kinds = (markers.lines, markers.points, markers.predicted, markers.upright)
        assert len(set("".join(kinds))) == sum(len(kind) for kind in kinds)


@pytest.mark.parametrize("size", SIZES)
async def test_v_gives_the_charts_the_pane_and_takes_it_back(size: tuple[int, int]) -> None:
    app = a_batch_app()
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
        chart = app.screen.query_one("#each-chart", Chart)
        small = chart.size.height
        await pilot.press("v")
        await pilot.pause()
        assert app.screen.query_one("#batch Charts", Charts).has_focus
        assert not table(app).is_on_screen
        assert chart.size.height > small or chart.size.width > 60
        await pilot.press("4", "v")
        await pilot.pause()
        assert table(app).has_focus
        await pilot.press("v", "3", "4")
        await pilot.pause()
        assert table(app).has_focus
        assert table(app).is_on_screen


async def test_a_pane_left_and_opened_before_a_repaint_opens_on_its_table() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        await pilot.press("v")
        app.action_pane("prefill_decode")
        app.action_pane("batch")
        await pilot.pause()
        assert table(app).has_focus
        assert table(app).is_on_screen


@pytest.mark.parametrize(("lines", "beside"), [(24, False), (31, False), (32, True), (40, True)])
async def test_charts_under_the_table_have_a_plot_or_are_left_to_v(lines: int, beside: bool) -> None:
    app = a_batch_app()
    async with app.run_test(size=(80, lines)) as pilot:
        await run(pilot, app)
        chart = app.screen.query_one("#each-chart", Chart)
        assert chart.is_on_screen is beside
        assert chart.size.height >= 6 or not beside
        await pilot.press("v")
        await pilot.pause()
        assert chart.is_on_screen
        assert chart.size.height >= 6


async def test_rows_stream_in_while_the_next_point_is_measured() -> None:
    gate = Gate(prompt=8)
    app = a_batch_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("4", "r")
        await until(pilot, gate.reached.is_set)
        assert [row.batch for row in table(app).rows_shown] == [1, 2, 4]
        assert cells(app, 3)[:3] == ["2", "8", PENDING]
        assert "point 4 of 12 · context 2, batch 8" in shown(app, "#batch-progress")
        assert [len(series.points) for series in of_kind(app, Drawn.POINTS)] == [3, 0]
        gate.open.set()
        await finished(pilot, app)
        assert table(app).row_count == 12


@pytest.mark.parametrize(("batch", "kept"), [(1, 0), (8, 3)])
async def test_x_keeps_the_rows_and_says_what_they_show(batch: int, kept: int) -> None:
    gate = Gate(prompt=batch)
    app = a_batch_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("4", "r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("x")
        gate.open.set()
        await finished(pilot, app)
        assert table(app).row_count == kept
        assert "interrupted · " in shown(app, "#batch-progress")
        assert bool(shown(app, "#batch-figures")) == (kept > 1)
        with Store() as store:
            stored = store.run("last")
            assert (stored.status, stored.rows) == (RunStatus.INTERRUPTED, kept)


async def test_a_batch_far_past_memory_is_a_refused_row_and_the_sweep_goes_on() -> None:
    app = a_batch_app(free=2_000_000_000)
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app, contexts="256,2", batches="1,100000")
        assert [row.status.partition(":")[0] for row in table(app).rows_shown] == ["ok", "refused", "ok", "refused"]
        assert "refused" in cells(app, 1)
        assert cells(app, 1)[-1] == "memory"
        await pilot.press("down")
        await until(pilot, lambda: "refused: needs" in shown(app, "#batch-row-note"))
        await pilot.press("enter")
        await pilot.pause()
        assert "the largest batch that fits is" in message(app)
        assert "batch 100,000" in message(app)
        await pilot.press("escape")
        assert all("because of memory: batch 100,000 does not fit" in line
                   for line in shown(app, "#batch-figures").splitlines())  # fmt: skip


async def test_a_batch_that_dies_of_memory_is_a_failed_row() -> None:
    app = a_batch_app(failing_batches=frozenset({4}))
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        assert table(app).row_count == 12
        assert "failed" in cells(app, 2)
        await pilot.press("down", "down")
        await until(pilot, lambda: "out of memory" in shown(app, "#batch-row-note"))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("contexts", "2,abc", "contexts holds 'abc', which is not a whole number."),
        ("contexts", "", "No contexts were given"),
        ("contexts", "0", "A context is 0"),
        ("contexts", "99999999", "longer than the context of qwen3-0.6b"),
        ("batches", "1,2.5", "batches holds '2.5'"),
        ("batches", "-1", "A batch is -1"),
        ("batches", "1,1000000000000000", "1,000,000,000,000,000; a step of more than 1,000,000,000 sequences"),
        ("contexts", "9" * 5000, "contexts holds '" + "9" * 40 + "…', which is not a whole number."),
        ("batches", ",", "No batches were given"),
        ("steps", "0", "number of steps is 0"),
        ("steps", "", "steps holds '', which is not a whole number."),
    ],
)
async def test_a_wrong_field_is_told_in_a_sentence_and_nothing_runs(name: str, text: str, sentence: str) -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("4")
        set_field(app, name, text)
        await pilot.press("r")
        await until(pilot, lambda: len(app.screen_stack) > 1 and not app.runner.busy)
        assert sentence in message(app)
        with Store() as store:
            assert not store.runs()


async def test_enter_explains_every_cell_and_the_sentences() -> None:
    keep_probe()
    app = a_batch_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        texts = {}
        for name in BATCH_TABLE:
            await pilot.press("enter")
            await pilot.pause()
            texts[name] = message(app)
            await pilot.press("escape", "right")
            await pilot.pause()
        assert "row of context 2, batch 1" in texts["step_ms"]
        assert "median of 9 steps" in texts["step_ms"]
        assert "b / step" in texts["total_tokens_per_s"]
        assert "max((W + b·k·t) / B, F / C_b)" in texts["predicted_tpot_ms"]
        assert "predicted step" in texts["predicted_tpot_ms"]
        assert "W + b·k·t" in texts["bytes_per_step"]
        assert "calculated limit" in texts["bound_by"]
        assert "how much longer the measured step grew" in texts["bound_by"]
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert "what it grew by with the shortest context" in message(app)


async def test_b_shows_the_ceilings_against_the_probe_in_table_and_charts() -> None:
    keep_probe()
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app)
        before = of_kind(app, Drawn.LINE)[0].points
        share = BATCH_TABLE.index("ceiling_share")
        assert "ceiling by this minute, b changes it" in shown(app, "#batch-progress")
        await pilot.press("b")
        await pilot.pause()
        assert "ceiling by the probe" in shown(app, "#batch-progress")
        row = table(app).rows_shown[0]
        assert row.ceiling_read_gb_per_s == row.calibrated_gb_per_s
        assert cells(app, 0)[share] == f"{(row.ceiling_share or 0) * 100:.0f} %"
        ratio = (row.calibrated_gb_per_s or 0) / (row.read_gb_per_s or 1)
        after = of_kind(app, Drawn.LINE)[0].points
        assert [y for _, y in after] == pytest.approx([ratio * y for _, y in before])


async def test_the_csv_is_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app, batches="1,2")
        assert app.live is not None
        assert app.live.run is not None
        await pilot.press("e", "ctrl+u", *"a.csv", "enter")
        await pilot.pause()
        with Store() as store:
            assert (tmp_path / "a.csv").read_text() == csv_text(store.rows(app.live.run.run_id))


async def test_experts_counted_stand_beside_those_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.experiments import batch_plan

    monkeypatch.setattr(batch_plan, "available_bytes", lambda: 1 << 40)
    monkeypatch.setattr("workbench.experiments.plan.available_bytes", lambda: 1 << 40)
    app = a_batch_app(model="qwen3-30b-a3b")
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app, batches="1,4")
        await pilot.press("down")
        await until(pilot, lambda: "experts read 68.0, expected 29.1" in shown(app, "#batch-row-note"))


@pytest.mark.parametrize(
    ("contexts", "batches", "points"),
    [
        ("2", "1", 1),
        ("256,2", "32,8,1", 6),
        ("2,2", "4,4,4", 1),
        ("1,2,3,4,5,6", "1,2", 12),
        ("2", "3,7", 2),
    ],
)
async def test_odd_lists_run_to_their_end(contexts: str, batches: str, points: int) -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app, contexts=contexts, batches=batches)
        assert table(app).row_count == points
        assert app.live is not None
        assert app.live.failure == ""
        xs = [[x for x, _ in series.points] for series in of_kind(app, Drawn.LINE)]
        assert all(x == sorted(set(x)) for x in xs)
        await pilot.press("v", "v", "b", "enter")


async def test_more_contexts_than_a_chart_tells_apart_are_said() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app, contexts="1,2,3,4,5,6", batches="1,2")
        assert len(of_kind(app, Drawn.LINE)) == 4
        assert "(the first 4 contexts)" in shown(app, "#batch-legend")


async def test_mixed_lengths_are_said_in_the_row() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("4")
        app.screen.query_one("#batch-lengths", Choice).value = "mixed"
        await run(pilot, app, contexts="100", batches="1,4")
        await pilot.press("down")
        await until(pilot, lambda: "50 to 150 tokens" in shown(app, "#batch-row-note"))


async def test_a_resize_storm_leaves_the_run_alone_and_nothing_is_drawn_meanwhile() -> None:
    gate = Gate(prompt=8)
    app = a_batch_app(gate)
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("4", "r")
        await until(pilot, gate.reached.is_set)
        chart = app.screen.query_one("#total-chart", Chart)
        drawn = chart.drawn
        for step in range(12):
            await pilot.resize_terminal(60 + 9 * (step % 8), 15 + 4 * (step % 7))
        await pilot.press("v", "v")
        await pilot.pause()
        assert chart.drawn == drawn
        gate.open.set()
        await finished(pilot, app)
        await pilot.resize_terminal(*SIZES[0])
        await pilot.press("v")
        await until(pilot, lambda: chart.drawn > drawn)
        assert table(app).row_count == 12
        assert app.live is not None
        assert app.live.failure == ""


async def test_an_engine_that_refuses_every_batch_leaves_rows_that_say_so() -> None:
    def refuse(batch: int) -> None:
        raise PointError("the model gives back no cache to decode from")

    app = a_batch_app(refuse)
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app, contexts="2", batches="1,2")
        assert [row.status.partition(":")[0] for row in table(app).rows_shown] == ["failed", "failed"]
        assert shown(app, "#batch-figures") == ""


async def test_each_word_of_a_row_stands_on_a_line_of_its_own() -> None:
    app = a_batch_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app, contexts="2", batches="1,2")
        assert app.live is not None
        app.live.rows[0] = replace(app.live.rows[0], flags="drifting: the one; noisy: the other")
        app.frame.batch_pane.show(app.live)
        await pilot.pause()
        lines = shown(app, "#batch-row-note").splitlines()
        assert [line[2:] for line in lines if line[1:2] == " "][:2] == ["drifting: the one", "noisy: the other"]
