"""The sweep on an engine whose timings are known: what it says, in which order, and what its rows hold."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import PRODUCT_RATE, READ_RATE, FakeModel, a_row, fake_load
from workbench.errors import MemoryRefused
from workbench.experiments import plan as planning
from workbench.experiments.events import (
    Event,
    Finished,
    PointFailed,
    Predicted,
    Progress,
    RowMeasured,
    Started,
)
from workbench.experiments.plan import LoadPlan
from workbench.experiments.prefill_decode import OF_DISTURBED, crossover, figures, sweep
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.quantity import Origin, Quantity, Unit
from workbench.runner import CancelToken
from workbench.runs.row import Row
from workbench.runs.run import RunStatus

SETTINGS = SweepSettings(model="smollm2-135m", prompts=(1, 64), repeats=3, new_tokens=5)


def events(
    load: Callable[[LoadPlan, CancelToken], FakeModel],
    settings: SweepSettings = SETTINGS,
    cancel: CancelToken | None = None,
) -> list[Event]:
    return list(sweep(settings, load, TimedWindow())(cancel or CancelToken()))


def test_events_come_in_order_and_the_prediction_before_any_measurement() -> None:
    seen = [type(e) for e in events(fake_load()) if not isinstance(e, Progress)]
    assert seen == [Started, Predicted, RowMeasured, RowMeasured, Finished]


def test_the_model_is_freed_before_the_end_is_told_and_what_that_gave_is_said() -> None:
    model = fake_load()(planning.plan(SETTINGS), CancelToken())
    closed = [model.closed for event in sweep(SETTINGS, lambda *_: model, TimedWindow())(CancelToken()) if event]
    assert closed[-2:] == [False, True]
    (finished,) = [event for event in events(fake_load()) if isinstance(event, Finished)]
    assert re.fullmatch(r"held [0-9.]+ GB, [0-9.]+ once freed", finished.memory)


def test_a_row_holds_the_best_repeat_the_median_and_every_sample() -> None:
    row, samples = next((e.row, e.samples) for e in events(fake_load()) if isinstance(e, RowMeasured))
    assert samples.ttft_s == pytest.approx((0.001, 0.002, 0.003))
    assert [row.ttft_ms, row.ttft_median_ms] == pytest.approx([1.0, 2.0])
    assert [row.tpot_ms, row.tpot_median_ms] == pytest.approx([10.0, 20.0])
    assert row.prompt_tokens_per_s == pytest.approx(1 / 0.001)
    assert row.decode_tokens_per_s == pytest.approx(100.0)


def test_a_row_stands_beside_its_ceiling() -> None:
    row = next(e.row for e in events(fake_load()) if isinstance(e, RowMeasured))
    W, k = 134_515_008 * 4, 23_040 * 2
    assert row.context_tokens == 3
    assert row.bytes_per_step == W + 3 * k
    assert row.ceiling_tokens_per_s == pytest.approx(READ_RATE / (W + 3 * k))
    assert row.ceiling_share == pytest.approx(100.0 / (READ_RATE / (W + 3 * k)))
    assert row.peak_gflop_per_s == PRODUCT_RATE / 1e9
    assert row.bound_by == "bytes"


def test_a_measurement_above_its_ceiling_is_flagged() -> None:
    row = next(e.row for e in events(fake_load()) if isinstance(e, RowMeasured))
    assert row.ceiling_share is not None
    assert row.ceiling_share > 1
    assert "above its ceiling" in row.flags


def test_every_repeat_has_tokens_of_its_own() -> None:
    models: list[FakeModel] = []

    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        models.append(fake_load()(planned, cancel))
        return models[0]

    events(load)
    assert len(models[0].prepared) == 7
    assert len({seed for _, seed in models[0].prepared}) == 7
    assert models[0].closed


def test_a_point_that_fails_is_a_row_and_the_sweep_goes_on() -> None:
    seen = events(fake_load(failing_prompts=frozenset({1})))
    failed = next(e for e in seen if isinstance(e, PointFailed))
    assert failed.row.status == "failed: out of memory"
    assert failed.row.ttft_ms is None
    assert [e.row.prompt_tokens for e in seen if isinstance(e, RowMeasured)] == [64]


def test_cancelling_keeps_the_rows_and_frees_the_model() -> None:
    cancel = CancelToken()
    seen = events(fake_load(on_request=lambda prompt: cancel.cancel() if prompt == 64 else None), cancel=cancel)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert finished.status is RunStatus.INTERRUPTED
    assert finished.note == "stopped after 1 of 2 prompt lengths"
    assert len([e for e in seen if isinstance(e, RowMeasured)]) == 1
    assert [figure.symbol for figure in finished.figures] == ["B effective", "C best"]


def test_what_does_not_fit_is_refused_before_loading_with_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "available_bytes", lambda: 2_000_000_000)

    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        raise AssertionError("nothing is loaded")

    with pytest.raises(MemoryRefused, match=r"needs 2\.\d GB.*2\.0 GB.*bfloat16") as refused:
        events(load, SweepSettings(model="qwen3-0.6b", prompts=(16,), device="cpu"))
    assert "2.4 GB of weights" in str(refused.value)


def test_a_model_that_fits_in_no_dtype_is_refused_with_the_slices_of_it_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "available_bytes", lambda: 6_000_000_000)
    settings = SweepSettings(model="qwen3-8b", prompts=(16,), device="cpu", dtype="bfloat16")
    with pytest.raises(MemoryRefused, match=r"--layers (\d)") as refused:
        events(fake_load(), settings)
    layers = int(str(refused.value).split("--layers ")[1][0])
    assert planning.plan(replace(settings, layers=layers)).fits
    assert not planning.plan(replace(settings, layers=layers + 1)).fits


def test_a_row_of_slices_says_what_the_whole_would_hold() -> None:
    settings = SweepSettings(model="qwen3-0.6b", prompts=(1024,), device="cpu", layers=4, repeats=3, new_tokens=5)
    (row,) = (event.row for event in events(fake_load(), settings) if isinstance(event, RowMeasured))
    whole = planning.plan(replace(settings, layers=None)).need
    slices = planning.plan(settings).need
    assert row.whole_resident_bytes is not None
    assert row.resident_bytes is not None
    lacking = whole.weights + whole.cache - slices.weights - slices.cache
    assert row.whole_resident_bytes - row.resident_bytes == pytest.approx(lacking, rel=0.01)
    (plain,) = (e.row for e in events(fake_load(), replace(settings, layers=None)) if isinstance(e, RowMeasured))
    assert plain.whole_resident_bytes is None


def test_the_crossover_is_the_texts() -> None:
    """Figures of the first text: W 2.384 GB, 87.6 ms a step, 741 GFLOP/s, 0.88 GFLOP a token give about 74."""
    B, C, crossing = crossover(
        W=2_384_199_680,
        N=440_467_456,
        step_bytes=2_384_199_680,
        step_seconds=0.0876,
        step_prompt=1,
        flop_per_second=741e9,
        flop_prompt=1_024,
        compute_bound=True,
    )
    assert B.value == pytest.approx(27.2e9, rel=0.002)
    assert C.value == 741e9
    assert round(crossing.value) == 74
    assert crossing.unit is Unit.TOKENS
    assert crossing.formula == "W·C / (2·N·B)"


def test_without_a_prefill_bound_by_its_arithmetic_there_is_none() -> None:
    figures = crossover(
        W=2_384_199_680,
        N=440_467_456,
        step_bytes=2_384_199_680,
        step_seconds=0.0876,
        step_prompt=1,
        flop_per_second=120e9,
        flop_prompt=16,
        compute_bound=False,
    )
    assert [figure.symbol for figure in figures] == ["B effective", "C best"]


def test_every_point_is_bracketed_by_readings_of_the_box() -> None:
    readings = iter((10e9, 30e9))

    class Rising(FakeModel):
        def read_again(self) -> Quantity:
            return Quantity("read rate", next(readings), Unit.BYTES_PER_SECOND, Origin.MEASURED, "B", source="a fake")

    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        return Rising(made.model, made.labels)

    first, second = (event.row for event in events(load) if isinstance(event, RowMeasured))
    assert (first.read_before_gb_per_s, first.read_after_gb_per_s, first.read_gb_per_s) == (20.0, 10.0, 20.0)
    assert (second.read_before_gb_per_s, second.read_after_gb_per_s, second.read_gb_per_s) == (10.0, 30.0, 30.0)
    assert second.bytes_per_step is not None
    assert second.ceiling_tokens_per_s == pytest.approx(30e9 / second.bytes_per_step)


def test_figures_are_of_rows_that_nothing_disturbed_or_say_that_they_are_not() -> None:
    def a_point(n: int, tpot_ms: float, gflop_per_s: float, **about: Any) -> Row:
        return a_row(
            prompt_tokens=n,
            tpot_ms=tpot_ms,
            bytes_per_step=10**9,
            weight_bytes=10**9,
            prefill_parameters=5 * 10**8,
            prefill_gflop_per_s=gflop_per_s,
            bound_by="maths",
            **about,
        )

    beside = {"judgement": "disturbed"}
    rows = [a_point(1, 900.0, 1.0, **beside), a_point(16, 50.0, 40.0), a_point(128, 1.0, 900.0, status="failed: gone")]
    B, C, crossing = figures(rows)
    assert (B.value, C.value) == (20e9, 40e9)
    assert OF_DISTURBED not in crossing.name
    marked = figures(rows[:1])
    assert len(marked) == 3
    assert all(OF_DISTURBED in figure.name for figure in marked)
