"""Every family's groups and cache against transformers: its own class, and the cache that class fills."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from workbench.engines import meta_device
from workbench.models.model import KvKind, Model, Read
from workbench.models.tensors import ROUTED
from workbench.models.unweighted import unweighted_model

TOKENS = 8
HALF = ["full_attention", "sliding_attention"] * 4
MAMBA_HALF = ["mamba", "attention"] * 4
# Settings beyond the class's own, where those make no model or one without the layers that matter.
FAMILIES: dict[str, dict[str, Any]] = {
    "apertus": {"num_hidden_layers": 6},
    "arcee": {"num_hidden_layers": 6},
    "bamba": {"num_hidden_layers": 8, "attn_layer_indices": [2, 5]},
    "bitnet": {"num_hidden_layers": 6},
    "bloom": {"n_layer": 6},
    "cohere": {"num_hidden_layers": 6},
    "cohere2": {},
    "deepseek_v2": {"num_hidden_layers": 6, "num_experts_per_tok": 6},
    "deepseek_v3": {"num_hidden_layers": 6},
    "doge": {"num_hidden_layers": 6},
    "dots1": {
        "num_hidden_layers": 6,
        "n_routed_experts": 128,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
    },
    "ernie4_5": {"num_hidden_layers": 6},
    "ernie4_5_moe": {"num_hidden_layers": 6},
    "exaone4": {},
    "falcon": {"num_hidden_layers": 6},
    "falcon_h1": {"num_hidden_layers": 6},
    "falcon_mamba": {"num_hidden_layers": 6},
    "gemma": {"num_hidden_layers": 6},
    "gemma2": {},
    "gemma3": {},
    "gemma3_text": {},
    "gemma4_text": {},
    "glm4": {},
    "glm4_moe": {"num_hidden_layers": 6},
    "gpt2": {},
    "gpt_neox": {"num_hidden_layers": 6},
    "gpt_oss": {},
    "gptj": {"n_layer": 6},
    "granite": {"num_hidden_layers": 6},
    "granitemoe": {},
    "granitemoehybrid": {"num_hidden_layers": 8, "layer_types": MAMBA_HALF},
    "helium": {"num_hidden_layers": 6},
    "hunyuan_v1_dense": {"num_hidden_layers": 6, "head_dim": 128},
    "hunyuan_v1_moe": {"num_hidden_layers": 6, "head_dim": 128, "num_experts": 16, "moe_topk": 2},
    "jamba": {},
    "kimi_linear": {},
    "lfm2": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2},
    "llama4_text": {},
    "llava": {},
    "mamba": {"num_hidden_layers": 6},
    "mamba2": {"num_hidden_layers": 6},
    "minimax_m2": {"num_hidden_layers": 6},
    "mistral": {"num_hidden_layers": 6},
    "mixtral": {"num_hidden_layers": 6},
    "mllama": {"architectures": ["MllamaForConditionalGeneration"]},
    "mpt": {},
    "nemotron": {"num_hidden_layers": 6, "num_key_value_heads": 8},
    "nemotron_h": {},
    "olmo2": {"num_hidden_layers": 6},
    "olmo3": {},
    "olmoe": {"num_hidden_layers": 6},
    "opt": {"num_hidden_layers": 6},
    "phi3": {"num_hidden_layers": 6, "sliding_window": 2047},
    "phimoe": {"num_hidden_layers": 6},
    "qwen2": {"use_sliding_window": True, "num_hidden_layers": 8, "layer_types": HALF},
    "qwen2_5_vl": {},
    "qwen2_moe": {"num_hidden_layers": 6},
    "qwen3_5": {"architectures": ["Qwen3_5ForConditionalGeneration"]},
    "qwen3_moe": {"num_hidden_layers": 6, "num_experts": 128},
    "qwen3_next": {"num_hidden_layers": 6},
    "qwen3_vl": {},
    "seed_oss": {"num_hidden_layers": 6},
    "smollm3": {"num_hidden_layers": 6},
    "stablelm": {"num_hidden_layers": 6},
    "starcoder2": {"num_hidden_layers": 6, "sliding_window": 512},
    "zamba2": {},
}
# Experts stored and used, by the settings above or the class's own.
EXPERTS = {
    "deepseek_v2": (64, 6),
    "deepseek_v3": (256, 8),
    "dots1": (128, 6),
    "ernie4_5_moe": (64, 6),
    "glm4_moe": (128, 8),
    "gpt_oss": (128, 4),
    "granitemoe": (8, 2),
    "granitemoehybrid": (8, 2),
    "hunyuan_v1_moe": (16, 2),
    "jamba": (16, 2),
    "kimi_linear": (256, 8),
    "lfm2_moe": (32, 4),
    "llama4_text": (16, 1),
    "minimax_m2": (256, 8),
    "mixtral": (8, 2),
    "nemotron_h": (8, 2),
    "olmoe": (64, 8),
    "phimoe": (16, 2),
    "qwen2_moe": (60, 4),
    "qwen3_moe": (128, 8),
    "qwen3_next": (512, 10),
}
SHARED = {
    "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "glm4_moe", "granitemoehybrid", "hunyuan_v1_moe",
    "kimi_linear", "llama4_text", "nemotron_h", "qwen2_moe", "qwen3_next",
}  # fmt: skip
TOWERS = {"gemma3", "llava", "mllama", "qwen2_5_vl", "qwen3_5", "qwen3_vl"}


def settings_of(family: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A config.json's content: the class's own settings, changed."""
    plain: dict[str, Any] = CONFIG_MAPPING[family](**changes).to_dict()
    return plain


