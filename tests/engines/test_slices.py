"""Slices: one pass clocks both, the whole follows from them, and only the shards they need are asked for."""

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

    def __init__(self, chunks: int = 1, touched: tuple[int, ...] = ()) -> None:
        self.labels = EngineLabels("fake", "1", "none", "float32", "cpu", 2)
        self.chunks = chunks
        self.touched = touched
        self.spans: list[float] = []

    def clocked_layers(self, first: int, end: int) -> list[float]:
        assert (first, end) == (4, 8)
        return self.spans

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        pass

    def _pass_s(self, scale: float = 1.0) -> float:
        self.spans.append(4 * LAYER_S * scale)
        return (FIXED_S + 8 * LAYER_S) * scale

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        return RequestTiming(
            self._pass_s(10), sum((self._pass_s() for _ in range(new_tokens - 1)), 0.0), new_tokens - 1
        )

    def batch(self, lengths: Any, steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        prefill_s = sum((self._pass_s(10) for _ in range(self.chunks)), 0.0)
        step_s = tuple(self._pass_s() for _ in range(steps))
        if self.touched:
            self._pass_s()
        return BatchTiming(prefill_s, step_s, self.touched)


def a_sliced_model(**about: Any) -> SlicedModel:
    return SlicedModel(FakeSlice(**about), resolve("qwen3-0.6b"), Slices(4, WHOLE))  # type: ignore[arg-type]


def test_a_request_of_the_slice_says_what_the_whole_takes() -> None:
    model = a_sliced_model()
    step = FIXED_S + WHOLE * LAYER_S
    for _ in range(2):
        model.prepare(16, 1)
        timing = model.request(5, CancelToken())
        assert timing.tpot_s == pytest.approx(step)
        assert timing.ttft_s == pytest.approx(10 * step)


@pytest.mark.parametrize(("chunks", "touched"), [(1, ()), (3, ()), (2, (5,))])
def test_a_batch_is_extrapolated_step_by_step(chunks: int, touched: tuple[int, ...]) -> None:
    timing = a_sliced_model(chunks=chunks, touched=touched).batch((16, 16), 3, 1, CancelToken())
    step = FIXED_S + WHOLE * LAYER_S
    assert timing.step_s == pytest.approx((step,) * 3)
    assert timing.prefill_s == pytest.approx(chunks * 10 * step)


def test_the_labels_say_that_it_is_extrapolated_and_from_what() -> None:
    assert a_sliced_model().labels.extrapolated == "slices of 4 and 8 of 28 layers"


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
