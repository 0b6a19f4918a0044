"""The strip and the last minutes behind it: what they say, what gives way, and when they keep still."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from textual.widgets import Static

from tests.fakes import a_row
from tests.ui.driving import SIZES, Gate, an_app, finished, message, shown, until
from workbench.ceilings.box import Box
from workbench.experiments.events import Predicted
from workbench.experiments.settings import SweepSettings
from workbench.hardware.accelerator_use import AcceleratorUse
from workbench.hardware.machine import GroupMemory, Machine
from workbench.hardware.monitor import Sample
from workbench.quantity import Origin, Quantity, Unit
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.box_view import BoxHistory, BoxScreen, history_lines
from workbench.ui.widgets.levels import ASCII_LEVELS, BLOCK_LEVELS, bar, spread_over, steps
from workbench.ui.widgets.strip import STALE_S, Part, Strip, box_parts, differs, fitted, rate_parts, run_parts

MACHINE = Machine("a box", 2, 25_300_000_000)
GPU = AcceleratorUse("a GPU", 0.98, 12_100_000_000, 150_000_000_000)
LINES = {78: 2, 118: 1, 158: 1}


def a_sample(count: int = 2, **changed: Any) -> Sample:
    values: dict[str, Any] = {
        "at": 1000.0,
        "seconds": 1.0,
        "core_percent": (98.0, 4.0, *(100.0,) * 30)[:count],
        "own_share": 0.90,
        "other_share": 0.04,
        "stolen_share": 0.0,
        "resident_bytes": 2_900_000_000,
        "available_bytes": 21_000_000_000,
    }
    return Sample(**{**values, **changed})


def a_box(origin_of_B: Origin = Origin.MEASURED, origin_of_C: Origin = Origin.MEASURED) -> Box:
    return Box(
        Quantity("read rate", 58e9, Unit.BYTES_PER_SECOND, origin_of_B, "B", source="a probe"),
        Quantity("product rate", 2010e9, Unit.FLOP_PER_SECOND, origin_of_C, "C", source="a probe"),
    )


def a_run(**changed: Any) -> LiveRun:
    rates = a_box()
    assert rates.C is not None
    row = a_row(bytes_per_step=2_400_000_000, tpot_ms=186.0, prefill_gflop_per_s=138.0, ui_share=0.003)
    values: dict[str, Any] = {"predicted": Predicted((), rates.B, rates.C, 3_000_000_000), "rows": [row]}
    return LiveRun(SweepSettings(), **{**values, **changed})


# The strip


def test_before_a_run_the_strip_shows_the_box_and_its_rates() -> None:
    text = fitted([*box_parts(a_sample(), MACHINE), *rate_parts(a_box())], 118, 1)
    assert text.split("   ") == [
        "CPU 98 4 %",
        "RAM 21.0 of 25.3 GB free",
        "other load 4.0 %",
        "B 58.0 GB/s measured",
        "C 2.01 TFLOP/s measured",
    ]


def test_assumed_rates_say_which_key_measures_them() -> None:
    assert [p.text for p in rate_parts(a_box(Origin.ASSUMED, Origin.ASSUMED))] == ["rates assumed: p probes"]
    assert "assumed" in rate_parts(a_box(Origin.MEASURED, Origin.ASSUMED))[1].text
    assert rate_parts(None) == []
    assert [p.text for p in rate_parts(replace(a_box(), C=None))] == ["B 58.0 GB/s measured"]


def test_a_run_shows_what_it_reaches_of_what_was_predicted() -> None:
    text = fitted(run_parts(a_sample(), a_run(), a_box(), BLOCK_LEVELS), 158, 1)
    assert text.split("   ") == [
        "CPU 98 4 %",
        "RAM 2.9 of 3.0 GB predicted ████████",
        "12.9 of 58.0 GB/s ██······",
        "138 of 2,010 GFLOP/s █·······",
        "other load 4.0 %",
        "UI 0.3 %",
    ]


def test_a_run_that_is_not_predicted_or_measured_yet_claims_nothing() -> None:
    parts = [p.text for p in run_parts(a_sample(), a_run(predicted=None, rows=[]), a_box(), BLOCK_LEVELS)]
    assert "RAM 2.9 GB" in parts
    assert "B 58.0 GB/s measured" in parts
    parts = [p.text for p in run_parts(a_sample(), a_run(rows=[]), a_box(), BLOCK_LEVELS)]
    assert "– of 58.0 GB/s ········" in parts
    assert not any(p.startswith("UI") for p in parts)


def test_swap_and_stolen_time_are_shown_only_when_there_is_some() -> None:
    quiet = [p.text for p in box_parts(a_sample(), MACHINE)]
    assert not any(text.startswith(("swap", "stolen", "GPU")) for text in quiet)
    pressed = a_sample(swap_bytes=300_000_000, stolen_share=0.03, accelerators=(GPU,))
    assert {"swap 0.3 GB", "stolen 3.0 %", "GPU 98 %, 12.1 of 150.0 GB"} <= {
        p.text for p in box_parts(pressed, MACHINE)
    }
    silent = replace(GPU, busy_share=None)
    assert "GPU 12.1 of 150.0 GB" in [p.text for p in box_parts(a_sample(accelerators=(silent,)), MACHINE)]


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 192])
@pytest.mark.parametrize("more", [{}, {"swap_bytes": 300_000_000, "stolen_share": 0.03}, {"accelerators": (GPU,) * 4}])
def test_whatever_there_is_to_say_fits_and_no_part_is_cut(count: int, more: dict[str, Any]) -> None:
    sample = a_sample(min(count, 32), **more)
    for parts in (
        [*box_parts(sample, MACHINE), *rate_parts(a_box())],
        run_parts(sample, a_run(), a_box(), BLOCK_LEVELS),
        run_parts(sample, a_run(predicted=None), a_box(), BLOCK_LEVELS),
    ):
        for width, lines in LINES.items():
            text = fitted(parts, width, lines)
            assert text.count("\n") < lines
            assert all(len(line) <= width for line in text.split("\n"))
            whole = {form for part in parts for form in (part.text, part.short)}
            assert all(piece in whole for line in text.split("\n") for piece in line.split("   "))
            assert text.startswith("CPU")


def test_a_rate_keeps_its_origin_or_is_left_out() -> None:
    parts = [*box_parts(a_sample(8, swap_bytes=10**9, stolen_share=0.1, accelerators=(GPU,)), MACHINE)]
    text = fitted([*parts, *rate_parts(a_box())], 118, 1)
    assert "B 58.0 GB/s" not in text or "B 58.0 GB/s measured" in text


def test_the_least_important_gives_way_first() -> None:
    parts = [Part("aaaa", "aa", 0), Part("bbbb", "bb", 2), Part("cccc", "cc", 1)]
    assert fitted(parts, 18, 1) == "aaaa   bbbb   cccc"
    assert fitted(parts, 17, 1) == "aaaa   bb   cccc"
    assert fitted(parts, 14, 1) == "aaaa   bb   cc"
    assert fitted(parts, 9, 1) == "aa   cc"
    assert fitted(parts, 4, 2) == "aa\ncc"
    assert fitted(parts, 1, 1) == ""


@pytest.mark.parametrize(
    ("changed", "new"),
    [
        ({}, False),
        ({"core_percent": (96.0, 8.0)}, False),
        ({"core_percent": (98.0, 9.0)}, True),
        ({"core_percent": (98.0,)}, True),
        ({"other_share": 0.1}, True),
        ({"resident_bytes": 3_000_000_000}, True),
        ({"available_bytes": 20_950_000_000}, False),
        ({"swap_bytes": 200_000_000}, True),
        ({"at": 1010.0}, True),
    ],
)
def test_a_sample_is_shown_when_it_says_something_new(changed: dict[str, Any], new: bool) -> None:
    assert differs(a_sample(), a_sample(**changed), STALE_S) is new


def test_without_a_run_no_sample_grows_old() -> None:
    assert not differs(a_sample(), a_sample(at=5000.0), inf)


# Levels


def test_a_bar_says_with_characters_what_it_shows() -> None:
    assert bar(1, 2, BLOCK_LEVELS) == "████····"
    assert bar(1, 2, ASCII_LEVELS) == "####...."
    assert bar(0, 2, ASCII_LEVELS) == "........"
    assert bar(2, 2, ASCII_LEVELS) == "########"
    assert bar(3, 2, ASCII_LEVELS) == "#######!"
    assert bar(3, 0, ASCII_LEVELS) == "........"


def test_nothing_is_drawn_where_nothing_is_known_and_zero_is_not_nothing() -> None:
    assert steps([0, None, 50, 100, 200], 100, BLOCK_LEVELS) == "▁ ▅██"
    assert steps([0, None, 50, 100, 200], 100, ASCII_LEVELS) == "_ =##"
    assert steps([0, None], 0, ASCII_LEVELS) == "_ "
    assert all(c < "\u2800" or c > "\u28ff" for c in BLOCK_LEVELS.steps)


def test_a_reading_holds_when_it_was_taken_and_a_mean_for_the_time_it_covers() -> None:
    readings = [(1.0, 1.0, 5.0), (9.0, 9.0, 7.0)]
    assert spread_over(readings, 0, 10, 5) == [5, None, None, None, 7]
    assert spread_over([(0.0, 1.0, 5.0), (1.0, 9.0, 7.0)], 0, 10, 5) == [6, 7, 7, 7, 7]
    assert spread_over([(0.0, 2.0, 5.0), (2.0, 4.0, 7.0)], 0, 10, 5) == [5, 7, None, None, None]
    assert spread_over([(10.0, 10.0, 3.0)], 0, 10, 5) == [None, None, None, None, 3]
    assert spread_over([(-9.0, -5.0, 3.0)], 0, 10, 5) == [None] * 5
    assert spread_over([(-9.0, 1.0, 3.0)], 0, 10, 5) == [3, None, None, None, None]


# The last minutes


def lines_of(samples: tuple[Sample, ...], live: LiveRun | None = None, width: int = 74) -> dict[str, str]:
    """The lines by their labels."""
    lines = list(history_lines(BoxHistory(samples, live, MACHINE, a_box()), width, ASCII_LEVELS))
    assert "last 5 min" in lines[0]
    assert all(len(line) <= width for line in lines)
    return {line[:20].strip(): line[20:] for line in lines}


def test_time_without_samples_stays_blank_for_memory_and_is_a_mean_for_the_processor() -> None:
    samples = (
        a_sample(at=800.0, core_percent=(0.0, 0.0), own_share=0.0),
        a_sample(at=1000.0, seconds=200.0, core_percent=(100.0, 0.0), own_share=0.5),
    )
    lines = lines_of(samples)
    room = 74 - 20 - 3 * 8 - 4
    course = {name: line[10 : 10 + room] for name, line in lines.items()}
    assert course["core 0 %"].count("#") == pytest.approx(room * 2 / 3, abs=1)
    assert "_" not in course["core 0 %"].strip("_ ")
    assert len(course["own RAM GB"].replace(" ", "")) == 2
    assert lines["core 0 %"].split()[0] == "100"
    assert lines["core 0 %"].split()[-2:] == ["0", "100"]


def test_many_cores_are_their_mean_and_the_busiest() -> None:
    lines = lines_of((a_sample(16, core_percent=(0.0,) * 15 + (80.0,)),))
    assert lines["16 cores %"].split()[0] == "5"
    assert lines["busiest core %"].split()[0] == "80"
    assert "core 0 %" not in lines


def test_what_the_box_has_not_is_not_drawn() -> None:
    plain = lines_of((a_sample(),))
    assert not any(name.startswith(("swap", "stolen", "group", "GPU", "of ")) for name in plain)
    group = GroupMemory(4_000_000_000, 1_000_000_000)
    full = a_sample(swap_bytes=10**9, stolen_share=0.1, group=group, accelerators=(GPU, replace(GPU, busy_share=None)))
    lines = lines_of((full,), a_run())
    assert {"swap GB", "stolen %", "group of 4.0 GB", "GPU 0 busy %", "GPU 0 of 150.0 GB"} <= set(lines)
    assert "GPU 1 busy %" not in lines
    assert "GPU 1 of 150.0 GB" in lines
    assert "own RAM of 3.00 GB" in lines


def test_the_rows_of_the_run_are_drawn_against_the_rates() -> None:
    rows = [a_row(bytes_per_step=58_000_000, tpot_ms=ms, prefill_gflop_per_s=2010.0 / ms) for ms in (1.0, 2.0)]
    lines = lines_of((a_sample(),), a_run(rows=rows))
    assert lines["of 58.0 GB/s"].split() == ["29.0", "#=", "29.0", "58.0"]
    assert lines["of 2,010 GFLOP/s"].split()[0] == "1,005"
    failed = a_run(rows=[a_row(status="failed: out of memory")])
    assert "of 58.0 GB/s" not in lines_of((a_sample(),), failed)


def test_before_anything_is_sampled_it_says_so() -> None:
    assert any(
        "nothing sampled yet" in line for line in history_lines(BoxHistory((), None, MACHINE, None), 74, ASCII_LEVELS)
    )


# In the app


@pytest.mark.parametrize("size", SIZES)
async def test_tab_reaches_the_strip_last_and_enter_opens_the_last_minutes(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "assumed" in shown(app, "#strip"))
        await pilot.press("shift+tab")
        assert isinstance(app.focused, Strip)
        assert "enter box" in shown(app, "#keys")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, BoxScreen)
        view = app.screen.query_one("#box-history", Static)
        await until(pilot, lambda: "other load %" in str(view.content))
        assert max(map(len, str(view.content).split("\n"))) <= view.size.width
        await pilot.press("escape")
        assert app.screen is app.screen_stack[0]
        await pilot.press("question_mark")
        await pilot.pause()
        assert "THE STRIP" in message(app)


async def test_the_last_minutes_keep_still_while_a_window_is_open() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        app.action_box()
        await pilot.pause()
        view = app.screen.query_one("#box-history", Static)
        before, sampled = str(view.content), len(app.box_watch.monitor.history)
        for _ in range(3):
            app._tick()
            await pilot.pause()
        assert (str(view.content), len(app.box_watch.monitor.history)) == (before, sampled)
        gate.open.set()
        await finished(pilot, app)
        await until(pilot, lambda: len(app.box_watch.monitor.history) >= sampled)


async def test_the_strip_repaints_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.pause()
        strip = app.screen.query_one(Strip)
        strip.show(a_sample(), None)
        painted: list[str] = []
        monkeypatch.setattr(strip, "update", lambda text, layout: painted.append(text))
        strip.show(a_sample(at=1001.0, core_percent=(97.0, 5.0)), None)
        assert painted == []
        strip.show(a_sample(at=1002.0, core_percent=(10.0, 5.0)), None)
        assert len(painted) == 1


async def test_ascii_markers_make_ascii_bars() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert "█" in shown(app, "#strip") or "·" in shown(app, "#strip")
        app.action_markers()
        await pilot.pause()
        assert shown(app, "#strip").isascii()


async def test_a_finished_run_leaves_its_rates_to_the_strip() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[1]) as pilot:
        await until(pilot, lambda: "rates assumed" in shown(app, "#strip"))
        await pilot.press("r")
        await finished(pilot, app)
        assert app.box_watch.box is not None
        assert app.box_watch.box.B.origin is Origin.MEASURED
