"""The Gap pane on an engine whose parts take known times: rungs, verdict, stopping, failing and kept ladders."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.fakes import FAKE_PARTS_S, FakeModel, FakePass, fake_load
from tests.runs.row_ladder.planted import a_step
from tests.ui.driving import SIZES, finished, message, shown, until
from workbench.experiments.gap import fresh
from workbench.experiments.gap import gap as gap_experiment
from workbench.experiments.gap import ladder as ladder_arithmetic
from workbench.experiments.gap.ladder import FRAMEWORK
from workbench.experiments.gap.parts import Part, Sample
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import GapSettings, SweepSettings
from workbench.runner import CancelToken
from workbench.runs.export import ladder_csv_text
from workbench.runs.ladder_record import NOT_RESOLVED
from workbench.runs.row import PREFILL_DECODE
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store
from workbench.ui.app import WorkbenchApp
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.ladder_table import LadderTable
from workbench.ui.widgets.lever_table import LeverTable
from workbench.ui.widgets.run_table import RunTable

ROUNDS = 2


class CountedPass(FakePass):
    """Counts the whole passes, and tells of each."""

    def __init__(self, on_whole: Callable[[int], None] = lambda count: None) -> None:
        super().__init__(FAKE_PARTS_S, 0.020)
        self.on_whole = on_whole
        self.count = 0

    def whole(self) -> Sample:
        self.count += 1
        self.on_whole(self.count)
        return super().whole()


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_experiment, "MOST_ROUNDS", ROUNDS)
    monkeypatch.setattr(fresh, "LEAST_ROUNDS", ROUNDS)
    monkeypatch.setattr(ladder_arithmetic, "RESAMPLES", 20)


def a_gap_app(
    full: FakePass | None = None, failing: frozenset[int] = frozenset(), model: str = "smollm2-135m"
) -> WorkbenchApp:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load(failing)(planned, cancel)
        return FakeModel(made.model, made.labels, failing, full=full or FakePass(FAKE_PARTS_S, 0.020))

    return WorkbenchApp(SweepSettings(model=model, device="cpu"), load)


def table(app: WorkbenchApp) -> LadderTable:
    return app.screen_stack[0].query_one(LadderTable)


def lines(app: WorkbenchApp) -> list[list[str]]:
    """The cells of each line, the bar's among them."""
    return [[str(cell) for cell in table(app).get_row_at(place)] for place in range(table(app).row_count)]


def set_field(app: WorkbenchApp, name: str, text: str) -> None:
    app.screen_stack[0].query_one(f"#gap-{name}", Entry).value = text


