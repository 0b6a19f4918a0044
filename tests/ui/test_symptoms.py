"""Symptoms and the perturbation in the app: w says what the rows show, v varies and reads the result."""

import pytest

from tests.ui.driving import SIZES, Gate, an_app, finished, message, shown, until
from workbench.runs.store import Store
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explanation import TextScreen


@pytest.mark.parametrize("size", SIZES)
async def test_w_says_which_symptoms_the_rows_show_present_ones_first(size: tuple[int, int]) -> None:
    app = an_app(prompts=(1, 16, 64, 256), repeats=6)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert "w why" in shown(app, "#keys")
        await pilot.press("w")
        text = message(app)
        assert "PRESENT · the first token waits longer the longer the prompt · prefill" in text
        assert "TTFT(256) / TTFT(1)" in text
        assert text.index("PRESENT") < text.index("ABSENT") < text.index("CAN'T TELL")
        untold = text[text.index("CAN'T TELL") :]
        assert untold.count("workbench batch MODEL") == 1
        assert "would tell these" in untold
        await pilot.press("escape")
        assert not isinstance(app.screen, TextScreen)


async def test_w_explains_the_kept_run_under_the_cursor() -> None:
    app = an_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        await pilot.press("6")
        await pilot.pause()
        await pilot.press("w")
        assert app.live is not None
        assert app.live.run is not None
        assert app.live.run.run_id in message(app)


async def test_without_a_run_w_says_what_to_do() -> None:
    app = an_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "w")
        assert "r runs a sweep" in message(app)


@pytest.mark.parametrize("size", SIZES)
async def test_v_varies_the_prompt_then_the_sequences_and_reads_the_result(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("5")
        assert "v vary" in shown(app, "#keys")
        app.screen.query_one("#gap-context", Entry).value = "8"
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        text = message(app)
        assert "PROMPT: with a prompt of 1,024 instead of 16" in text
        assert "SEQUENCES: with 16 sequences of 8 tokens instead of 1" in text
        assert "TTFT_max / TTFT_min" in text
        await pilot.press("escape")
        assert app.screen.query_one("#batch").display
    with Store() as store:
        assert sorted((run.kind, run.rows) for run in store.runs()) == [("batch", 5), ("prefill_decode", 4)]


async def test_a_perturbation_that_is_stopped_says_what_it_lacks() -> None:
    gate = Gate(256)
    app = an_app(gate)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("5", "v")
        await until(pilot, gate.reached.is_set)
        await pilot.press("x")
        gate.open.set()
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        assert "fewer than two batches were measured" in message(app)


async def test_v_is_refused_while_something_is_measured() -> None:
    gate = Gate(16)
    app = an_app(gate)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("5", "v")
        assert "Two must not overlap" in message(app)
        gate.open.set()
        await pilot.press("escape")
        await finished(pilot, app)
