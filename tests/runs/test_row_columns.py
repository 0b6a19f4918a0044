"""Which columns a table of rows has, and that it fits 80 of a terminal."""

import pytest

from tests.fakes import a_row
from tests.predictions.test_ledger import predicted_row
from workbench.output import RowTable
from workbench.runs.row import BATCH, PREFILL_DECODE
from workbench.runs.row_columns import WHERE_PREDICTED, columns_shown


def test_predictions_stand_beside_the_measured_where_there_are_any() -> None:
    without = [column.name for column in columns_shown(PREFILL_DECODE, [a_row()])]
    assert not set(WHERE_PREDICTED) & set(without)
    rows = [a_row(), predicted_row(10.0, predicted_ttft_ms=20.0)]
    shown = [column.name for column in columns_shown(PREFILL_DECODE, rows)]
    assert shown[shown.index("ttft_ms") + 1] == "predicted_ttft_ms"
    assert shown[shown.index("tpot_ms") + 1] == "predicted_tpot_ms"


@pytest.mark.parametrize("kind", [PREFILL_DECODE, BATCH])
def test_the_table_fits_78_columns(kind: str) -> None:
    columns = columns_shown(kind, [predicted_row(10.0, predicted_ttft_ms=20.0)])
    assert sum(column.width for column in columns) <= 78


def test_rows_of_slices_say_so_with_their_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    row = predicted_row(
        1126.0,
        ttft_ms=3268.0,
        ttft_median_ms=3340.0,
        ttft_low_ms=2428.0,
        ttft_high_ms=4251.0,
        tpot_low_ms=907.0,
        tpot_high_ms=1345.0,
        extrapolated_from="slices of 2 and 4 of 36 layers",
    )
    RowTable(PREFILL_DECODE).print_row(row)
    printed = capsys.readouterr().out.splitlines()
    assert "extrapolated: TTFT 2,428 to 4,251, TPOT 907 to 1,345 ms (95 %)" in printed[3]
    assert max(map(len, printed[:4])) <= 80


def test_rows_that_began_on_a_filled_cache_are_told_apart_by_their_depth(capsys: pytest.CaptureFixture[str]) -> None:
    fresh, deep = (a_row(prompt_tokens=16, depth_tokens=d, ttft_ms=10.0) for d in (0, 512))
    steps = a_row(prompt_tokens=512, depth_tokens=512, tpot_ms=10.0)
    table = RowTable(PREFILL_DECODE, [fresh, deep, steps])
    for row in (fresh, deep, steps):
        table.print_row(row)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["prompt", "depth"]
    assert [line.split()[:2] for line in lines[2:]] == [["16", "0"], ["16", "512"], ["–", "512"]]
    assert "depth_tokens" not in [column.name for column in columns_shown(PREFILL_DECODE, [a_row()])]


def test_what_is_to_be_said_of_every_row_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [a_row(flags="imported from a tool; no ceiling"), a_row(flags="imported from a tool; a mean; no ceiling")]
    table = RowTable(PREFILL_DECODE, rows)
    for row in rows:
        table.print_row(row)
    printed = capsys.readouterr().out
    assert printed.count("imported from a tool") == printed.count("no ceiling") == 1
    assert printed.startswith("! every row: imported from a tool\n! every row: no ceiling\n")
    assert printed.splitlines()[-1].strip() == "! a mean"