async def run(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    await pilot.press("5", "r")
    await finished(pilot, app)


@pytest.mark.parametrize("size", SIZES)
async def test_the_rungs_stand_under_the_ceiling_and_add_up_to_the_measured_time(size: tuple[int, int]) -> None:
    app = a_gap_app()
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
        found = lines(app)
        names = [line[0] for line in found]
        assert names[:4] == ["ceiling", Part.WEIGHTS, Part.HEAD, Part.ATTENTION]
        assert names[-2:] == ["remainder", "measured"]
        assert (FRAMEWORK in names) is (size[0] >= 120)
        figures = [float(line[2].replace(",", "")) for line in found]
        assert sum(figures[:-1]) == pytest.approx(figures[-1], abs=0.3)
        assert figures[-1] == pytest.approx(285.0)
        assert found[1][3].split(" to ")[0] == found[1][3].split(" to ")[1]
        assert found[-1][4] == "100 %"
        assert shown(app, "#gap-verdict").startswith("The step takes 285.0 ms, ")
        assert Part.WEIGHTS in shown(app, "#gap-verdict")
        assert shown(app, "#gap-progress").startswith("finished")


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("size", SIZES)
async def test_nothing_is_clipped(size: tuple[int, int], same: bool) -> None:
    app = a_gap_app(FakePass({**FAKE_PARTS_S, Part.WEIGHTS: 12.0}, 0.020, same=same))
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
        assert table(app).virtual_size.width <= table(app).size.width
        assert len(lines(app)) == 12
        # A note may take a line or two of the ladder's, which scrolls then.
        hidden = table(app).virtual_size.height - table(app).size.height
        assert hidden <= (0 if same or size[0] >= 120 else 2)
        for widget in app.query("#gap > *"):
            if widget.display and widget is not table(app):
                assert widget.region.bottom <= app.query_one("#strip").region.y
                assert widget.virtual_size.height <= widget.size.height
        for line, column in zip(zip(*lines(app), strict=True), table(app).ordered_columns, strict=True):
            assert max(map(len, line)) <= column.width
        assert len(shown(app, "#keys")) <= size[0] - 2
        assert ("can't be trusted" in shown(app, "#gap-notes")) is not same
        assert "a symptom" in shown(app, "#gap-verdict")
        assert app.query_one("#gap-suspects").display is (size[0] >= 120)


async def test_each_bar_begins_where_the_one_before_it_ended() -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run(pilot, app)
        bars = [line[1] for line in lines(app)]
        assert set(bars[0]) == {"▒"}
        assert len(bars[1]) - len(bars[1].lstrip()) == len(bars[0])
        assert set(bars[1].strip()) == {"█"}
        assert len(bars[-1]) == table(app).ordered_columns[1].width
        app.action_markers()
        await pilot.pause()
        bars = [line[1] for line in lines(app)]
        assert set(bars[0]) == {"="}
        assert set(bars[1].strip()) == {"#"}
        assert all(character.isascii() for bar in bars for character in bar)


async def test_a_rung_across_zero_says_that_it_is_not_resolved() -> None:
    app = a_gap_app(FakePass({**FAKE_PARTS_S, Part.SAMPLING: 0.0}, 0.020))
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        line = next(line for line in lines(app) if line[0].startswith("sampling"))
        assert line[4] == NOT_RESOLVED
        await pilot.press(*["down"] * [line[0] for line in lines(app)].index(line[0]), "enter")
        await pilot.pause()
        assert "Not resolved: the interval spans zero" in message(app)


async def test_enter_shows_the_ways_a_rung_was_measured_and_what_to_suspect() -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        await pilot.press("down", "enter")
        await pilot.pause()
        text = message(app)
        assert text.startswith("weight kernels · step at context 256, batch 1")
        for way in ("alone, replayed", "left out of the pass", "in place"):
            assert f"{way} = 200 ms" in text
        assert "middle of 3 ways" in text
        assert "Suspects, the likeliest first:" in text
        assert "check: time the pass with half the threads" in text
        await pilot.press("escape", "up", "enter")
        await pilot.pause()
        assert message(app).startswith("ceiling")
        assert "B" in message(app)
        await pilot.press("escape", "tab", "enter")
        await pilot.pause()
        assert message(app).startswith("What the ladder comes to")
        assert "1. " in message(app)


async def test_the_ladder_comes_after_the_first_round_and_narrows_with_each() -> None:
    app: WorkbenchApp
    passes_in_round = 1 + len(Part)
    at_second: list[int] = []

    def look(count: int) -> None:
        if count == passes_in_round + 2:
            # The screen shows the first round before the second is timed.
            ladder = table(app).ladder
            at_second.append(0 if ladder is None else ladder.rounds)

    app = a_gap_app(CountedPass(look))
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        assert at_second == [1]
        ladder = table(app).ladder
        assert ladder is not None
        assert ladder.rounds == ROUNDS


async def test_x_keeps_the_ladder_as_far_as_it_came() -> None:
    app: WorkbenchApp

    def stop(count: int) -> None:
        if count == 1 + len(Part) + 2:
            app.runner.cancel()

    app = a_gap_app(CountedPass(stop))
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        assert shown(app, "#gap-progress").startswith("interrupted · stopped before the ladder was complete")
        assert len(lines(app)) == 12
        with Store() as store:
            kept = store.run("last")
            ladder = store.ladder(kept.run_id)
        assert (kept.status, kept.rows) == (RunStatus.INTERRUPTED, 0)
        assert ladder is not None
        assert ladder.rounds == 1
        assert table(app).ladder == ladder


@pytest.mark.parametrize("size", SIZES)
async def test_a_pass_that_fails_says_why(size: tuple[int, int]) -> None:
    app = a_gap_app(failing=frozenset({256}))
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
        assert lines(app) == []
        assert shown(app, "#gap-verdict") == "! The pass failed: out of memory"
        await pilot.press("enter")
        await pilot.pause()
        assert "r begins a run" in message(app)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("context", "many", "context holds 'many'"), ("batch", "0", "batch is 0"), ("context", "", "not a whole number")],
)
async def test_a_field_that_holds_no_number_is_told_before_anything_is_loaded(name: str, text: str, said: str) -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("5")
        set_field(app, name, text)
        await pilot.press("r")
        await pilot.pause()
        assert said in message(app)
        assert not app.runner.busy


