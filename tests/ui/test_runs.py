"""The Runs pane: what is kept, and what can be done with it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.fakes import a_row
from tests.models.files import smollm2
from tests.runs.importers.recordings import RECORDED
from tests.ui.driving import SIZES, Gate, an_app, finished, message, shown, until
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.experiments.sittings import about_model
from workbench.hardware.machine import this_machine
from workbench.models.resolve import resolve
from workbench.runs import owner
from workbench.runs.importers.importing import import_file
from workbench.runs.importers.standing import Standing
from workbench.runs.row import Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store
from workbench.ui.app import WorkbenchApp
from workbench.ui.panes.batch import BatchPane
from workbench.ui.panes.prefill_decode import PrefillDecodePane
from workbench.ui.widgets.chart import Chart, Drawn
from workbench.ui.widgets.comparison import ComparisonScreen
from workbench.ui.widgets.confirm import ConfirmScreen
from workbench.ui.widgets.export_dialog import ExportDialog
from workbench.ui.widgets.import_dialog import ImportDialog
from workbench.ui.widgets.line_input import LineInput
from workbench.ui.widgets.record_table import RecordTable
from workbench.ui.widgets.run_table import RunTable
from workbench.ui.widgets.sweep_table import SweepTable

SWEEP = SweepSettings(model="smollm2-135m", prompts=(1, 16), repeats=1, new_tokens=17)
BATCH = BatchSettings(model="smollm2-135m", contexts=(2,), batches=(1, 4), steps=3)
LABELS = {"engine": "fake", "engine_version": "1", "model": "smollm2-135m", "machine": str(this_machine())}


def keep(run_id: str, kind: str, settings: SweepSettings | BatchSettings, rows: list[Row], status: RunStatus) -> None:
    run = Run(
        run_id,
        kind,
        f"2026-01-0{run_id}T00:00:00Z",
        settings.model,
        str(this_machine()),
        settings.plain(),
        about_model=about_model(resolve(settings.model)),
    )
    with Store() as store:
        store.add_run(run)
        for row in rows:
            store.add_row(row, Samples())
        store.end_run(run_id, status, "as it ended")


def row(run_id: str, prompt: int, rate: float, **changed: object) -> Row:
    about = {
        "run_id": run_id,
        "prompt_tokens": prompt,
        "context_tokens": prompt + 8,
        "ttft_ms": 10.0,
        "tpot_ms": 1e3 / rate,
        "decode_tokens_per_s": rate,
        "total_tokens_per_s": rate,
        "read_gb_per_s": 20.0,
        "peak_gflop_per_s": 100.0,
        "bytes_per_step": 500_000_000,
        "ttft_floor_ms": 5.0,
    }
    return a_row(**{**LABELS, **about, **changed})


@pytest.fixture
def three_runs() -> None:
    """A finished sweep, an interrupted one of which a point is missing, and a batch sweep, the newest."""
    keep("1", "prefill_decode", SWEEP, [row("1", 1, 20.0), row("1", 16, 18.0)], RunStatus.FINISHED)
    keep("2", "prefill_decode", SWEEP, [row("2", 1, 30.0, dtype="bfloat16")], RunStatus.INTERRUPTED)
    batch = row("3", 2, 10.0, kind="batch", batch=4, step_ms=100.0, total_tokens_per_s=40.0)
    keep("3", "batch", BATCH, [batch], RunStatus.FINISHED)


def lines(app: WorkbenchApp) -> Iterator[str]:
    """The lines of the table as they are shown."""
    table = app.screen_stack[0].query_one(RunTable)
    for place in range(table.row_count):
        yield " ".join(" ".join(str(cell) for cell in table.get_row_at(place)).split())


async def open_runs(pilot: Pilot[int]) -> None:
    await pilot.press("6")
    await pilot.pause()


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize("size", SIZES)
async def test_every_run_kept_is_shown_the_newest_first(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        assert list(lines(app)) == [
            "01-03 00:00 batch smollm2-135m float32 cpu 1/2 40.0 finished",
            "01-02 00:00 sweep smollm2-135m bfloat16 cpu 1/2 30.0 interrupted",
            "01-01 00:00 sweep smollm2-135m float32 cpu 2/2 20.0 finished",
        ]
        assert shown(app, "#runs-line") == "3 runs"
        assert shown(app, "#run-about").splitlines() == [f"3 · {this_machine()}", "as it ended"]
        assert "u resume" not in shown(app, "#keys")
        await pilot.press("down")
        await pilot.pause()
        assert "u resume" in shown(app, "#keys")
        assert len(shown(app, "#keys")) <= size[0] - 2


async def test_without_runs_it_says_how_the_first_is_made() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        assert shown(app, "#runs-line").startswith("no runs yet")
        for key, said in (*((key, "no runs yet") for key in ("enter", "space", "u", "d")), ("c", "mark two")):
            await pilot.press(key)
            await pilot.pause()
            assert said in message(app)
            await pilot.press("escape")


@pytest.mark.usefixtures("three_runs")
async def test_a_filter_leaves_the_runs_with_its_words() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("slash", *"interr", "enter")
        await pilot.pause()
        assert [line[:5] for line in lines(app)] == ["01-02"]
        assert shown(app, "#runs-line") == "1 of 3 runs"
        assert isinstance(app.focused, RunTable)


@pytest.mark.usefixtures("three_runs")
async def test_two_marked_runs_are_compared() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("space", "down", "space", "down", "space")
        await pilot.pause()
        table = app.query_one(RunTable)
        assert table.marked == ("2", "1")
        assert [line[0] for line in lines(app)] == ["0", "*", "*"]
        assert "c compare" in shown(app, "#keys")
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(app.screen, ComparisonScreen)
        for phase, ratio in (
            ("prefill", ["1.00 ×", "–", "–", "10.0", "10.0"]),
            ("decode", ["0.667 ×", "–", "–", "30.0", "20.0"]),
        ):
            points = app.screen.query_one(f"#{phase}-compared", RecordTable)
            assert [str(cell) for cell in points.get_row_at(0)] == ["1", "no samples", *ratio]
            assert points.virtual_size.width <= points.size.width
            assert str(app.screen.query_one(f"#{phase}-compared-heading", Static).render()) == f"{phase}, batch 1"
        assert '"no samples": a row came without' in str(app.screen.query_one("#compared-words", Static).render())
        await pilot.press("escape")
        assert isinstance(app.focused, RunTable)


@pytest.mark.usefixtures("three_runs")
async def test_home_goes_to_the_newest_run_and_end_to_the_oldest() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        for key, run_id in (("end", "1"), ("home", "3")):
            await pilot.press(key)
            selected = app.query_one(RunTable).selected
            assert selected is not None
            assert selected.run_id == run_id


async def test_columns_have_a_gap_between_them_and_a_cut_is_seen() -> None:
    long = {"dtype": "float16 cache of a kind", "device": "machine of a kind"}
    keep("1", "prefill_decode", SWEEP, [row("1", 1, 20.0, **long)], RunStatus.FINISHED)
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        table = app.query_one(RunTable)
        cells = [str(cell) for cell in table.get_row_at(0)]
        assert cells[4:6] == ["float16 …", "machi…"]
        assert all(
            len(cell) < column.width for cell, column in zip(cells[1:-1], table.ordered_columns[1:-1], strict=True)
        )


@pytest.mark.usefixtures("three_runs")
async def test_runs_of_two_kinds_are_not_compared() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("space", "down", "space", "c")
        await pilot.pause()
        assert "Compare two runs of one kind" in message(app)


@pytest.mark.usefixtures("three_runs")
@pytest.mark.parametrize("size", SIZES)
async def test_enter_opens_a_run_in_its_pane_with_its_rows_and_ceilings(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await pilot.press("enter")
        await pilot.pause()
        batch = app.query_one(BatchPane)
        assert batch.display
        assert [each.batch for each in batch.query_one(SweepTable).rows_shown] == [4]
        assert shown(app, "#batch-progress").startswith("finished · as it ended · 3")
        await pilot.press("6", "down", "down", "enter")
        await pilot.pause()
        sweep = app.query_one(PrefillDecodePane)
        assert sweep.display
        assert [each.prompt_tokens for each in sweep.query_one(SweepTable).rows_shown] == [1, 16]
        assert sweep.live is not None
        assert sweep.live.predicted is not None
        assert [1 / floor.tpot.value for floor in sweep.live.predicted.floors] == pytest.approx([40.0, 40.0])
        assert "smollm2-135m · float32 · fake" in shown(app, "#title")


@pytest.mark.usefixtures("three_runs")
async def test_a_run_is_not_opened_over_the_one_that_is_measured_there() -> None:
    gate = Gate(16)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("6", "down", "down", "enter")
        await until(pilot, lambda: app.screen is not app.screen_stack[0])
        assert "x stops it" in message(app)
        await pilot.press("escape", "up", "up", "enter")
        await pilot.pause()
        assert app.query_one(PrefillDecodePane).display
        gate.open.set()
        await finished(pilot, app)


@pytest.mark.parametrize("size", SIZES)
async def test_u_measures_what_is_missing_of_a_run(size: tuple[int, int]) -> None:
    keep("2", "prefill_decode", SWEEP, [row("2", 1, 30.0)], RunStatus.INTERRUPTED)
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await pilot.press("u")
        await finished(pilot, app)
        sweep = app.query_one(PrefillDecodePane)
        assert sweep.display
        shown_rows = sweep.query_one(SweepTable).rows_shown
        assert [(each.prompt_tokens, each.sitting) for each in shown_rows] == [(1, 1), (16, 2)]
    with Store() as store:
        assert (store.run("2").status, store.run("2").rows) == (RunStatus.FINISHED, 2)


@pytest.mark.usefixtures("three_runs")
async def test_what_can_not_be_resumed_is_said_and_stays_as_it_was() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("down", "u")
        await until(pilot, lambda: app.screen is not app.screen_stack[0])
        # The row kept is of another dtype than the run's settings give.
        assert "dtype bfloat16 then, float32 now" in message(app)
        await pilot.press("escape", "6")
        assert [line.rpartition(" ")[2] for line in lines(app)] == ["finished", "interrupted", "finished"]


@pytest.mark.usefixtures("three_runs")
async def test_a_finished_run_is_not_resumed() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("down", "down", "u")
        await pilot.pause()
        assert "is finished" in message(app)


@pytest.mark.usefixtures("three_runs")
async def test_e_exports_the_run_under_the_cursor() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        await pilot.press("down", "e")
        await pilot.pause()
        assert isinstance(app.screen, ExportDialog)
        assert app.screen._path == "./2.csv"


@pytest.mark.usefixtures("three_runs")
async def test_d_deletes_a_run_only_when_it_is_confirmed() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        for keys, left in ((("d", "escape"), 3), (("d", "y"), 2)):
            await pilot.press(keys[0])
            await pilot.pause()
            assert isinstance(app.screen, ConfirmScreen)
            assert "3, smollm2-135m, with its row." in app.screen.text
            await pilot.press(keys[1])
            await pilot.pause()
            assert len(list(lines(app))) == left
    with Store() as store:
        assert [run.run_id for run in store.runs()] == ["2", "1"]
        assert store.rows("3") == []


async def test_a_run_measured_here_is_in_the_list_when_it_ends() -> None:
    gate = Gate(64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("6", "d")
        await pilot.pause()
        assert "The run is being measured" in message(app)
        await pilot.press("escape")
        assert [line.rpartition(" ")[2] for line in lines(app)] == ["running"]
        gate.open.set()
        await finished(pilot, app)
        assert [line.rpartition(" ")[2] for line in lines(app)] == ["finished"]


@pytest.mark.usefixtures("three_runs")
async def test_a_run_of_a_host_that_may_be_gone_is_taken_over_once_that_is_said() -> None:
    with Store() as store:
        elsewhere = owner.this_process().replace(owner.this_process().partition("/")[0], "lab-7", 1)
        store.connection.execute("UPDATE runs SET status = 'running', owner = ? WHERE run_id = '3'", (elsewhere,))
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        assert "on lab-7, which can't be seen from here" in shown(app, "#run-about")
        await pilot.press("d")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        assert "the last row it wrote" in app.screen.text
        await pilot.press("escape", "d", "y")
        await pilot.pause()
        assert isinstance(app.screen, ConfirmScreen)
        assert app.screen.title_text == "Delete this run?"
        await pilot.press("y")
        await pilot.pause()
        assert shown(app, "#runs-line") == "2 runs"


async def test_i_imports_a_file_and_its_run_opens_under_its_ceiling() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        assert "i import" in shown(app, "#keys")
        await pilot.press("i")
        await pilot.pause()
        assert isinstance(app.screen, ImportDialog)
        await pilot.press("enter")
        await pilot.pause()
        assert "Name the file" in str(app.screen.query_one("#import-problem", Static).content)
        for name, text in (
            ("path", str(RECORDED / "llama-bench.json")),
            ("model", str(smollm2())),
            ("hardware", "rtx-509"),
        ):
            app.screen.query_one(f"#import-{name}", LineInput).value = text
        await pilot.press("enter")
        await pilot.pause()
        assert "Did you mean" in str(app.screen.query_one("#import-problem", Static).content)
        app.screen.query_one("#import-hardware", LineInput).value = "rtx-5090"
        await pilot.press("enter")
        await pilot.pause()
        assert "6 rows imported" in message(app)
        await pilot.press("escape")
        await pilot.pause()
        assert shown(app, "#runs-line") == "1 run"
        await pilot.press("enter")
        await pilot.pause()
        pane = app.screen_stack[0].query_one(PrefillDecodePane)
        shares = [row.ceiling_share for row in pane.query_one(SweepTable).rows_shown]
        assert [share is not None for share in shares] == [False, False, True, False, False, True]


async def test_an_imported_batch_run_is_drawn_without_a_ceiling() -> None:
    with Store() as store:
        import_file(store, RECORDED / "batched-bench.jsonl", Standing())
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await open_runs(pilot)
        await pilot.press("enter")
        await pilot.pause()
        pane = app.screen_stack[0].query_one(BatchPane)
        chart = pane.query_one("#total-chart", Chart)
        assert [len(one.points) for one in chart._picture.series if one.drawn is Drawn.POINTS] == [4]
        assert "no ceiling" in shown(app, "#batch-row-note")


@pytest.mark.usefixtures("three_runs")
async def test_the_batch_fields_say_what_the_run_shown_was_asked() -> None:
    other = replace(BATCH, contexts=(64, 128), batches=(2, 16), steps=5, repeats=4, mixed=True)
    keep("4", "batch", other, [row("4", 64, 5.0, kind="batch", batch=2, step_ms=200.0)], RunStatus.FINISHED)
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_runs(pilot)
        for keys, settings in ((("enter",), other), (("6", "down", "enter"), BATCH)):
            await pilot.press(*keys)
            await pilot.pause()
            batch = app.query_one(BatchPane)
            assert batch.live is not None
            assert batch.settings(app.frame.setup_pane.settings()) == replace(settings, device="auto")
