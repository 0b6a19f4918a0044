import pytest

from workbench.errors import ModelError, SettingsError
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings, Weights


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": "float23"}, "no dtype named 'float23'.*Did you mean float32"),
        ({"device": "cdua"}, "no device named 'cdua'.*Did you mean cuda"),
        ({"device": "cuda:x"}, "no device named 'cuda:x'"),
        ({"device": "cpu:"}, "no device named 'cpu:'"),
        ({"prompts": ()}, "No prompt lengths"),
        ({"prompts": (16, 0)}, "prompt length is 0"),
        ({"prompts": (-4,)}, "prompt length is -4"),
        ({"new_tokens": 1}, "at least 2"),
        ({"repeats": 0}, "number of repeats is 0"),
        ({"threads": 0}, "number of threads is 0"),
        ({"threads": 100_000}, "number of threads is 100,000.*Use at most"),
        ({"prompts": (40_960,)}, "longer than the context of .*40,960.*prompts up to 40,943"),
        ({"model": "qwen3-0.6c"}, "Did you mean qwen3-0.6b"),
        ({"weights": Weights.REAL}, "has no weights"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_out(changed: dict[str, object], message: str) -> None:
    with pytest.raises((SettingsError, ModelError), match=f"(?i){message}"):
        plan(SweepSettings(**changed))  # type: ignore[arg-type]


def test_the_default_sweep_is_the_texts_but_for_its_repeats() -> None:
    planned = plan(SweepSettings())
    assert planned.model.name.lower() == "qwen3-0.6b"
    assert planned.weights is Weights.SYNTHETIC
    assert planned.settings.prompts == (1, 16, 64, 256, 1024, 4096)
    assert (planned.settings.new_tokens, planned.settings.repeats, planned.settings.dtype) == (17, "auto", "float32")
    assert planned.seconds > 0


def test_settings_become_values_json_can_hold() -> None:
    assert SweepSettings(prompts=(1, 2)).plain()["prompts"] == [1, 2]
