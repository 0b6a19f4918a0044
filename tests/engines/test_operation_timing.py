"""Timing the operations of a pass on torch: all of them have cells, and every round adds to the samples of each."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path

import pytest

from tests.engines.test_batches import MIXTURE
from workbench.engines import framework_timing, operation_timing
from workbench.engines.operation_timing import MOST_UNSETTLED, time_operations, working_bytes
from workbench.experiments.plan import Plan, plan
from workbench.experiments.settings import SweepSettings, Weights
from workbench.hardware.probe.operations import OperationBench
from workbench.hardware.timings import FRAMEWORK, Operation, Table, Task
from workbench.predictions.passes import decode_step, prefill
from workbench.predictions.prediction import predicted
from workbench.predictions.timing_pace import ROUNDS
from workbench.runner import Cancelled, CancelToken


@pytest.fixture(autouse=True)
def few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_timing, "PASS_S", 0.001)
    monkeypatch.setattr(operation_timing, "PASSES", 1)
    monkeypatch.setattr(operation_timing, "LEAST_PASSES", 1)
    monkeypatch.setattr(operation_timing, "PASSES_S", 0.0)
    monkeypatch.setattr(operation_timing, "STEADY", 1e9)
    monkeypatch.setattr(framework_timing, "NARROW_STEPS", 3)
    monkeypatch.setattr(framework_timing, "NARROW_WARM_UPS", 0)


def a_plan(folder: Path) -> Plan:
    path = folder / "config.json"
    path.write_text(json.dumps(MIXTURE))
    return plan(SweepSettings(model=str(path), prompts=(8,), device="cpu", weights=Weights.SYNTHETIC, threads=1))


def test_every_operation_of_a_mixtures_passes_has_a_cell_of_its_own(tmp_path: Path) -> None:
    planned = a_plan(tmp_path)
    passes = [decode_step(planned.resident, 9), decode_step(planned.resident, 9, 3), prefill(planned.resident, 8)]
    batches = list(time_operations(planned.settings, planned.resident, passes, CancelToken()))
    assert {cell.operation.task for cell in batches[0]} == set(FRAMEWORK)
    assert len(batches) == 1 + ROUNDS * len(passes)
    table = Table(cell for cells in batches for cell in cells)
    size = batches[1][0].working_bytes
    for each in passes:
        found = predicted(each, table, size)
        assert found is not None
        assert found.timed == 1.0
    assert Task.EXPERTS in {operation.task for operation in passes[0].counts}


def test_what_several_passes_run_is_timed_in_the_first_of_them_alone(tmp_path: Path) -> None:
    planned = a_plan(tmp_path)
    passes = [decode_step(planned.resident, t) for t in (9, 30)]
    cells = list(time_operations(planned.settings, planned.resident, passes, CancelToken()))
    assert {cell.operation.task for cell in cells[2]} == {Task.ATTEND}
    samples = {cell.operation: len(cell.seconds) for each in cells[1:] for cell in each}
    assert set(samples.values()) == {ROUNDS}
    assert set(samples) == {o for each in passes for o in each.counts if o.task not in FRAMEWORK}


def test_what_took_otherwise_in_one_round_than_in_another_is_timed_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_timing, "_agree", lambda totals: False)
    planned = a_plan(tmp_path)
    *_, last = time_operations(planned.settings, planned.resident, [decode_step(planned.resident, 9)], CancelToken())
    assert {len(cell.seconds) for cell in last} >= {ROUNDS + 1}


def given_pages(monkeypatch: pytest.MonkeyPatch, passes: int) -> None:
    """As many pages as any pass is disturbed by in the first so many, none after those."""
    counts = chain.from_iterable((number * 10**9, (number + (number < passes)) * 10**9) for number in count())
    monkeypatch.setattr(operation_timing, "page_faults", lambda: next(counts))


@pytest.mark.parametrize("disturbed", [0, 1, MOST_UNSETTLED, MOST_UNSETTLED + 1])
def test_a_step_that_the_system_gave_pages_does_not_count(
    disturbed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def seconds(bench: OperationBench, operations: Sequence[Operation]) -> dict[Operation, float]:
        asked.append(float(len(asked)))
        return dict.fromkeys((o for o in operations if o.task not in FRAMEWORK), asked[-1])

    monkeypatch.setattr(OperationBench, "seconds", seconds)
    monkeypatch.setattr(operation_timing, "time_framework", lambda *_: ())
    given_pages(monkeypatch, disturbed)
    planned = a_plan(tmp_path)
    passes = [decode_step(planned.resident, 9)]
    _, first, *_ = time_operations(planned.settings, planned.resident, passes, CancelToken())
    # One layer was timed twice before, to see how long it takes.
    assert {cell.seconds for cell in first} == {(float(2 + min(disturbed, MOST_UNSETTLED)),)}


def test_disturbed_passes_do_not_count_and_more_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two of a layer only tell how long it takes."""
    takes = iter([1.0, 1.0, 2.0, 1.0, 3.0, 1.05, *[1.0] * 100])

    def seconds(bench: OperationBench, operations: Sequence[Operation]) -> dict[Operation, float]:
        return dict.fromkeys((o for o in operations if o.task not in FRAMEWORK), next(takes))

    monkeypatch.setattr(OperationBench, "seconds", seconds)
    monkeypatch.setattr(operation_timing, "time_framework", lambda *_: ())
    monkeypatch.setattr(operation_timing, "PASSES", 4)
    monkeypatch.setattr(operation_timing, "STEADY", 1.1)
    monkeypatch.setattr(operation_timing, "FEW_PASSES", 2)
    planned = a_plan(tmp_path)
    passes = [decode_step(planned.resident, 9)]
    _, first, *_ = time_operations(planned.settings, planned.resident, passes, CancelToken())
    assert {cell.seconds for cell in first} == {(1.0, 1.05)}


