"""A sweep in the app: rows stream in, it stops, fails at a point, is explained and exported."""

import os
from pathlib import Path

import pytest

from tests.ui.driving import PROMPTS, SIZES, Gate, an_app, finished, message, shown, until
from workbench.runs import owner
from workbench.runs.export import csv_text
from workbench.runs.row_columns import SWEEP_TABLE
from workbench.runs.run import RunStatus
from workbench.runs.store import Store
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.chart import Chart
from workbench.ui.widgets.export_dialog import ExportDialog
from workbench.ui.widgets.strip import Strip
from workbench.ui.widgets.sweep_table import PENDING, SweepTable


def table(app: WorkbenchApp) -> SweepTable:
    return app.screen_stack[0].query_one(SweepTable)


def cells(app: WorkbenchApp, line: int) -> list[str]:
    return [str(text).lstrip("!~ ") for text in table(app).get_row_at(line)]


@pytest.mark.parametrize("size", SIZES)
async def test_r_right_after_start_measures_every_prompt(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert [cells(app, line)[0] for line in range(table(app).row_count)] == ["1", "16", "64"]
        assert cells(app, 2)[1] == "64.0"
        assert shown(app, "#progress").startswith("finished")
        assert "GB/s · C " in shown(app, "#figures")
        with Store() as store:
            assert [row.prompt_tokens for row in store.rows(store.run("last").run_id)] == [*PROMPTS]


async def test_rows_stream_in_while_the_next_point_is_measured() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        assert [row.prompt_tokens for row in table(app).rows_shown] == [1, 16]
        assert cells(app, 2)[:2] == ["64", PENDING]
        assert "point 3 of 3 · prompt 64 · repeat 1 of 2" in shown(app, "#progress")
        gate.open.set()
        await finished(pilot, app)
        assert table(app).row_count == 3


async def test_x_stops_and_keeps_the_rows() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("x")
        gate.open.set()
        await finished(pilot, app)
        assert table(app).row_count == 2
        assert "interrupted · stopped after 2 of 3" in shown(app, "#progress")
        with Store() as store:
            run = store.run("last")
            assert (run.status, run.rows) == (RunStatus.INTERRUPTED, 2)


async def test_a_failing_point_is_a_row_and_the_sweep_goes_on() -> None:
    app = an_app(failing_prompts=frozenset({16}))
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert table(app).row_count == 3
        assert cells(app, 1)[2] == "failed"
        await pilot.press("down")
        await until(pilot, lambda: "out of memory" in shown(app, "#row-note"))
        await pilot.press("enter")
        await pilot.pause()
        assert "out of memory" in message(app)


async def test_enter_explains_every_column() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        texts = []
        for _ in SWEEP_TABLE:
            await pilot.press("enter")
            await pilot.pause()
            texts.append(message(app))
            await pilot.press("escape", "right")
            await pilot.pause()
        assert "n / TTFT" in texts[2]
        assert "TTFT" in texts[2]
        assert "smollm2-135m" in texts[2]
        assert "W + k·t" in texts[7]
        assert "F / C against W / B" in texts[4]
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert "(W + k·t) / TPOT" in message(app)


async def test_the_csv_is_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert app.live is not None
        assert app.live.run is not None
        path = tmp_path / "a.csv"
        await pilot.press("e", "ctrl+u", *"a.csv", "enter")
        await pilot.pause()
        assert str(path) in message(app)
        with Store() as store:
            assert path.read_text() == csv_text(store.rows(app.live.run.run_id))


async def test_an_unwritable_csv_is_explained_and_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("e", "ctrl+u", *"no/a.csv", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ExportDialog)
        assert "can't be written" in str(app.screen.query_one("#export-problem").render())
        await pilot.press("ctrl+u", *"a.csv", "enter")
        await pilot.pause()
        assert len((tmp_path / "a.csv").read_text().splitlines()) == 3
        gate.open.set()
        await finished(pilot, app)


async def test_nothing_is_drawn_while_a_window_is_open() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        assert app.window.is_open
        chart = app.screen_stack[0].query_one("#prompt-chart", Chart)
        drawn, sampled = chart.drawn, len(app.box_watch.monitor.history)
        strip, sample = shown(app, "#strip"), app.screen.query_one(Strip)._sample
        for width in (100, 90, 80, 120):
            # The resize lays out the whole screen anew, and with it the same sample on the strip's other lines.
            await pilot.resize_terminal(width, 40)
            await pilot.pause()
            laid_out = shown(app, "#strip")
            assert app.screen.query_one(Strip)._sample is sample
            await pilot.press("1", "3")
            app._tick()
            await pilot.pause()
            assert shown(app, "#strip") == laid_out
            assert (chart.drawn, len(app.box_watch.monitor.history)) == (drawn, sampled)
        assert shown(app, "#strip") == strip
        gate.open.set()
        await finished(pilot, app)
        assert chart.drawn > drawn


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_window_shows_that_it_lives_and_that_keys_wait(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(prompt=1)
    app = an_app(gate)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        app._tick()
        assert shown(app, "#ticking") == ""
        monkeypatch.setattr(type(app.window), "open_seconds", 7.0)
        app._tick()
        assert shown(app, "#ticking") == (
            "timing 0:07 · keys wait while it times" if size[0] >= 120 else "0:07 · keys wait"
        )
        assert app.query_one("#ticking").content_size.width >= len(shown(app, "#ticking"))
        assert app.query_one("#tabs").size.width >= 62
        gate.open.set()
        await finished(pilot, app)
        assert shown(app, "#ticking") == ""


async def test_a_resize_storm_leaves_the_run_alone() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        gate.open.set()
        for step in range(30):
            await pilot.resize_terminal(60 + 5 * (step % 20), 15 + 2 * (step % 15))
        await finished(pilot, app)
        await pilot.resize_terminal(*SIZES[0])
        assert table(app).row_count == 3
        assert app.live is not None
        assert app.live.failure == ""


async def test_a_second_run_starts_afresh_and_overlaps_none() -> None:
    gate = Gate(prompt=1)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("r")
        await pilot.pause()
        assert "overlap" in message(app)
        await pilot.press("escape")
        gate.open.set()
        await finished(pilot, app)
        first = app.live
        await pilot.press("r")
        await until(pilot, lambda: app.live is not first)
        await finished(pilot, app)
        assert table(app).row_count == 3
        with Store() as store:
            assert len(store.runs()) == 2


async def test_beside_another_workbench_a_run_is_begun_only_once_that_was_told() -> None:
    app = an_app()
    other = owner._named(os.getppid())
    with Store() as store:
        store.connection.execute("INSERT INTO measuring VALUES (?, '2026-01-01T12:03:00Z')", (str(other),))
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        assert f"{owner.process_words(str(other))}, since 2026-01-01T12:03:00Z" in message(app)
        assert app.live is None
        await pilot.press("escape", "r")
        await finished(pilot, app)
        with Store() as store:
            assert all("measured too" in row.flags for row in store.rows(store.run("last").run_id))
