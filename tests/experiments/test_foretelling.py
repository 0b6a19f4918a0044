"""Predictions of a run: made and kept before it is measured, from operations alone, and never altered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.fakes import a_row, fake_load
from tests.predictions.cells import TAKEN_AT, UNDER
from tests.predictions.fake_timer import FakeTimer
from tests.predictions.test_ledger import predicted_row
from tests.runs.test_store import a_run
from workbench.experiments.events import Event, OperationsTimed, PointsForetold, Predicted, Progress, RowMeasured
from workbench.experiments.foretelling import foretell, predict, timing_seconds
from workbench.experiments.plan import plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.hardware.machine import this_machine, usable_cores
from workbench.runner import CancelToken, drive
from workbench.runs.foretold import Foretold
from workbench.runs.run import now
from workbench.runs.samples import Samples
from workbench.runs.store import Store

SETTINGS = SweepSettings(model="smollm2-135m", prompts=(1, 64), repeats=3, new_tokens=5)


def driven(timer: FakeTimer) -> list[Event]:
    found: list[Event] = []
    with Store() as store:
        drive(sweep(SETTINGS, fake_load(), TimedWindow(), None, timer), CancelToken(), store, found.append)
    return found


def foretold(timer: FakeTimer, run_id: str = "", renew: bool | None = None) -> list[Foretold]:
    events: list[Event] = []

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        yield from foretell(plan(SETTINGS), run_id, timer, Store, TimedWindow(), cancel, renew=renew)

    with Store() as store:
        drive(experiment, CancelToken(), store, events.append)
    (found,) = [event for event in events if isinstance(event, PointsForetold)]
    return list(found.points)


def test_every_point_is_predicted_and_kept_before_anything_is_measured() -> None:
    events = [event for event in driven(FakeTimer()) if not isinstance(event, Progress)]
    kinds = [type(event) for event in events]
    assert kinds.index(PointsForetold) < kinds.index(Predicted) < kinds.index(RowMeasured)
    rows = [event.row for event in events if isinstance(event, RowMeasured)]
    with Store() as store:
        kept = store.predicted.points(rows[0].run_id)
    for row, point in zip(rows, kept, strict=True):
        assert {name: getattr(row, name) for name in point.columns} == point.columns
        assert point.tpot_ms is not None
        assert point.ttft_ms is not None
    floors = next(event for event in events if isinstance(event, Predicted)).floors
    assert [floor.predicted_step and floor.predicted_step.value * 1e3 for floor in floors] == [p.tpot_ms for p in kept]


def test_a_prediction_rests_on_no_row_of_its_own_model_whatever_that_says() -> None:
    timer = FakeTimer(taken_at=now())
    before = foretold(timer)
    machine = str(this_machine())
    with Store() as store:
        store.add_run(a_run())
        for _ in range(20):
            row = predicted_row(1000.0, model="smollm2-135m", machine=machine, ttft_median_ms=5000.0)
            store.add_row(row, Samples((5.0,), (1.0,)))
        store.add_row(a_row(model="smollm2-135m", machine=machine, tpot_ms=1.0), Samples((0.1,), (0.001,)))
    assert foretold(timer) == before


def test_what_was_predicted_of_a_run_is_never_altered() -> None:
    first = foretold(FakeTimer(nanoseconds=1.0), run_id="run")
    again = foretold(FakeTimer(nanoseconds=3.0), run_id="run", renew=True)
    assert again == first
    with Store() as store:
        assert store.predicted.points("run") == first


def test_fresh_cells_are_not_timed_again_and_old_ones_are() -> None:
    foretold(FakeTimer())
    timer = FakeTimer(nanoseconds=2.0)
    foretold(timer)
    assert timer.asked == []
    foretold(timer, renew=True)
    assert len(timer.asked) == 2 * len(SETTINGS.prompts)


def test_old_cells_are_timed_again_before_a_run_but_do_for_a_look_ahead() -> None:
    foretold(FakeTimer(taken_at=TAKEN_AT))
    timer = FakeTimer()
    foretold(timer, renew=False)
    assert timer.asked == []
    foretold(timer)
    assert len(timer.asked) == 2 * len(SETTINGS.prompts)


@pytest.mark.parametrize("changed", [{"threads": 1}, {"versions": "another torch"}, {"policy": "powersave"}])
def test_cells_of_another_state_of_the_box_predict_nothing(changed: dict[str, object]) -> None:
    foretold(FakeTimer())
    timer = FakeTimer(under=replace(UNDER, **changed))  # type: ignore[arg-type]
    foretold(timer, renew=False)
    assert len(timer.asked) == 2 * len(SETTINGS.prompts)


def stages(timer: FakeTimer, renew: bool | None = None) -> list[str]:
    events: list[Event] = []

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        yield from foretell(plan(SETTINGS), "", timer, Store, TimedWindow(), cancel, renew=renew)

    with Store() as store:
        drive(experiment, CancelToken(), store, events.append)
    return [event.stage for event in events if isinstance(event, Progress)]


def test_what_differs_from_the_state_that_cells_were_timed_in_is_told() -> None:
    (first,) = stages(FakeTimer())
    assert "again" not in first
    (again,) = stages(FakeTimer(under=replace(UNDER, threads=1, versions="5.24.0, torch 2.14.0")))
    assert "with 2 threads, transformers 5.24.0, torch 2.13.0; now 1 thread, transformers 5.24.0, torch 2.14.0" in again


def test_cells_of_another_dtype_are_no_earlier_state_of_the_box() -> None:
    stages(FakeTimer(under=replace(UNDER, dtype="bfloat16")))
    (stage,) = stages(FakeTimer())
    assert "again" not in stage


def test_the_age_of_cells_that_are_timed_again_is_told() -> None:
    stages(FakeTimer(taken_at=TAKEN_AT))
    (stage,) = stages(FakeTimer())
    assert "days ago" in stage


def test_where_the_timing_stands_is_told_with_what_is_left_of_it_and_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.experiments.foretelling.TELL_AFTER_S", 0.0)
    # Before the run, which measures the rates that the next plan goes by.
    planned = plan(SETTINGS)
    seconds, timing_s = planned.seconds, timing_seconds(planned, Store, renew=True)
    progress = [event for event in driven(FakeTimer()) if isinstance(event, Progress)]
    assert [each.stage for each in progress[1:3]] == [
        "timing a decode step with 1 in the cache, 2 of 8",
        "timing a decode step with 66 in the cache, 3 of 8",
    ]
    assert progress[0].left_s == pytest.approx(seconds + timing_s)
    assert all((each.left_s or 0.0) > seconds for each in progress[:3])


def test_the_time_of_what_must_be_timed_first_is_known_beforehand() -> None:
    planned, here = plan(SETTINGS), replace(UNDER, machine=str(this_machine()), threads=usable_cores())
    assert timing_seconds(planned, Store) > 0
    foretold(FakeTimer(under=here))
    assert timing_seconds(planned, Store) == 0
    assert timing_seconds(replace(planned, settings=replace(SETTINGS, dtype="bfloat16")), Store) > 0
    assert timing_seconds(replace(planned, settings=replace(SETTINGS, device="cuda")), Store) == 0


def test_without_a_timer_for_the_device_rows_have_no_prediction() -> None:
    rows = [event.row for event in driven(FakeTimer(under=None)) if isinstance(event, RowMeasured)]
    assert [row.predicted_tpot_ms for row in rows] == [None, None]


def test_predicting_alone_leaves_the_cells_and_no_run() -> None:
    events: list[Event] = []
    with Store() as store:
        experiment = predict(plan(SETTINGS), FakeTimer(), Store, TimedWindow(), renew=False)
        drive(experiment, CancelToken(), store, events.append)
        assert store.runs() == []
        assert store.predicted.timings(UNDER)
    assert any(isinstance(event, OperationsTimed) for event in events)


def test_a_run_that_is_deleted_takes_its_predictions_with_it() -> None:
    rows = [event.row for event in driven(FakeTimer()) if isinstance(event, RowMeasured)]
    with Store() as store:
        assert store.predicted.points(rows[0].run_id)
        store.delete_run(rows[0].run_id)
        assert not store.predicted.points(rows[0].run_id)


class BusyWindow(TimedWindow):
    """A window in which other programs take half of the cores while the first `busy` batches are timed."""

    def __init__(self, busy: int) -> None:
        super().__init__()
        self.busy = busy

    @contextmanager
    def timed(self, record: Callable[[Disturbance], None]) -> Iterator[None]:
        yield
        self.busy -= 1
        record(Disturbance(open_s=1.0, other_cpu_s=1.0 if self.busy >= 0 else 0.0, cores=2))


@pytest.mark.parametrize(("busy", "asked", "kept"), [(0, 4, True), (4, 8, True), (100, 8, False)])
def test_what_was_timed_beside_other_load_is_timed_once_more_and_else_not_kept(
    busy: int, asked: int, kept: bool
) -> None:
    timer, events = FakeTimer(), list[Event]()

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        yield from foretell(plan(SETTINGS), "run", timer, Store, BusyWindow(busy), cancel)

    with Store() as store:
        drive(experiment, CancelToken(), store, events.append)
        assert bool(store.predicted.timings(UNDER)) is kept
        assert all(("took 50%" in (point.source or "")) is not kept for point in store.predicted.points("run"))
    assert len(timer.asked) == asked
