"""How long timing operations is said to take: guessed first, then by what was timed."""

import pytest

from tests.predictions.cells import cells_of
from workbench.models.presets import preset_model
from workbench.predictions.passes import decode_step, prefill
from workbench.predictions.timing_pace import READY_S, TimingPace, pass_seconds
from workbench.runs.measured_device import ASSUMED_READ, assumed_compute

SMALL, LARGE = preset_model("smollm2-135m"), preset_model("llama-3.1-70b")
PASSES = (decode_step(SMALL, 9), prefill(SMALL, 16), prefill(SMALL, 64))


def test_wider_models_and_longer_prompts_take_longer() -> None:
    C = assumed_compute(2)
    steps = [pass_seconds(decode_step(model, 9), model, 4, ASSUMED_READ, C) for model in (SMALL, LARGE)]
    prefills = [pass_seconds(prefill(LARGE, n), LARGE, 4, ASSUMED_READ, C) for n in (16, 4096)]
    assert steps[0] < steps[1]
    assert prefills[0] < prefills[1]


def test_it_tells_what_is_timed_next_which_of_how_many_and_what_is_left() -> None:
    pace = TimingPace(PASSES, (1.0, 1.0, 2.0))
    assert pace.guessed_s == READY_S + 8.0
    assert pace.left_s(100.0) == pace.guessed_s - READY_S
    assert str(pace) == "timing a decode step with 9 in the cache, 1 of 6"
    pace.took(cells_of(PASSES[0]))
    assert str(pace) == "timing a prefill of 16 tokens, 2 of 6"
    assert pace.left_s(2 * (READY_S + 1.0)) == pytest.approx(2 * 7.0)
    # The second pass was left out: its operations would have held too much.
    pace.took(cells_of(PASSES[2]))
    assert str(pace) == "timing a decode step with 9 in the cache, 4 of 6"
    for each in PASSES:
        pace.took(cells_of(each))
    assert "once more" in str(pace)
    assert pace.left_s(60.0) == 0.0
