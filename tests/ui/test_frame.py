"""What surrounds the panes: help, keys, palette, small terminals, errors, leaving."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.css.query import NoMatches
from textual.screen import Screen

from tests.terminal import Terminal
from tests.ui.driving import SIZES, Gate, an_app, finished, message, shown, until
from workbench.experiments.settings import SweepSettings
from workbench.hardware.machine import Machine
from workbench.hardware.monitor import Monitor, Sample
from workbench.runs.run import RunStatus
from workbench.runs.store import Store
from workbench.ui.app import INTERRUPTED_EXIT, WorkbenchApp
from workbench.ui.help import help_text
from workbench.ui.live_run import mark_interrupted
from workbench.ui.title import title_line
from workbench.ui.widgets.chart import y_ticks
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.overlay import Palette
from workbench.ui.widgets.strip import cores, filled

ROOT = Path(__file__).resolve().parents[2]
HELP_COLUMNS = 73
"""What the panel and its scroll bar leave of 80."""


@pytest.mark.parametrize("size", SIZES)
async def test_help_explains_the_pane_in_front(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "2 · kv_heads · head_dim" in message(app)
        await pilot.press("escape", "3", "question_mark")
        await pilot.pause()
        assert "max(F / C, W / B)" in message(app)


@pytest.mark.parametrize("typed", ["question_mark", "ctrl+p"])
async def test_what_is_closed_twice_closes_no_other_screen(typed: str) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press(typed)
        panes, over = app.screen_stack
        await app.push_screen(TextScreen("Another", []))
        # As keys that were typed ahead come to a screen which had no time for them.
        over.dismiss()
        assert app.screen_stack[:2] == [panes, over]
        await pilot.press("escape")
        over.dismiss()
        over.dismiss()
        await pilot.pause()
        assert app.screen_stack == [panes]
        await pilot.press("2")
        assert app.frame.pane == "ceiling"


@pytest.mark.parametrize("over", [Palette, lambda: TextScreen("A text", [])], ids=["palette", "text"])
async def test_a_screen_told_to_close_before_it_is_mounted_opens_all_the_same(over: Callable[[], Screen[None]]) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        opened = over()
        app.push_screen(opened)
        opened.dismiss()
        await pilot.pause()
        assert app.screen is opened
        await pilot.press("escape")
        assert app.screen is app.screen_stack[0]


async def test_a_palette_opens_while_the_one_before_it_is_still_closing() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("ctrl+p")
        app.screen.dismiss()
        app.action_command_palette()
        await pilot.pause()
        assert isinstance(app.screen, Palette)


async def test_an_error_in_what_is_closed_already_ends_nothing() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("ctrl+p")
        palette = app.screen
        await pilot.press("escape")
        with palette._context():
            # As a change of the palette that is looked at after its widgets have gone.
            app._handle_exception(NoMatches("No nodes match 'LoadingIndicator'"))
        await pilot.press("2")
        assert app.frame.pane == "ceiling"
        assert app.return_code is None


async def test_every_line_of_the_frame_fits_80_columns() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        for place in ("#title", "#progress", "#keys", "#strip", "#figures"):
            assert all(len(line) <= 78 for line in shown(app, place).splitlines()), place
        gate.open.set()
        await finished(pilot, app)
        for place in ("#title", "#progress", "#keys", "#strip", "#figures"):
            assert all(len(line) <= 78 for line in shown(app, place).splitlines()), place


async def test_the_key_line_fits_whatever_has_the_focus() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        await pilot.press("1")
        seen = set()
        for _ in range(14):
            await pilot.press("tab")
            await pilot.pause()
            seen.add(shown(app, "#keys"))
        assert len(seen) == 4
        assert all(len(line) <= 78 for line in seen)


async def test_the_title_follows_the_size() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.resize_terminal(150, 40)
        await until(pilot, lambda: len(shown(app, "#title")) == 148)


async def test_too_small_a_terminal_is_told_what_is_needed() -> None:
    app = an_app()
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert "80 columns and 24 lines" in shown(app, "#too-small")
        assert not app.screen.query_one("#workbench").display
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.screen.query_one("#workbench").display


async def test_what_had_the_keys_has_them_again_once_the_terminal_is_large_enough() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("3")
        before = app.focused
        assert before is not None
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        await pilot.resize_terminal(*SIZES[0])
        await pilot.pause()
        assert app.focused is before


async def test_the_palette_offers_what_can_be_done_now() -> None:
    gate = Gate(prompt=1)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        assert next(iter(app.get_system_commands(app.screen))).title == "Run"
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        titles = [c.title for c in app.get_system_commands(app.screen)]
        assert titles[0] == "Stop"
        assert "Export CSV" in titles
        gate.open.set()
        await finished(pilot, app)


async def test_nothing_is_bound_to_keys_that_terminals_confuse() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]):
        assert not {"ctrl+i", "ctrl+m", "ctrl+h", "ctrl+j"} & set(app._bindings.key_to_bindings)


async def test_an_unexpected_error_is_shown_and_the_app_stays() -> None:
    def break_down(prompt: int) -> None:
        raise RuntimeError("a fault of ours")

    app = an_app(break_down)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: app.screen is not app.screen_stack[0])
        assert "a fault of ours" in message(app)
        assert "workbench.log" in message(app)
        await pilot.press("escape", "1")
        await pilot.pause()
        assert app.is_running


async def test_leaving_during_a_run_keeps_its_rows() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("ctrl+c")
    assert app.return_value == INTERRUPTED_EXIT
    mark_interrupted(app.live)
    with Store() as store:
        assert (store.run("last").status, store.run("last").rows) == (RunStatus.INTERRUPTED, 2)
    gate.open.set()
    assert app.runner.wait(10)


async def test_q_leaves_with_0() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("q")
    assert app.return_value == 0


def test_what_libraries_print_goes_to_the_log(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from workbench.ui.terminal import library_output_to\n"
        f"with library_output_to(Path({str(tmp_path / 'log')!r})) as terminal:\n"
        "    os.write(1, b'one'); os.write(2, b'two'); terminal.write('screen')\n"
        "print('after')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "screenafter\n"
    assert ran.stderr == ""
    assert (tmp_path / "log").read_text() == "onetwo"


def test_the_app_starts_without_torch_and_charts() -> None:
    program = "import sys, workbench.ui.app; print({'torch', 'plotext', 'transformers'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_the_title_gives_way_from_the_left() -> None:
    app = WorkbenchApp(SweepSettings())
    machine = Machine("A Very Long Processor Name Of Many Words 9999X", 192, 1_500_000_000_000)
    for width in (80, 120, 200):
        line = title_line(width, machine, app._settings, None)
        assert len(line) == width - 2
        assert line.endswith("qwen3-0.6b · float32 · transformers · auto")
    assert "Inference Workbench" in title_line(200, machine, app._settings, None)


@pytest.mark.parametrize(("width", "left"), [(80, "A Processor · 2 cores"), (76, "A Processor"), (64, "A Pro…")])
def test_the_title_gives_way_part_by_part(width: int, left: str) -> None:
    machine = Machine("A Processor", 2, 1_500_000_000_000)
    line = title_line(width, machine, SweepSettings(model="smollm2-135m-instruct"), None)
    assert line.startswith(f"{left}   ")


def test_parts_of_the_strip_are_never_broken_in_two() -> None:
    assert filled(["aaaa", "bbbb", "cccc"], 12) == "aaaa   bbbb\ncccc"
    assert cores((1.0, 99.0)) == "1 99 %"
    assert cores((0.0,) * 15 + (80.0,)) == "16 cores 5 %, busiest 80 %"


@pytest.mark.parametrize("top", [0.03, 0.9, 1.0, 56.0, 99.0, 101.0, 2345.0])
def test_ticks_reach_over_the_highest_value(top: float) -> None:
    ticks = y_ticks(top, 3)
    assert ticks[0] == 0
    assert ticks[-1] >= top
    assert 2 <= len(ticks) <= 5


def test_the_monitor_reads_the_box() -> None:
    sample = Monitor().sample()
    assert isinstance(sample, Sample)
    assert len(sample.core_percent) == os.cpu_count()
    assert sample.resident_bytes > 0
    assert 0 <= sample.other_share <= 1


def test_no_color_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with Terminal([sys.executable, "-m", "tests.ui.stuck_app", "nowhere"], 80, 24, cwd=ROOT) as terminal:
        terminal.wait_for("r runs this sweep")
        terminal.send("r")
        terminal.wait_for("finished")
        colours = {(c.fg, c.bg) for line in terminal.screen.buffer.values() for c in line.values()}
        assert colours == {("default", "default")}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("x",), "no measurement to stop"),
        (("3", "b"), "there are none yet"),
        (("4", "b"), "there are none yet"),
        (("3", "enter"), "r begins a run"),
        (("5", "enter"), "r begins a run"),
        (("6", "enter"), "no runs yet"),
        (("6", "u"), "no runs yet"),
        (("6", "g"), "no runs yet"),
        (("6", "d"), "no runs yet"),
        (("6", "space"), "no runs yet"),
        (("6", "c"), "mark two"),
        (("6", "e"), "r runs a sweep"),
        (("5", "t"), "once a ladder is complete"),
        (("5", "f"), "r measures a ladder"),
    ],
)
async def test_a_key_that_can_do_nothing_says_why(keys: tuple[str, ...], said: str) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert said in message(app)


async def test_b_says_that_no_other_bandwidth_is_known() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        await pilot.press("b")
        await pilot.pause()
        assert "The ceilings rest on this minute alone" in message(app)


@pytest.mark.parametrize("about", sorted(path.stem for path in (ROOT / "workbench/ui/help").glob("*.txt")))
def test_no_line_of_the_help_is_broken_in_80_columns(about: str) -> None:
    assert max(map(len, help_text(about).splitlines())) <= HELP_COLUMNS


async def test_the_keys_of_a_pane_without_a_run_are_not_those_of_another_panes_run() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert "enter explain" in shown(app, "#keys")
        await pilot.press("5")
        assert "enter explain" not in shown(app, "#keys")
        await pilot.press("2")
        assert shown(app, "#keys").endswith("q quit")
        assert len(shown(app, "#keys")) <= 78
