"""The ledger: what counts in it, and that a prediction rests on no row of its own model."""

from typing import Any

import pytest

from tests.fakes import a_row
from workbench.predictions.ledger import LEAST_ENTRIES, Phase, accuracy, entries, spread
from workbench.predictions.prediction import UNKNOWN_SPREAD
from workbench.runs.row import Row


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
    [{"judgement": "disturbed"}, {"judgement": "drifting"}, {"status": "failed: memory"}, {"predicted_from": None}],
)
def test_rows_of_a_disturbed_box_and_rows_without_prediction_are_left_out(changed: dict[str, Any]) -> None:
    assert entries([predicted_row(10.0, **changed)]) == []


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
