"""The cache bytes of the arithmetic are, to the byte, those of the tensors that a step attends to."""

from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from tests.engines.test_families import read
from workbench.ceilings.kv_cache import cache_bytes

COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
WINDOW = 12
EXPERTS: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("llama", {"tie_word_embeddings": False}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "sliding": ("mistral", {"sliding_window": WINDOW}),
    "sliding and full": (
        "gemma3_text",
        {"sliding_window": WINDOW, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
    ),
    "mixture of experts": ("qwen3_moe", EXPERTS),
}


@pytest.mark.parametrize("t", [5, WINDOW, 40])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_attends_to_tensors_of_as_many_bytes(
    shape: str, dtype: torch.dtype, batch: int, t: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, changes = SHAPES[shape]
    settings = CONFIG_MAPPING[family](**{**COMMON, **changes})
    network = AutoModelForCausalLM.from_config(settings, dtype=dtype).eval()
    model = read(settings.to_dict())
    attended: list[int] = []
    for kind in (DynamicLayer, DynamicSlidingWindowLayer):
        _noted(monkeypatch, kind, attended)
    with torch.inference_mode():
        cache = DynamicCache(config=network.config)
        network(input_ids=torch.zeros((batch, t - 1), dtype=torch.long), cache=cache, use_cache=True)
        attended.clear()
        network(input_ids=torch.zeros((batch, 1), dtype=torch.long), cache=cache, use_cache=True)
    assert len(attended) == COMMON["num_hidden_layers"]
    assert sum(attended) == cache_bytes(model, t, dtype.itemsize, batch)


def _noted(monkeypatch: pytest.MonkeyPatch, kind: Any, attended: list[int]) -> None:
    update = kind.update

    def noted(self: Any, *given: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = update(self, *given, **named)
        if type(self) is kind:
            attended.append(keys.nbytes + values.nbytes)
        return keys, values

    monkeypatch.setattr(kind, "update", noted)
