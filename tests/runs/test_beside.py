"""The words beside a row of a batch sweep: bound and prediction by name, experts, and what a step reads and holds."""

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import a_row
from workbench.output import RowTable
from workbench.runs.beside import experts_words, predicted_words, step_words, sum_words
from workbench.runs.row import BATCH, Row


def a_batch_row(**changed: Any) -> Row:
    values: dict[str, Any] = {
        "kind": BATCH,
        "batch": 4,
        "ceiling_tokens_per_s": 5.0,
        "weight_bytes": 2_000_000_000,
        "cache_bytes": 8_000_000,
        "step_flop": 4_310_000_000,
        "predicted_resident_bytes": 3_000_000_000,
        "resident_bytes": 2_900_000_000,
    }
    return a_row(**{**values, **changed})


def test_bound_and_prediction_are_named_apart() -> None:
    assert step_words(a_batch_row(predicted_tpot_ms=231.0)) == "bound 200 ms · predicted 231 ms"
    assert step_words(a_batch_row()) == "bound 200 ms · not predicted: p probes what few rows get of C"
    assert step_words(a_batch_row(ceiling_tokens_per_s=None)) == ""


def test_a_prediction_that_missed_has_the_measurement_beside_it_and_what_made_it_doubtful() -> None:
    row = a_row(
        predicted_tpot_ms=152.0, predicted_tpot_low_ms=123.0, predicted_tpot_high_ms=188.0, predicted_from="operations"
    )
    held, missed = replace(row, tpot_median_ms=130.0), replace(row, tpot_median_ms=104.0)
    assert predicted_words(held) == "predicted TPOT 152 (123 to 188) ms"
    assert predicted_words(missed) == "predicted TPOT 152 (123 to 188) but was 104 ms"
    busy = replace(missed, predicted_from="operations; beside other programs that took 37% of the cores")
    assert predicted_words(busy).endswith("but was 104 ms; beside other programs that took 37% of the cores")


def test_experts_counted_stand_beside_those_expected() -> None:
    assert experts_words(a_batch_row()) == ""
    assert (
        experts_words(a_batch_row(experts_touched=27.5, experts_expected=29.11)) == "experts read 27.5, expected 29.1"
    )
    assert experts_words(a_batch_row(experts_expected=29.11)) == "experts not counted, expected 29.1"


def test_the_sum_has_its_ceiling_and_the_step_what_it_reads_does_and_holds() -> None:
    assert sum_words(a_batch_row()) == (
        "ceiling 5.00 tok/s each, 20.0 together · reads 2.00 GB of weights, 8.00 MB of caches · 4.31 GFLOP · "
        "memory predicted 3.00 GB, held 2.90 GB"
    )


def test_the_printed_table_says_them_under_a_mixtures_row(capsys: pytest.CaptureFixture[str]) -> None:
    RowTable(BATCH).print_row(a_batch_row(experts_touched=27.5, experts_expected=29.11))
    assert capsys.readouterr().out.splitlines()[-1].strip() == "experts read 27.5, expected 29.1"
