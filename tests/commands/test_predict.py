"""`workbench predict`, from operations whose times are known; no model is loaded, however large."""

import re
from dataclasses import replace

import pytest

from tests.commands.conftest import Workbench
from tests.predictions.fake_timer import FakeTimer
from workbench.experiments.plan import MOST_LAYERS, plan
from workbench.experiments.settings import SweepSettings

SMALL = ("predict", "smollm2-135m", "--prompts", "1,64")
LARGE = ("predict", "llama-3.1-70b", "--dtype", "bfloat16", "--prompts", "64")
HINT = re.compile(r"`workbench sweep llama-3\.1-70b --layers (\d+) --dtype bfloat16`")


@pytest.fixture(autouse=True)
def timer(monkeypatch: pytest.MonkeyPatch) -> FakeTimer:
    made = FakeTimer()
    monkeypatch.setattr("workbench.commands.predicting.TransformersTimer", lambda: made)
    return made


def may_take(monkeypatch: pytest.MonkeyPatch, gigabytes: float) -> None:
    monkeypatch.setattr("workbench.experiments.plan.available_bytes", lambda: int(gigabytes * 1e9))


def test_a_model_too_large_is_predicted_whole_and_what_can_be_measured_of_it_is_told(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_take(monkeypatch, 24)
    ended = workbench(*LARGE, "--format", "json")
    assert ended.code == 0, ended.err
    (point,) = ended.json
    assert point["tpot_ms"] > 0
    assert point["resident_bytes"] > 140e9
    assert "llama-3.1-70b in bfloat16 needs 14" in ended.err
    assert "this process may take 24.0 GB: it can't be run here" in ended.err
    (layers,) = HINT.findall(ended.err)
    hinted = SweepSettings(model="llama-3.1-70b", dtype="bfloat16", prompts=(64,), layers=int(layers))
    assert plan(hinted).fits
    assert int(layers) == MOST_LAYERS or not plan(replace(hinted, layers=int(layers) + 1)).fits


def test_no_slices_are_offered_where_none_would_fit(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    may_take(monkeypatch, 4)
    ended = workbench(*LARGE)
    assert ended.code == 0, ended.err
    assert "it can't be run here" in ended.err
    assert "--layers" not in ended.err


def test_of_a_model_that_fits_no_note_says_that_it_does_not(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_take(monkeypatch, 24)
    ended = workbench(*SMALL)
    assert ended.code == 0, ended.err
    assert "needs" not in ended.err
    assert "--layers" not in ended.err


def test_where_the_timing_stands_is_told_beside_the_result(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.experiments.foretelling.TELL_AFTER_S", 0.0)
    ended = workbench(*SMALL, "--format", "json")
    assert [point["prompt_tokens"] for point in ended.json] == [1, 64]
    first, *rest = ended.err.splitlines()
    assert re.fullmatch("timing the operations of smollm2-135m, from which its times are predicted, .+ left", first)
    stages = [line.removeprefix("timing ").partition(",")[0] for line in rest if line.endswith(" left")]
    assert stages[:2] == ["a decode step with 1 in the cache", "a decode step with 72 in the cache"]
    assert any(re.fullmatch(r"timed \d+ operations", line) for line in rest)


def test_what_was_timed_already_is_not_timed_again(workbench: Workbench, timer: FakeTimer) -> None:
    workbench(*SMALL)
    asked = len(timer.asked)
    ended = workbench(*SMALL)
    assert ended.code == 0, ended.err
    assert len(timer.asked) == asked
    assert not [line for line in ended.err.splitlines() if line.startswith("timing")]


def test_where_operations_cannot_be_timed_nothing_is_predicted(workbench: Workbench, timer: FakeTimer) -> None:
    timer.under = None
    ended = workbench(*SMALL)
    assert (ended.code, ended.out) == (1, "")
    assert "Nothing is predicted here" in ended.err