async def test_a_context_that_the_model_does_not_have_is_refused() -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("5")
        set_field(app, "context", "1000000")
        await pilot.press("r")
        await until(pilot, lambda: app.screen is not app.screen_stack[0])
        assert "Use a context up to" in message(app)
        with Store() as store:
            assert store.runs() == []


async def run_a_prefill(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """Of 32 tokens in each of two sequences, by the fields of the pane."""
    await pilot.press("5")
    app.query_one("#gap-phase", Choice).action_turn(1)
    set_field(app, "context", "32")
    set_field(app, "batch", "2")
    await pilot.press("r")
    await finished(pilot, app)


async def test_a_prefill_is_chosen_in_the_field() -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await run_a_prefill(pilot, app)
        assert shown(app, "#gap-verdict").startswith("The prefill takes 285.0 ms")
        assert "prefill of 32 tokens, batch 2" in shown(app, "#gap-progress")


@pytest.mark.parametrize("size", SIZES)
async def test_a_kept_ladder_opens_in_its_pane_and_is_not_resumed(size: tuple[int, int]) -> None:
    app: WorkbenchApp

    def stop(count: int) -> None:
        if count == 1 + len(Part) + 2:
            app.runner.cancel()

    app = a_gap_app(CountedPass(stop))
    async with app.run_test(size=size) as pilot:
        await run(pilot, app)
    app = a_gap_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("6")
        await pilot.pause()
        line = " ".join(str(cell) for cell in app.query_one(RunTable).get_row_at(0)).split()
        assert line[2:7] == ["gap", "smollm2-135m", "float32", "cpu", "0/1"]
        assert "u resume" not in shown(app, "#keys")
        await pilot.press("u")
        await pilot.pause()
        assert "measures it anew" in message(app)
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert app.query_one("#gap").display
        assert len(lines(app)) == 12
        assert shown(app, "#gap-progress").startswith("interrupted")


async def test_e_writes_the_ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = a_gap_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run(pilot, app)
        await pilot.press("e", "enter")
        await until(pilot, lambda: app.screen is not app.screen_stack[0] and "Exported" in message(app))
    with Store() as store:
        kept = store.run("last")
        ladder = store.ladder(kept.run_id)
    assert ladder is not None
    assert (tmp_path / f"{kept.run_id}.csv").read_text() == ladder_csv_text(kept, ladder)


def lever_lines(app: WorkbenchApp) -> dict[str, list[str]]:
    """The cells of each lever, by its name."""
    levers = app.screen_stack[0].query_one(LeverTable)
    found = ([str(cell) for cell in levers.get_row_at(place)] for place in range(levers.row_count))
    return {name: cells for name, *cells in found}


@pytest.mark.parametrize("size", SIZES)
async def test_levers_are_proposed_with_their_prediction_and_t_tries_one(size: tuple[int, int]) -> None:
    app = a_gap_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("5", "t")
        await pilot.pause()
        assert "r measures one" in message(app)
        await pilot.press("escape", "r")
        await finished(pilot, app)
        levers = app.query_one(LeverTable)
        assert levers.region.height == 0 or size[0] >= 120
        proposed = lever_lines(app)
        assert {"bfloat16", "int8-weights"} <= proposed.keys()
        assert all(set(cells[1:]) == {"–"} for cells in proposed.values())
        assert "t levers" in shown(app, "#keys")
        await pilot.press("t")
        await pilot.pause()
        assert levers.has_focus
        assert levers.virtual_size.width <= levers.size.width
        assert levers.virtual_size.height <= levers.size.height
        assert levers.region.bottom <= app.query_one("#strip").region.y
        assert "t try" in shown(app, "#keys")
        assert len(shown(app, "#keys")) <= size[0] - 2
        name = levers.lever
        first = app.live
        assert first is not None
        assert first.run is not None
        await pilot.press("t")
        await finished(pilot, app)
        # The ladder of a moment ago stands: only the lever is timed.
        tried = app.live
        assert tried is not None
        assert tried is not first
        assert tried.ladder is not None
        assert first.ladder is not None
        assert tried.ladder.run_id == first.run.run_id
        assert tried.ladder.measured == first.ladder.measured
        assert isinstance(app.live, LiveRun)
        assert isinstance(app.live.settings, GapSettings)
        assert app.live.settings.levers == (name,)
        after = lever_lines(app)
        assert after.keys() == proposed.keys()
        assert after[name][0] == proposed[name][0]
        assert "–" not in after[name]
        # What it came to is in sight, also where the levers stand in the ladder's place.
        assert levers.has_focus
        assert levers.region.height > 0
        assert levers.lever == name
        assert f"{name} saved " in shown(app, "#gap-progress")
        await pilot.press("escape")
        await pilot.pause()
        assert table(app).has_focus
        assert table(app).region.height > 10


async def test_f_searches_the_combinations_of_the_pass_shown() -> None:
    app = a_gap_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("5", "f")
        await pilot.pause()
        assert "r measures a ladder" in message(app)
        await pilot.press("escape", "r")
        await finished(pilot, app)
        await pilot.press("f")
        await finished(pilot, app)
        assert isinstance(app.live, LiveRun)
        assert isinstance(app.live.settings, GapSettings)
        assert app.live.settings.fastest_within == 300.0
        assert shown(app, "#gap-fastest").startswith("Fastest: ")


@pytest.mark.parametrize("size", SIZES)
async def test_g_in_the_runs_pane_shows_the_ladder_of_a_runs_rows(size: tuple[int, int]) -> None:
    with Store() as store:
        store.add_run(Run("rows", PREFILL_DECODE, "2026-01-01T00:00:00Z", "a model", "a box"))
        for n in (16, 256, 1024, 4096):
            store.add_row(replace(a_step(n), run_id="rows", kind=PREFILL_DECODE), Samples())
        store.end_run("rows", RunStatus.FINISHED)
    app = a_gap_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("6", "g")
        await until(pilot, lambda: bool(table(app).row_count))
        names = [line[0] for line in lines(app)]
        assert names[0] == "ceiling"
        assert names[1].startswith("fixed cost")
        assert names[-1] == "measured"
        assert "can't tell" in shown(app, "#gap-notes")
        assert shown(app, "#gap-progress").startswith("finished · from its rows")
        assert table(app).virtual_size.width <= table(app).size.width


async def test_the_fields_name_the_pass_shown() -> None:
    with Store() as store:
        store.add_run(Run("rows", PREFILL_DECODE, "2026-01-01T00:00:00Z", "a model", "a box"))
        for n in (16, 256, 1024):
            store.add_row(replace(a_step(n), run_id="rows", kind=PREFILL_DECODE), Samples())
        store.end_run("rows", RunStatus.FINISHED)
    app = a_gap_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await run_a_prefill(pilot, app)
        app.query_one("#gap-phase", Choice).action_turn(1)
        await pilot.press("6")
        await pilot.pause()
        await pilot.press("down", "g")
        await pilot.pause()
        assert "from its rows" in shown(app, "#gap-progress"), app.screen
        assert fields(app) == ("decode", "1024", "1")
        await pilot.press("6")
        await pilot.pause()
        await pilot.press("up", "enter")
        await pilot.pause()
        assert fields(app) == ("prefill", "32", "2")


def fields(app: WorkbenchApp) -> tuple[str, str, str]:
    base = app.screen_stack[0]
    context, batch = (base.query_one(f"#gap-{name}", Entry).value for name in ("context", "batch"))
    return base.query_one("#gap-phase", Choice).value, context, batch