def read(config: dict[str, Any]) -> Model:
    where = Path("config.json")
    return unweighted_model(config, name=str(config["model_type"]), where=where, path=where)


def kept_by_transformers(built: Any, settings: Any) -> list[tuple[int, int, int | None]]:
    """Each layer's elements a token, fixed elements and window, in the cache the class fills on the meta device.

    A convolution's state has a column for the token being read too, which no step finds in the cache.
    """
    cache = DynamicCache(config=settings)
    with torch.inference_mode(), torch.device("meta"):
        built.eval()(input_ids=torch.zeros((1, TOKENS), dtype=torch.long), cache=cache, use_cache=True)
    layers = []
    for layer in cache.layers:
        kept = [tensor for name in ("keys", "values") if (tensor := getattr(layer, name, None)) is not None]
        conv, recurrent = (_tensors(getattr(layer, name, None)) for name in ("conv_states", "recurrent_states"))
        fixed = sum(state.numel() // state.shape[-1] * (state.shape[-1] - 1) for state in conv)
        fixed += sum(state.numel() for state in recurrent)
        tokens = sum(tensor.numel() for tensor in kept) // TOKENS
        if tokens or fixed:
            layers.append((tokens, fixed, getattr(layer, "sliding_window", None)))
    return layers


def _tensors(states: Any) -> list[torch.Tensor]:
    each = [states] if isinstance(states, torch.Tensor) else states.values() if isinstance(states, dict) else states
    return [state for state in each or () if isinstance(state, torch.Tensor)]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_reads_and_keeps_what_its_class_does(family: str) -> None:
    config = settings_of(family, FAMILIES[family])
    settings = meta_device.known_settings(config, family)
    built = meta_device.build(settings, family)
    model = read(config)

    assert model.parameters == sum(p.numel() for p in built.parameters())
    head, table = built.get_output_embeddings(), built.get_input_embeddings()
    assert model.tied_embeddings == (head.weight is table.weight)
    by_name = {group.name: group.read for group in model.groups}
    assert by_name["token embedding"] is (Read.ALL if model.tied_embeddings else Read.ONE_ROW)
    assert (model.experts, model.experts_used) == EXPERTS.get(family, (0, 0))
    assert (by_name.get(ROUTED) is Read.ROUTED) == (family in EXPERTS)
    assert (by_name.get("shared experts") is Read.ALL) == (family in SHARED)
    assert (by_name.get("vision and audio towers") is Read.NONE) == (family in TOWERS)
    assert not [note for note in model.notes if "unknown purpose" in note or "differs" in note]

    ours = [(layer.elements_per_token, layer.constant_elements, layer.window) for layer in model.kv_layers]
    assert ours == kept_by_transformers(built, settings)


def test_latent_attention_keeps_the_compressed_vector() -> None:
    model = read(settings_of("deepseek_v3", {"num_hidden_layers": 4}))
    assert {(layer.kind, layer.elements_per_token) for layer in model.kv_layers} == {(KvKind.LATENT, 512 + 64)}


def test_layers_that_share_a_cache_keep_none_of_their_own() -> None:
    model = read(settings_of("gemma3n_text", {}))
    assert len(model.attention_layers) == 35
    assert [layer.window for layer in model.kv_layers] == ([512] * 4 + [None]) * 4
    assert {group.name: group.read for group in model.groups}["per-layer embeddings"] is Read.ONE_ROW


def test_states_of_families_with_a_cache_of_their_own() -> None:
    minimax = read(settings_of("minimax", {}))
    assert [layer.constant_elements for layer in minimax.kv_layers[:2]] == [0, 32 * 128 * 128]
    rwkv = read(settings_of("rwkv", {}))
    assert {layer.constant_elements for layer in rwkv.kv_layers} == {5 * 4096}
    gemma = read(settings_of("recurrent_gemma", {}))
    kinds = [layer.kind for layer in gemma.kv_layers]
    assert kinds[:6] == [KvKind.RECURRENT, KvKind.RECURRENT, KvKind.SLIDING] * 2
    assert {layer.window for layer in gemma.kv_layers if layer.kind is KvKind.SLIDING} == {2048}


def test_an_encoder_runs_once_and_the_decoder_is_read() -> None:
    model = read(settings_of("t5", {}))
    reads = {group.name: group.read for group in model.groups}
    assert reads["encoder"] is Read.NONE
    assert reads["attention projections"] is reads["feed-forward"] is reads["token embedding"] is Read.ALL
    assert [layer.elements_per_token for layer in model.kv_layers] == [2 * 8 * 64] * 6
    assert any("encoder-decoder" in note for note in model.notes)


def test_a_cache_of_another_kind_is_said_to_be_not_modelled() -> None:
    model = read(settings_of("zaya", {}))
    assert any("differs from the one counted: it is not modelled" in note for note in model.notes)
