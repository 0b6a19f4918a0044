"""The ledger: what counts in it, and that a prediction rests on no row of its own model."""

from typing import Any

import pytest

from tests.fakes import a_row
from workbench.predictions.ledger import (
    LEAST_ENTRIES,
    NONE_MEASURED,
    Phase,
    accuracy,
    accuracy_by_model,
    entries,
    quoted,
    quoted_briefly,
    spread,
    worst_first,
)
from workbench.predictions.prediction import UNKNOWN_SPREAD
from workbench.runs.row import Row

PREFILL_ENDS = {"predicted_ttft_low_ms": 18.0, "predicted_ttft_high_ms": 22.0}


def predicted_row(measured_ms: float, predicted_ms: float = 10.0, **changed: Any) -> Row:
    about: dict[str, Any] = {
        "tpot_median_ms": measured_ms,
        "predicted_tpot_ms": predicted_ms,
        "predicted_tpot_low_ms": 0.9 * predicted_ms,
        "predicted_tpot_high_ms": 1.1 * predicted_ms,
        "predicted_from": "timed operations",
    }
    return a_row(**(about | changed))


def test_an_entry_says_how_far_off_the_prediction_was_and_whether_inside() -> None:
    near, far = entries([predicted_row(10.5), predicted_row(20.0)])
    assert (near.phase, near.inside, far.inside) == (Phase.DECODE, True, False)
    assert far.error.value == pytest.approx(-0.5)
    (found,) = accuracy([near, far])
    assert found.count == 2
    assert found.inside.value == pytest.approx(0.5)
    assert found.worst_miss.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changed",
    [
        {"judgement": "disturbed"},
        {"judgement": "drifting"},
        {"status": "failed: memory"},
        {"predicted_from": None},
        {"extrapolated_from": "slices"},
    ],
)
def test_rows_of_a_disturbed_box_of_slices_and_without_prediction_are_left_out(changed: dict[str, Any]) -> None:
    assert entries([predicted_row(10.0, **changed)]) == []


def test_groups_are_of_a_model_a_dtype_and_a_phase_and_the_worst_miss_stands_first() -> None:
    rows = [
        predicted_row(10.5, ttft_median_ms=40.0, predicted_ttft_ms=20.0, **PREFILL_ENDS),
        predicted_row(10.1, dtype="bfloat16"),
        predicted_row(16.0, model="smollm2-135m"),
        predicted_row(11.0, model="smollm2-135m"),
    ]
    ledger = entries(rows)
    groups = accuracy_by_model(ledger)
    assert [(g.model, g.dtype, g.phase, g.count) for g in groups] == [
        ("qwen3-0.6b", "float32", Phase.PREFILL, 1),
        ("smollm2-135m", "float32", Phase.DECODE, 2),
        ("qwen3-0.6b", "float32", Phase.DECODE, 1),
        ("qwen3-0.6b", "bfloat16", Phase.DECODE, 1),
    ]
    assert [entry.measured.value for entry in worst_first(ledger) if groups[1].of(entry)] == [16.0, 11.0]
    assert sum(group.count for group in groups) == len(ledger)


def test_the_accuracy_is_quoted_in_a_line_that_fits() -> None:
    assert quoted([]) == quoted_briefly([]) == NONE_MEASURED
    decode = accuracy(entries([predicted_row(10.4), predicted_row(8.0)]))
    assert quoted(decode) == "predictions so far: decode median miss 14 %, worst 25 %, 2 rows"
    both = accuracy(entries([predicted_row(1.0, ttft_median_ms=2.0, predicted_ttft_ms=20.0, **PREFILL_ENDS)]))
    assert quoted_briefly(both) == "median miss so far: prefill 900 % (worst 900 %), decode 900 % (worst 900 %)"
    assert len(quoted_briefly(both)) <= 78
    assert len(NONE_MEASURED) <= 78


def test_the_spread_comes_from_other_models_alone() -> None:
    own = [predicted_row(30.0, model="qwen3-0.6b") for _ in range(3 * LEAST_ENTRIES)]
    assert spread(entries(own), Phase.DECODE, "qwen3-0.6b") == UNKNOWN_SPREAD
    others = [predicted_row(11.0, model="smollm2-135m") for _ in range(LEAST_ENTRIES)]
    alone = spread(entries(others), Phase.DECODE, "qwen3-0.6b")
    assert alone != UNKNOWN_SPREAD
    assert spread(entries([*own, *others]), Phase.DECODE, "qwen3-0.6b") == alone
    assert spread(entries(others), Phase.PREFILL, "qwen3-0.6b") == UNKNOWN_SPREAD


def test_a_worse_record_widens_the_interval() -> None:
    good = [predicted_row(10.0 + 0.02 * i, model="smollm2-135m") for i in range(LEAST_ENTRIES)]
    bad = [predicted_row(10.0 + i, model="smollm2-135m") for i in range(LEAST_ENTRIES)]
    assert spread(entries(good), Phase.DECODE, "x") < spread(entries(bad), Phase.DECODE, "x")
