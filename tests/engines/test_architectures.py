"""Families that are in no preset: their folder is read, loaded and timed like any other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from workbench.engines.torch_engine import load
from workbench.errors import ModelError, SettingsError
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


@pytest.mark.parametrize("named", ["folder", "file"])
def test_settings_without_weights_are_timed_with_synthetic_ones(tmp_path: Path, named: str) -> None:
    config = AutoConfig.for_model("gemma3_text", **FAMILIES["gemma3_text"])
    config.save_pretrained(tmp_path)
    name = tmp_path if named == "folder" else (tmp_path / "config.json").rename(tmp_path / "gemma.json")
    planned = plan(SweepSettings(model=str(name), prompts=(20,), new_tokens=4, device="cpu"))
    assert planned.weights is Weights.SYNTHETIC
    model = load(planned, CancelToken())
    model.prepare(20, seed=1)
    assert model.request(4, CancelToken()).steps == 3
    assert model.labels.quantisation == "none"
    with pytest.raises(SettingsError, match="is settings alone and has no weights"):
        plan(SweepSettings(model=str(name), weights=Weights.REAL))


def test_an_encoder_decoder_is_not_timed(tmp_path: Path) -> None:
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_heads": 4, "vocab_size": 128}
    AutoConfig.for_model("t5", **sizes).save_pretrained(tmp_path)
    planned = plan(SweepSettings(model=str(tmp_path), prompts=(4,), new_tokens=2, device="cpu"))
    with pytest.raises(ModelError, match="is an encoder-decoder"):
        load(planned, CancelToken())
