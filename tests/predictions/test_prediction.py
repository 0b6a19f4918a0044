"""A pass as the sum of its operations: by hand, between cells, and less sure where less is known."""

from dataclasses import replace
from statistics import median

import pytest

from tests.predictions.cells import W, cell, cells_of
from workbench.hardware.timings import Operation, Table, Task
from workbench.models.resolve import resolve
from workbench.predictions.passes import decode_step
from workbench.predictions.prediction import predicted

MODEL = resolve("smollm2-135m")
STEP = decode_step(MODEL, 32)


def test_a_pass_takes_the_sum_of_its_calls() -> None:
    found = predicted(STEP, Table(cells_of(STEP)), W)
    assert found is not None
    assert found.seconds == pytest.approx(sum(count * 1e-9 * op.amount for op, count in STEP.counts.items()))
    assert found.timed == pytest.approx(1.0)
    assert sum(part.value for part in found.time.inputs) == pytest.approx(found.seconds)


def test_the_interval_holds_the_prediction_and_widens_with_the_spread_of_the_cells() -> None:
    steady = predicted(STEP, Table(cells_of(STEP)), W)
    restless = predicted(STEP, Table(cells_of(STEP, spread=0.2)), W)
    assert steady is not None
    assert restless is not None
    assert steady.low_s < steady.seconds < steady.high_s
    assert restless.high_s / restless.low_s > steady.high_s / steady.low_s


def test_what_was_timed_beside_other_programs_is_less_sure_by_what_they_took() -> None:
    quiet, busy = (
        predicted(STEP, Table(replace(each, other_load=load) for each in cells_of(STEP)), W) for load in (0.02, 0.37)
    )
    assert quiet is not None
    assert busy is not None
    assert busy.low_s < quiet.seconds / (1 + 0.37) < quiet.low_s
    assert busy.time.source.endswith("; beside other programs that took 37% of the cores")


def test_what_was_not_timed_lies_between_its_neighbours_and_is_less_sure() -> None:
    few, many = (Operation(Task.PRODUCT, 1, (width, 576)) for width in (512, 2048))
    table = Table([cell(few, 1e-4), cell(many, 4e-4)])
    found = table.estimate(Operation(Task.PRODUCT, 1, (1024, 576)), W)
    assert found is not None
    assert not found.timed
    assert found.seconds == pytest.approx(2e-4)
    others = [cell for cell in cells_of(STEP) if cell.operation.shape != (1536, 576)]
    between, itself = predicted(STEP, Table(others), W), predicted(STEP, Table(cells_of(STEP)), W)
    assert between is not None
    assert itself is not None
    assert between.timed < 1
    assert between.high_s / between.low_s > itself.high_s / itself.low_s


def test_nothing_is_predicted_of_a_pass_of_which_a_kind_of_operation_was_never_timed() -> None:
    assert predicted(STEP, Table(c for c in cells_of(STEP) if c.operation.task is not Task.ATTEND), W) is None
    # What the framework takes is left out instead.
    without = predicted(STEP, Table(c for c in cells_of(STEP) if c.operation.task is not Task.LAYER), W)
    assert without is not None


def test_a_cell_of_a_cached_working_set_is_no_cell_of_a_large_one() -> None:
    product = Operation(Task.PRODUCT, 1, (576, 576))
    table = Table([cell(product, 1e-5, working_bytes=W // 8), cell(product, 3e-5, working_bytes=W)])
    found = table.estimate(product, W)
    assert found is not None
    assert found.seconds == 3e-5
    assert median(found.cells[0].seconds) == 3e-5


def test_what_a_lone_cell_of_its_kind_says_of_another_operation_is_no_timing_of_it() -> None:
    attention = [cell for cell in cells_of(STEP) if cell.operation.task is Task.ATTEND]
    table = Table(attention[:1])
    own = table.estimate(attention[0].operation, W)
    other = table.estimate(replace(attention[0].operation, rows=7), W)
    assert own is not None
    assert own.timed
    assert other is not None
    assert not other.timed
