import pytest

from tests.fakes import a_row
from workbench.quantity import Origin, Unit
from workbench.runs.row import BATCH, BATCH_TABLE, COLUMN, COLUMNS, SWEEP_TABLE, cell, labels, quantity, table_columns

DESIGN_COLUMNS = [
    "run_id",
    "started_at",
    "kind",
    "machine",
    "track",
    "engine",
    "engine_version",
    "model",
    "architecture",
    "quantisation",
    "dtype",
    "device",
    "threads",
    "weights",
    "prompt_tokens",
    "context_tokens",
    "batch",
    "new_tokens",
    "repeats",
    "ttft_ms",
    "ttft_median_ms",
    "prompt_tokens_per_s",
    "prefill_gflop_per_s",
    "tpot_ms",
    "tpot_median_ms",
    "decode_tokens_per_s",
    "total_tokens_per_s",
    "bytes_per_step",
    "ceiling_tokens_per_s",
    "ceiling_share",
    "ceiling_basis",
    "predicted_ttft_ms",
    "predicted_tpot_ms",
    "bound_by",
    "ui_share",
    "other_load",
    "status",
    "flags",
]


def test_the_columns_are_the_designs_in_order() -> None:
    assert [column.name for column in COLUMNS][: len(DESIGN_COLUMNS)] == DESIGN_COLUMNS


@pytest.mark.parametrize("label", ["model", "quantisation", "dtype", "engine", "machine"])
def test_a_row_without_a_label_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match=label):
        a_row(**{label: " "})


@pytest.mark.parametrize("label", ["context_tokens", "batch"])
def test_a_row_without_context_or_batch_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="context and batch"):
        a_row(**{label: 0})


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


def test_every_formula_names_columns_that_exist() -> None:
    both = [*COLUMNS, *(column.of_kind(BATCH) for column in COLUMNS)]
    assert {name for column in both for name in column.inputs} <= set(COLUMN)
    assert {*SWEEP_TABLE, *BATCH_TABLE} <= set(COLUMN)


def test_labels_name_all_six() -> None:
    line = labels([a_row(quantisation="Q4_1, dequantised")])
    for word in ("qwen3-0.6b", "Q4_1, dequantised", "float32", "batch 1", "transformers 5.24.0", "a box"):
        assert word in line


def test_labels_say_new_tokens_only_of_rows_that_decode() -> None:
    prefill = a_row(new_tokens=1, ttft_ms=10.0)
    steps = a_row(new_tokens=16, tpot_ms=10.0)
    assert "new token" not in labels([prefill])
    assert " · 16 new tokens · " in labels([prefill, steps])
    assert " · 1 new token · " in labels([a_row(new_tokens=1, tpot_ms=10.0)])