def test_the_pages_that_a_prefill_is_given_are_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_pages(monkeypatch, 10)
    monkeypatch.setattr(operation_timing, "PASS_S", 0.0)
    passes_timed: list[int] = []
    seconds = OperationBench.seconds

    def counted(bench: OperationBench, operations: Sequence[Operation]) -> Mapping[Operation, float]:
        passes_timed.append(1)
        return seconds(bench, operations)

    monkeypatch.setattr(OperationBench, "seconds", counted)
    monkeypatch.setattr(operation_timing, "time_framework", lambda *_: ())
    planned = a_plan(tmp_path)
    timed = time_operations(planned.settings, planned.resident, [prefill(planned.resident, 8)], CancelToken())
    next(timed)
    next(timed)
    assert len(passes_timed) == 3


def test_it_can_be_stopped_between_passes(tmp_path: Path) -> None:
    planned, cancel = a_plan(tmp_path), CancelToken()
    timed = time_operations(planned.settings, planned.resident, [decode_step(planned.resident, 9)], cancel)
    next(timed)
    cancel.cancel()
    with pytest.raises(Cancelled):
        next(timed)


def test_a_pass_that_memory_has_no_room_for_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = a_plan(tmp_path)
    small, large = decode_step(planned.resident, 9), decode_step(planned.resident, 30_000)
    monkeypatch.setattr(operation_timing, "available_bytes", lambda: 20_000_000)
    timed = time_operations(planned.settings, planned.resident, [large, small], CancelToken())
    table = Table(cell for cells in timed for cell in cells)
    size = max(cell.working_bytes for cell in table.timings)
    assert (found := predicted(small, table, size)) is not None
    assert found.timed == 1.0
    far = table.estimate(next(o for o in large.counts if o.task is Task.ATTEND), size)
    assert far is None or not far.timed


def test_products_beside_larger_caches_are_timed_on_their_own(tmp_path: Path) -> None:
    """A weight is read again after more bytes, of which less is still in the last-level cache."""
    planned = a_plan(tmp_path)
    passes = [decode_step(planned.resident, t) for t in (9, 3_000)]
    cells = list(time_operations(planned.settings, planned.resident, passes, CancelToken()))
    for cell in cells[2]:
        assert cell.working_bytes == working_bytes(planned.settings, planned.resident, passes[1])
    assert {Task.PRODUCT, Task.ATTEND} <= {cell.operation.task for cell in cells[2]}
