"""Families that are in no preset: their folder is read, loaded and timed like any other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from workbench.engines.torch_engine import load
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings, Weights
from workbench.runner import CancelToken

SHAPE: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "vocab_size": 256,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "gemma3_text": {**SHAPE, "head_dim": 16, "sliding_window": 8},
    "phi3": SHAPE,
    "mamba": {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8},
    "qwen3_moe": {
        **SHAPE,
        "head_dim": 16,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "lfm2": {**SHAPE, "layer_types": ["conv", "full_attention"]},
}


@pytest.mark.parametrize("weights", list(Weights))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_read_loaded_and_timed(tmp_path: Path, family: str, weights: Weights) -> None:
    config = AutoConfig.for_model(family, **FAMILIES[family])
    built = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    built.save_pretrained(tmp_path)
    settings = SweepSettings(model=str(tmp_path), weights=weights, prompts=(20,), new_tokens=4, device="cpu")
    planned = plan(settings)
    assert planned.model.parameters == sum(p.numel() for p in built.parameters())
    model = load(planned, CancelToken())
    model.prepare(20, seed=1)
    timing = model.request(4, CancelToken())
    assert timing.steps == 3
    assert min(timing.ttft_s, timing.decode_s) > 0
    with torch.inference_mode():
        assert model._network(torch.arange(20)[None]).logits.isfinite().all()
