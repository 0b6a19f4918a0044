"""Slices: both are run in turn, the whole follows from both, and only the shards they need are asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.engines.engine import BatchTiming, EngineLabels, RequestTiming
from workbench.engines.slice_folder import INDEX, is_needed, needed_files
from workbench.engines.sliced_model import SlicedModel
from workbench.models.resolve import resolve
from workbench.predictions.slices import Slices
from workbench.runner import CancelToken

FIXED_S, LAYER_S = 0.010, 0.002
WHOLE = 28


class FakeSlice:
    """A slice whose every pass takes a fixed time and as much again for each of its layers."""

    def __init__(self) -> None:
        self.labels = EngineLabels("fake", "1", "none", "float32", "cpu", 2)
        self.ran: list[int] = []
        self.layers = 8

    def run_layers(self, layers: int) -> None:
        self.layers = layers

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        pass

    @property
    def _pass_s(self) -> float:
        self.ran.append(self.layers)
        return FIXED_S + self.layers * LAYER_S

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        seconds = self._pass_s
        return RequestTiming(10 * seconds, (new_tokens - 1) * seconds, new_tokens - 1)

    def batch(self, lengths: Any, steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        seconds = self._pass_s
        return BatchTiming(seconds, (seconds,) * steps)


def a_sliced_model() -> tuple[SlicedModel, FakeSlice]:
    larger = FakeSlice()
    return SlicedModel(larger, resolve("qwen3-0.6b"), Slices(4, WHOLE)), larger  # type: ignore[arg-type]


def test_a_request_is_run_on_both_slices_and_says_what_the_whole_takes() -> None:
    model, larger = a_sliced_model()
    model.prepare(16, 1)
    timing = model.request(5, CancelToken())
    step = FIXED_S + WHOLE * LAYER_S
    assert timing.tpot_s == pytest.approx(step)
    assert timing.ttft_s == pytest.approx(10 * step)
    assert larger.ran == [4, 8]
    assert larger.layers == 8


def test_a_batch_is_extrapolated_step_by_step() -> None:
    model, _ = a_sliced_model()
    timing = model.batch((16, 16), 3, 1, CancelToken())
    assert timing.step_s == pytest.approx((FIXED_S + WHOLE * LAYER_S,) * 3)


def test_the_labels_say_that_it_is_extrapolated_and_from_what() -> None:
    assert a_sliced_model()[0].labels.extrapolated == "slices of 4 and 8 of 28 layers"


@pytest.mark.parametrize(
    ("tensor", "needed"),
    [
        ("model.layers.0.mlp.up_proj.weight", True),
        ("model.layers.7.mlp.up_proj.weight", True),
        ("model.layers.8.mlp.up_proj.weight", False),
        ("model.embed_tokens.weight", True),
        ("lm_head.weight", True),
    ],
)
def test_tensors_of_later_layers_are_not_needed(tensor: str, needed: bool) -> None:
    assert is_needed(tensor, 8) is needed


def test_a_slice_asks_for_the_shards_of_its_layers_alone(tmp_path: Path) -> None:
    shards = {"model.embed_tokens.weight": "1.safetensors", "model.layers.0.up.weight": "1.safetensors"}
    later = {"model.layers.9.up.weight": "2.safetensors", "model.norm.weight": "3.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": shards | later}))
    (tmp_path / "config.json").write_text("{}")
    for name in ("1.safetensors", "3.safetensors"):
        (tmp_path / name).write_bytes(b"")
    with needed_files(tmp_path, 8) as held:
        assert {path.name for path in held.iterdir()} == {INDEX, "config.json", "1.safetensors", "3.safetensors"}
        assert all(path.exists() for path in held.iterdir())
        assert "model.layers.9.up.weight" not in json.loads((held / INDEX).read_text())["weight_map"]
    assert not held.exists()
