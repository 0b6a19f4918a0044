"""What a cell of a row shows, and from what it follows."""

import pytest

from tests.fakes import a_row
from workbench.quantity import Origin, Unit
from workbench.runs.cell import cell, column_of_row, quantity
from workbench.runs.labels import labels
from workbench.runs.row import BATCH
from workbench.runs.row_columns import table_columns


def test_what_was_not_measured_is_an_empty_cell_and_zero_is_zero() -> None:
    assert cell(a_row(), "ttft_ms") == ""
    assert cell(a_row(ttft_ms=0.0), "ttft_ms") == "0"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("prompt_tokens", 4096, "4,096"),
        ("ttft_ms", 39_897.4, "39,897"),
        ("tpot_ms", 206.93, "206.9"),
        ("decode_tokens_per_s", 4.83, "4.83"),
        ("ceiling_share", 0.23, "23 %"),
        ("ceiling_share", 0.004, "0.4 %"),
        ("bytes_per_step", 2_384_199_680, "2.38 GB"),
        ("bound_by", "bytes", "bytes"),
    ],
)
def test_cells_are_written_for_their_heading(name: str, value: object, shown: str) -> None:
    assert cell(a_row(**{name: value}), name) == shown


def test_a_cell_explains_itself_from_other_cells() -> None:
    figure = quantity(a_row(ttft_ms=50.0, prompt_tokens_per_s=320.0), "prompt_tokens_per_s")
    assert figure is not None
    assert figure.formula == "n / TTFT"
    assert figure.origin is Origin.MEASURED
    assert [(i.value, i.unit) for i in figure.inputs] == [(16, Unit.TOKENS), (50.0, Unit.MILLISECONDS)]


def test_text_has_no_quantity() -> None:
    assert quantity(a_row(bound_by="bytes"), "bound_by") is None


def test_a_batch_row_explains_its_rates_by_the_median_step() -> None:
    row = a_row(kind=BATCH, batch=8, tpot_ms=30.0, step_ms=40.0, total_tokens_per_s=200.0, decode_tokens_per_s=25.0)
    total, each = quantity(row, "total_tokens_per_s"), quantity(row, "decode_tokens_per_s")
    assert total is not None
    assert each is not None
    assert (total.formula, [i.value for i in total.inputs]) == ("b / step", [8, 40.0])
    assert (each.formula, [i.value for i in each.inputs]) == ("1 / step", [40.0])
    swept = quantity(a_row(tpot_ms=30.0, total_tokens_per_s=33.3), "total_tokens_per_s")
    assert swept is not None
    assert swept.formula == "b / TPOT"
    assert [column.heading for column in table_columns(BATCH)][:2] == ["context", "batch"]
    assert "batch" not in labels([row])


def test_a_time_without_samples_is_explained_as_a_mean() -> None:
    mean, best = a_row(ttft_ms=10.0), a_row(ttft_ms=10.0, ttft_median_ms=11.0)
    assert "a mean" in column_of_row(mean, "ttft_ms").meaning
    assert "best repeat" in column_of_row(best, "ttft_ms").meaning
    assert "a mean" in column_of_row(a_row(kind="batch", step_ms=1.0), "step_ms").meaning
