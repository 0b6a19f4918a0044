"""The Ceiling pane: what it opens on, that every change shows at once, and that figures explain themselves."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.driving import SIZES, an_app, message, shown, until
from workbench.tracks import opened_on, track_settings
from workbench.ui.app import WorkbenchApp
from workbench.ui.panes.ceiling import CeilingPane
from workbench.ui.widgets.chart import Chart
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explained import Explained
from workbench.ui.widgets.record_table import RecordTable

GGUFS = "qwen3-8b-q4_k_m,qwen3-30b-a3b-q4_k_m,gpt-oss-120b-mxfp4"


def table(app: WorkbenchApp, name: str) -> RecordTable:
    return app.screen_stack[0].query_one(f"#{name}-table", RecordTable)


def lines(app: WorkbenchApp, name: str) -> list[list[str]]:
    found = table(app, name)
    return [[str(cell) for cell in found.get_row_at(row)] for row in range(found.row_count)]


def entry(app: WorkbenchApp, name: str) -> Entry:
    return app.screen_stack[0].query_one(f"#ceiling-{name}", Entry)


async def write(pilot: Pilot[Any], app: WorkbenchApp, name: str, text: str) -> None:
    entry(app, name).focus()
    await pilot.press("enter", "ctrl+u", *text, "enter")


async def opened(pilot: Pilot[Any], app: WorkbenchApp) -> None:
    """The pane in front and filled."""
    await until(pilot, lambda: shown(app, "#plan") != "")
    await pilot.press("2")
    await until(pilot, lambda: table(app, "context").row_count > 0)


def on_track(name: str) -> WorkbenchApp:
    track = opened_on(name)
    return WorkbenchApp(track_settings(track), track=track)


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_on_the_model_and_track_of_setup(size: tuple[int, int]) -> None:
    app = on_track("S")
    async with app.run_test(size=size) as pilot:
        await opened(pilot, app)
        assert shown(app, "#ceiling-box").startswith("dgx-spark · B 273 GB/s vendor · C 125 TFLOP/s assumed")
        assert entry(app, "models").value == "qwen3-0.6b"
        assert [line[0] for line in lines(app, "context")] == ["0", "4,096", "16,384", "32,768"]
        assert "weights bfloat16, cache bfloat16" in shown(app, "#context-heading")
        assert "W_" not in shown(app, "#shortcut")
        assert table(app, "context").has_focus


async def test_the_texts_tables_are_on_the_screen() -> None:
    app = on_track("S")
    async with app.run_test(size=(120, 60)) as pilot:
        await opened(pilot, app)
        await write(pilot, app, "models", GGUFS)
        await until(pilot, lambda: table(app, "context").row_count == 12)
        rates = {(line[0], line[1]): line[3] for line in lines(app, "context")}
        assert rates["qwen3-8b-q4_k_m", "0"] == "58.4"
        assert rates["qwen3-8b-q4_k_m", "16,384"] == "38.5"
        assert rates["qwen3-30b-a3b-q4_k_m", "32,768"] == "53.1"
        totals = {(line[0], line[1]): (line[2], line[3]) for line in lines(app, "batch")}
        assert totals["qwen3-8b-q4_k_m", "16"] == ("19.0", "304.7")
        touched = {(line[0], line[1]): line[2] for line in lines(app, "experts")}
        assert touched["qwen3-30b-a3b-q4_k_m", "16"] == "82.4"


async def test_another_track_is_priced_at_once_and_what_does_not_fit_is_said() -> None:
    app = an_app(model="gpt-oss-120b-mxfp4")
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        choice = app.screen.query_one("#ceiling-track", Choice)
        choice.focus()
        for _ in range(len(choice.options)):
            if choice.value == "N":
                break
            await pilot.press("right")
        await until(pilot, lambda: "rtx-5090" in shown(app, "#ceiling-box"))
        await until(pilot, lambda: {line[-1] for line in lines(app, "context")} == {"no"})
        assert {line[4] for line in lines(app, "context")} == {"memory"}
        assert "more than 32.0 GB" in shown(app, "#memory-bars")


async def test_cache_type_context_and_batch_change_the_figures() -> None:
    app = on_track("S")
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        await write(pilot, app, "models", "qwen3-8b-q4_k_m")
        await until(pilot, lambda: lines(app, "context")[0][3] == "58.4")
        at_half = lines(app, "context")[3][3]
        app.screen.query_one("#ceiling-cache", Choice).focus()
        await pilot.press("right")
        await until(pilot, lambda: "cache float32" in shown(app, "#context-heading"))
        assert float(lines(app, "context")[3][3]) < float(at_half)
        await write(pilot, app, "context", "512")
        await write(pilot, app, "batch", "2,8")
        await until(pilot, lambda: [line[0] for line in lines(app, "batch")] == ["2", "8"])
        await until(pilot, lambda: [line[0] for line in lines(app, "context")] == ["512"])
        assert shown(app, "#batch-heading") == "over batch, 512 tokens in each sequence"


async def test_enter_explains_any_figure_with_its_inputs() -> None:
    app = on_track("N")
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        await pilot.press("right", "right", "enter")
        await pilot.pause()
        told = message(app)
        assert "1 / step" in told
        assert "max((W + b·k·t) / B, F / C)" in told
        assert "1,792 GB/s  [vendor]" in told
        assert "210 TFLOP/s  [assumed]" in told
        await pilot.press("escape")
        app.screen.query_one("#ceiling-box", Explained).focus()
        await pilot.press("enter")
        await pilot.pause()
        assert "what somebody measured" in message(app)


async def test_levers_say_why_and_those_that_do_not_help_stand_last() -> None:
    app = on_track("S")
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        table(app, "levers").focus()
        factors = [float(line[0].split()[0]) for line in lines(app, "levers")]
        assert factors == sorted(factors, reverse=True)
        assert lines(app, "levers")[-1][2].startswith("twice the arithmetic")
        first = shown(app, "#lever-why")
        await pilot.press("down")
        await until(pilot, lambda: shown(app, "#lever-why") not in ("", first))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("hardware", "rtx-509", "Did you mean rtx-5090?"),
        ("models", "qwen3-8", "Did you mean qwen3-8b?"),
        ("models", "", "models is empty"),
        ("context", "many", "'many', which is not a whole number"),
        ("context", "", "context is empty"),
        ("batch", "0", "batch must be from 1"),
        ("batch", ",".join(map(str, range(1, 20))), "at most 12"),
        ("models", "/no/such/model.gguf", "There is no file"),
    ],
)
async def test_bad_input_is_said_and_the_last_tables_stay(name: str, text: str, said: str) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await opened(pilot, app)
        await write(pilot, app, name, text)
        await until(pilot, lambda: said in shown(app, "#ceiling-problem"))
        assert app.screen.query_one("#ceiling-problem", Static).display
        assert table(app, "context").row_count == 4
        await pilot.press("escape")
        assert table(app, "context").has_focus


async def test_down_leads_from_table_to_table_and_into_the_charts_words() -> None:
    app = on_track("S")
    async with app.run_test(size=SIZES[0]) as pilot:
        await opened(pilot, app)
        await pilot.press(*["down"] * 4)
        assert table(app, "batch").has_focus
        await pilot.press(*["down"] * 4)
        assert table(app, "levers").has_focus
        await pilot.press("up")
        assert table(app, "batch").has_focus


async def test_the_shortcut_is_told_of_models_where_it_is_wrong() -> None:
    app = on_track("S")
    async with app.run_test(size=SIZES[0]) as pilot:
        await opened(pilot, app)
        assert not app.screen.query_one("#shortcut").display
        entry(app, "models").value = "qwen3-8b"
        await until(pilot, lambda: app.screen.query_one("#shortcut").display)
        assert "tensor by tensor it is" in shown(app, "#shortcut")


async def test_charts_are_drawn_in_either_set_of_characters() -> None:
    app = on_track("S")
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        roof = app.screen.query_one("#roofline-chart", Chart)
        await until(pilot, lambda: "○ prefill" in str(roof.render()))
        assert "█ weights" in shown(app, "#memory-heading")
        app.action_markers()
        await pilot.pause()
        assert "O prefill" in str(roof.render())
        assert "# weights" in shown(app, "#memory-heading")
        assert "=....." in shown(app, "#memory-bars")


async def test_a_device_without_memory_or_arithmetic_says_so() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        await write(pilot, app, "hardware", "ddr5-6000-2ch")
        await until(pilot, lambda: "ddr5-6000-2ch" in shown(app, "#ceiling-box"))
        assert shown(app, "#memory-heading") == "memory: not known of this device"
        assert "no roofline" in shown(app, "#roofline-words")
        assert lines(app, "context")[0][-1] == "–"


async def test_what_changes_in_setup_is_taken_over_and_own_edits_stay_otherwise(tmp_path: Path) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await opened(pilot, app)
        await write(pilot, app, "models", "qwen3-8b-q4_k_m")
        await pilot.press("3", "2")
        assert entry(app, "models").value == "qwen3-8b-q4_k_m"
        await pilot.press("1")
        app.screen.query_one("#model", Entry).focus()
        await pilot.press("enter", "ctrl+u", *"qwen3-1.7b", "enter", "2")
        await until(pilot, lambda: entry(app, "models").value == "qwen3-1.7b")
        pane = app.screen.query_one(CeilingPane)
        await until(pilot, lambda: pane.fields().models == ("qwen3-1.7b",))
