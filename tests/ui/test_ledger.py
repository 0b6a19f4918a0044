"""The ledger over the Runs pane: opened by a key, the worst miss first, and a sentence where it is empty."""

from dataclasses import replace

import pytest
from textual.widgets import Static

from tests.predictions.test_ledger import PREFILL_ENDS, predicted_row
from tests.runs.test_store import a_run
from tests.ui.driving import SIZES, an_app, finished, message, shown, until
from workbench.hardware.machine import this_machine
from workbench.runs.samples import Samples
from workbench.runs.store import Store
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.ledger import LedgerScreen
from workbench.ui.widgets.record_table import RecordTable

LONG_NAME = "DeepSeek-R1-Distill-Qwen-1.5B-Q4_K_M-00001-of-00001"


def entries_table(app: WorkbenchApp) -> RecordTable:
    return app.screen.query_one("#ledger-entries", RecordTable)


async def test_l_shows_the_worst_miss_first_and_how_good_predictions_have_been() -> None:
    machine = str(this_machine())
    with Store() as store:
        store.add_run(a_run())
        for model, measured in (("smollm2-135m", 10.5), ("qwen3-0.6b", 20.0), (LONG_NAME, 10.4)):
            store.add_row(predicted_row(measured, model=model, machine=machine), Samples())
    app = an_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6", "l")
        await until(pilot, lambda: isinstance(app.screen, LedgerScreen))
        groups, table = app.screen.query_one("#ledger-groups", RecordTable), entries_table(app)
        assert [str(groups.get_row_at(line)[0]) for line in range(2)] == ["qwen3-0.6b", "smollm2-135m"]
        assert "3 rows" in str(app.screen.query_one("#ledger-words", Static).content)
        assert [str(cell) for cell in table.get_row_at(0)[-3:]] == ["20.0", "-50 %", "no"]
        # The entries are those of the group under the cursor, and every column is on the screen.
        await pilot.press("down")
        await until(pilot, lambda: str(table.get_row_at(0)[-3]) == "10.5")
        assert table.virtual_size.width <= table.size.width
        assert groups.virtual_size.width <= groups.size.width
        await pilot.press("escape")
        assert not isinstance(app.screen, LedgerScreen)


async def test_an_empty_ledger_says_how_it_is_filled() -> None:
    app = an_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6", "l")
        await until(pilot, lambda: isinstance(app.screen, LedgerScreen))
        assert "r on the Setup pane" in str(app.screen.query_one("#ledger-words", Static).content)


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_with_predictions_quotes_how_good_they_have_been(size: tuple[int, int]) -> None:
    row = predicted_row(20.0, machine=str(this_machine()), predicted_ttft_ms=20.0, ttft_median_ms=25.0, **PREFILL_ENDS)
    with Store() as store:
        store.add_run(replace(a_run(), machine=row.machine))
        store.add_row(row, Samples())
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("6", "enter")
        await until(pilot, lambda: "decode" in shown(app, "#quoted"))
        assert "prefill" in shown(app, "#quoted")
        await pilot.press("right", "right", "enter")
        await pilot.pause()
        text = message(app)
        for word in ("predicted TTFT", "18.0 ms", "22.0 ms", "timed operations", "decode median miss 50 %"):
            assert word in text


async def test_a_run_without_predictions_quotes_nothing() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await finished(pilot, app)
        assert not app.screen.query_one("#quoted").display
