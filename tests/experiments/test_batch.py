"""The batch sweep on an engine whose timings are known: what it says, in which order, and what its rows hold."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.fake_grid import a_calibration, a_cell, a_product
from tests.fakes import READ_RATE, FakeModel, fake_load
from workbench.engines.engine import BatchTiming, PointError
from workbench.errors import MemoryRefused, SettingsError
from workbench.experiments import batch_plan, measured_run
from workbench.experiments.batch import batch_sweep
from workbench.experiments.batch_plan import Point, lengths, most_passes, plan_batch
from workbench.experiments.events import Event, Finished, PointFailed, Predicted, Progress, RowMeasured, Started
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import BatchSettings
from workbench.experiments.window import TimedWindow
from workbench.hardware.machine import this_machine
from workbench.runner import CancelToken
from workbench.runs.row import Row
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

SETTINGS = BatchSettings(model="smollm2-135m", contexts=(2, 256), batches=(1, 8), steps=5, repeats=1, device="cpu")
W, K = 134_515_008 * 4, 23_040 * 2
Load = Callable[[LoadPlan, CancelToken], FakeModel]


def events(load: Load, settings: BatchSettings = SETTINGS, cancel: CancelToken | None = None) -> list[Event]:
    return list(batch_sweep(settings, load, TimedWindow())(cancel or CancelToken()))


def rows(seen: list[Event]) -> list[Row]:
    return [event.row for event in seen if isinstance(event, RowMeasured | PointFailed)]


def changed(made: list[FakeModel] | None = None, **about: object) -> Load:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        model = fake_load()(planned, cancel)
        for name, value in about.items():
            setattr(model, name, value)
        if made is not None:
            made.append(model)
        return model

    return load


def test_every_point_is_predicted_before_any_is_measured_and_batches_go_round_within_a_context() -> None:
    seen = events(fake_load())
    kinds = [type(event) for event in seen if not isinstance(event, Progress)]
    assert kinds == [Started, Predicted, *[RowMeasured] * 4, Finished]
    at = [(2, 1), (2, 8), (256, 1), (256, 8)]
    assert [(row.prompt_tokens, row.batch) for row in rows(seen)] == at
    predicted = next(event for event in seen if isinstance(event, Predicted))
    assert [(floor.prompt_tokens, floor.batch) for floor in predicted.floors] == at
    assert [floor.tpot.value for floor in predicted.floors] == pytest.approx(
        [(W + b * (t + 3) * K) / READ_RATE for t, b in at], rel=1e-3
    )
    assert predicted.floors[3].ttft.value > 7 * predicted.floors[2].ttft.value
    progress = [event for event in seen if isinstance(event, Progress) and event.point]
    assert [(event.prompt_tokens, event.batch) for event in progress] == at


def test_rates_are_of_the_median_step_and_every_step_is_kept() -> None:
    event = next(event for event in events(fake_load()) if isinstance(event, RowMeasured) and event.row.batch == 8)
    row = event.row
    assert event.samples.tpot_s == pytest.approx((0.020, 0.060, 0.040, 0.060, 0.040))
    assert (row.step_ms, row.tpot_ms, row.tpot_median_ms) == pytest.approx((40.0, 20.0, 40.0))
    assert (row.decode_tokens_per_s, row.total_tokens_per_s) == pytest.approx((25.0, 200.0))
    assert row.prefill_ms == pytest.approx(16.0)
    assert row.ttft_ms is None
    assert (row.kind, row.new_tokens, row.repeats) == ("batch", 6, 5)


def test_a_row_stands_beside_what_its_step_must_read_and_do() -> None:
    row = rows(events(fake_load()))[3]
    assert row.context_tokens == 259
    assert row.cache_bytes == 8 * 259 * K
    assert row.bytes_per_step == (row.weight_bytes or 0) + (row.cache_bytes or 0)
    assert row.weight_bytes == pytest.approx(W, rel=1e-3)
    assert row.step_flop == 8 * (2 * 134_515_008 + 4 * 30 * 9 * 64 * 259)
    assert row.ceiling_tokens_per_s == pytest.approx(READ_RATE / (row.bytes_per_step or 1))
    assert row.bound_by == "weight reads"
    assert row.memory_needed_bytes == W + 8 * 262 * K
    assert (row.predicted_tpot_ms, row.few_rows_gflop_per_s, row.experts_touched) == (None, None, None)


def test_few_rows_of_the_last_probe_give_a_prediction_and_decide_what_binds() -> None:
    probed = a_calibration(a_cell(), a_product(2, 1), a_product(4, 4), a_product(16, 16))
    with Store() as store:
        store.add_calibration(replace(probed, machine=str(this_machine()), device="cpu"))
    seen = events(fake_load())
    row = rows(seen)[1]
    assert row.few_rows_gflop_per_s == pytest.approx(8.0)
    assert row.predicted_tpot_ms == pytest.approx((row.step_flop or 0) / 8e9 * 1e3)
    assert row.bound_by == "arithmetic"
    floors = next(event for event in seen if isinstance(event, Predicted)).floors
    assert floors[1].predicted_step is not None
    assert floors[1].predicted_step.value * 1e3 == pytest.approx(row.predicted_tpot_ms)
    assert floors[1].tpot.value < floors[1].predicted_step.value


def test_a_batch_that_will_not_fit_is_a_row_with_the_largest_that_would_and_the_sweep_goes_on() -> None:
    made: list[FakeModel] = []
    settings = replace(SETTINGS, contexts=(256, 2), batches=(1, 10_000))
    seen = events(changed(made, free=1_000_000_000), settings)
    found = rows(seen)
    assert [row.status.partition(":")[0] for row in found] == ["ok", "refused", "ok", "refused"]
    refused = found[1]
    assert "refused: needs" in refused.status
    most = int(refused.status.rpartition("is ")[2].replace(",", ""))
    planned = plan_batch(settings)
    assert planned.need_at(Point(256, most)).beside_loaded <= 1_000_000_000
    assert planned.need_at(Point(256, most + 1)).beside_loaded > 1_000_000_000
    assert (refused.bound_by, refused.step_ms, refused.ceiling_tokens_per_s is None) == ("memory", None, False)
    assert all(len(held) < 10_000 for held, _ in made[0].batches)
    figures = next(event for event in seen if isinstance(event, Finished)).figures
    assert [(figure.value, "memory" in figure.name) for figure in figures] == [(1, True), (1, True)]


def test_a_batch_that_dies_of_memory_is_a_row_and_the_next_one_runs() -> None:
    seen = events(changed(failing_batches=frozenset({8})))
    assert [row.status for row in rows(seen)] == ["ok", "failed: out of memory", "ok", "failed: out of memory"]
    assert next(event for event in seen if isinstance(event, PointFailed)).reason == "out of memory"


def test_cancelling_keeps_the_rows_and_frees_the_model() -> None:
    cancel = CancelToken()
    made: list[FakeModel] = []
    seen = events(changed(made, on_request=lambda batch: cancel.cancel() if batch == 8 else None), cancel=cancel)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert (finished.status, finished.note) == (RunStatus.INTERRUPTED, "stopped after 1 of 4 batches")
    assert len(rows(seen)) == 1
    assert made[0].closed


def test_every_batch_has_tokens_of_its_own() -> None:
    made: list[FakeModel] = []
    events(changed(made))
    assert len({seed for _, seed in made[0].batches}) == 5


def test_passes_go_on_until_the_median_step_is_precise_and_their_warm_ups_are_kept_apart() -> None:
    made: list[FakeModel] = []
    settings = replace(SETTINGS, contexts=(2,), batches=(1,), repeats="auto", precision=0.02, most_repeats=60)
    steps = iter([(0.030, 0.022, 0.0200, 0.0210, 0.0205), *[(0.0201, 0.0200, 0.0199, 0.0202, 0.0200)] * 20])

    def batch(self: FakeModel, lengths: object, steps_asked: int, seed: int, cancel: CancelToken) -> BatchTiming:
        self.batches.append(((1,), seed))
        return BatchTiming(0.1, (0.02,) * steps_asked if seed == 0 else next(steps))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeModel, "batch", batch)
        event = next(event for event in events(changed(made), settings) if isinstance(event, RowMeasured))
    assert event.samples.dropped_tpot_s == (0.030, 0.022)
    assert (event.row.dropped, event.row.repeats) == (2, len(event.samples.tpot_s))
    assert event.row.tpot_low_ms is not None
    assert event.row.tpot_high_ms is not None
    assert event.row.step_ms == pytest.approx(20.0, rel=0.01)
    assert (event.row.tpot_high_ms - event.row.tpot_low_ms) / 2 <= 0.02 * 20.0
    assert 2 < len(made[0].batches) < 6


def test_passes_end_at_the_most_samples_and_a_fixed_count_is_one_of_passes() -> None:
    settings = replace(SETTINGS, contexts=(2,), batches=(1,))
    (noisy,) = rows(events(fake_load(), replace(settings, repeats="auto")))
    assert noisy.repeats == 30
    assert "noisy" in noisy.flags
    (three,) = rows(events(fake_load(), replace(settings, repeats=3)))
    assert three.repeats == 15


def test_a_long_pass_is_not_repeated_once_its_time_is_up() -> None:
    long = replace(SETTINGS, repeats="auto", most_seconds=10.0)
    assert [most_passes(long, seconds) for seconds in (0.1, 4.0, 60.0)] == [6, 2, 1]
    assert most_passes(replace(long, steps=1), 60.0) == 3
    assert most_passes(replace(long, repeats=4), 60.0) == 4


def test_a_batch_that_fails_in_a_later_pass_keeps_the_steps_before() -> None:
    passes = iter(range(10))

    def fail_third(batch: int) -> None:
        if next(passes) == 3:
            raise PointError("out of memory")

    settings = replace(SETTINGS, contexts=(2,), batches=(1,), repeats=3)
    failed = next(event for event in events(changed(on_request=fail_third), settings) if isinstance(event, PointFailed))
    assert (failed.row.status, len(failed.samples.tpot_s)) == ("failed: out of memory", 10)


def test_mixed_lengths_spread_evenly_about_their_mean_and_the_row_says_so() -> None:
    settings = replace(SETTINGS, contexts=(100,), batches=(1, 4, 5), mixed=True)
    assert lengths(settings, Point(100, 4)) == (50, 83, 117, 150)
    assert lengths(settings, Point(100, 5)) == (50, 75, 100, 125, 150)
    assert lengths(settings, Point(1, 5)) == (1,) * 5
    for context in (2, 3, 7, 100):
        for batch in (2, 3, 8, 32):
            held = lengths(settings, Point(context, batch))
            assert (min(held) >= 1, sum(held)) == (True, context * batch)
            assert max(held) == settings.longest(context)
    found = rows(events(fake_load(), settings))
    assert "50 to 150 tokens" not in found[0].flags
    assert "50 to 150 tokens" in found[1].flags
    assert found[1].context_tokens == 103


def test_a_mixture_shows_experts_counted_beside_those_expected() -> None:
    settings = BatchSettings(model="qwen3-30b-a3b", contexts=(2,), batches=(4,), steps=2, repeats=1, dtype="bfloat16")
    planned = plan_batch(settings)
    row = rows(list(_without_memory_check(settings)))[0]
    assert row.experts_touched == (8 + 128) / 2
    assert row.experts_expected == pytest.approx(128 * (1 - (120 / 128) ** 4))
    assert row.weight_bytes == pytest.approx(
        planned.resident.shared_read_bytes + planned.resident.routed_expert_bytes * (1 - (120 / 128) ** 4), rel=1e-4
    )


def _without_memory_check(settings: BatchSettings) -> list[Event]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_plan, "available_bytes", lambda: 1 << 40)
        return events(fake_load(), settings)


def test_a_model_too_large_for_one_sequence_is_refused_before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_plan, "available_bytes", lambda: 2_000_000_000)
    with pytest.raises(MemoryRefused, match=r"needs 2\.\d GB.*one sequence at 12 tokens.*bfloat16"):
        events(fake_load(), BatchSettings(model="qwen3-0.6b", device="cpu"))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"contexts": ()}, "No contexts were given"),
        ({"contexts": (0,)}, "A context is 0"),
        ({"batches": ()}, "No batches were given"),
        ({"batches": (4, -1)}, "A batch is -1"),
        ({"steps": 0}, "number of steps is 0"),
        ({"repeats": 0}, "number of repeats is 0"),
        ({"repeats": "auto", "most_repeats": 2}, "most repeats is 2"),
        ({"precision": 1.0}, "precision is 100 %"),
        ({"contexts": (8_187,)}, "longer than the context.*Use contexts up to 8,186"),
        ({"contexts": (6_000,), "mixed": True}, "sequence of 9,000 tokens"),
        ({"dtype": "float8"}, "no dtype named"),
    ],
)
def test_settings_that_cannot_be_measured_are_one_sentence(about: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        plan_batch(replace(SETTINGS, **about))  # type: ignore[arg-type]


def test_prefill_is_planned_in_passes_so_that_its_activations_stay_small() -> None:
    planned = plan_batch(SETTINGS)
    activations = [planned.need_at(Point(256, b)).activations for b in (8, 32, 64)]
    logits = 3 * 49_152 * 4
    assert activations[0] - 8 * logits == activations[1] - 32 * logits == activations[2] - 64 * logits
    assert planned.need_at(Point(256, 4)).activations < activations[0]


def test_what_is_left_is_told_by_the_passes_of_the_points_before(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeModel] = []
    monkeypatch.setattr(measured_run, "time", SimpleNamespace(monotonic=lambda: float(len(made[0].batches))))
    settings = replace(SETTINGS, contexts=(2,), batches=(1, 2, 3), repeats="auto")
    progress = [event for event in events(changed(made), settings) if isinstance(event, Progress) and event.point]
    first = [event for event in progress if event.point == 1]
    second = next(event for event in progress if event.point == 2)
    assert len(first) > 2
    assert first[0].left_s is not None
    assert first[0].left_s < 3.0
    assert second.left_s == pytest.approx(1 + len(first), rel=0.01)
