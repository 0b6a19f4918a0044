import pytest

from tests.fakes import a_row
from workbench.runs.row import BATCH, COLUMN, COLUMNS, column_of
from workbench.runs.row_columns import BATCH_TABLE, SWEEP_TABLE

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


def test_every_formula_names_columns_that_exist() -> None:
    both = [*COLUMNS, *(column_of(name, BATCH) for name in COLUMN)]
    assert {name for column in both for name in column.inputs} <= set(COLUMN)
    assert {*SWEEP_TABLE, *BATCH_TABLE} <= set(COLUMN)
