"""The cache of each layer from config.json, in the spellings of many families."""

from typing import Any

import pytest

from workbench.models.config_layout import config_layout
from workbench.models.model import KvKind

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
}


def windows(**settings: Any) -> list[int | None]:
    return [layer.window for layer in config_layout({**BASE, **settings}, "test").kv_layers]


def test_head_dim_is_explicit_first_then_hidden_over_heads() -> None:
    assert config_layout({**BASE, "model_type": "llama"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 24
    without = {k: v for k, v in BASE.items() if k != "head_dim"}
    assert config_layout({**without, "model_type": "llama"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 16
    assert config_layout({**without, "model_type": "qwen3"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 128


def test_windows_by_family() -> None:
    assert windows(model_type="llama") == [None] * 6
    assert windows(model_type="mistral", sliding_window=8) == [8] * 6
    assert windows(model_type="mistral", sliding_window=None) == [None] * 6
    assert windows(model_type="qwen2", sliding_window=8, use_sliding_window=False) == [None] * 6
    assert windows(model_type="qwen2", sliding_window=8, use_sliding_window=True, max_window_layers=4) == [
        None, None, None, None, 8, 8,
    ]  # fmt: skip
    assert windows(model_type="qwen3", sliding_window=8) == [None] * 6
    assert windows(model_type="gemma2", sliding_window=8) == [8, None] * 3
    assert windows(model_type="gemma3_text", sliding_window=8) == [8] * 5 + [None]
    assert windows(model_type="gemma3_text", sliding_window=8, sliding_window_pattern=3) == [8, 8, None] * 2
    assert windows(model_type="gpt_oss") == [128, None] * 3
    assert windows(model_type="exaone4", sliding_window=8, sliding_window_pattern="LLG") == [8, 8, None] * 2
    named = ["full_attention", "sliding_attention"] * 3
    assert windows(model_type="anything", layer_types=named, sliding_window=8) == [None, 8] * 3


def test_what_is_not_known_is_said() -> None:
    layout = config_layout({**BASE, "model_type": "novel", "sliding_window": 8}, "test")
    assert [layer.window for layer in layout.kv_layers] == [None] * 6
    assert any("'novel' is not known to" in note for note in layout.notes)
    strange = config_layout({**BASE, "layer_types": ["spiral"] * 6}, "test")
    assert any("'spiral' are not modelled" in note for note in strange.notes)
    headless = config_layout({"hidden_size": 64, "num_hidden_layers": 2}, "test")
    assert headless.kv_layers == ()
    assert any("how many attention heads" in note for note in headless.notes)


def test_latent_attention() -> None:
    layout = config_layout({**BASE, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}, "test")
    assert {(layer.kind, layer.elements_per_token) for layer in layout.kv_layers} == {(KvKind.LATENT, 576)}


def test_experts_under_their_many_names() -> None:
    for total, used in (
        ("num_experts", "num_experts_per_tok"),
        ("num_local_experts", "num_experts_per_tok"),
        ("n_routed_experts", "num_experts_per_tok"),
        ("moe_num_experts", "moe_k"),
    ):
        layout = config_layout({**BASE, total: 64, used: 6}, "test")
        assert (layout.experts, layout.experts_used) == (64, 6)


def test_hybrids_keep_a_fixed_state() -> None:
    delta = {
        "model_type": "qwen3_next",
        "linear_conv_kernel_dim": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_num_value_heads": 4,
        "linear_value_head_dim": 8,
    }
    layout = config_layout({**BASE, **delta}, "test")
    state = 3 * (2 * 2 * 8 + 4 * 8) + 4 * 8 * 8
    assert [layer.constant_elements for layer in layout.kv_layers] == [state] * 3 + [0] + [state] * 2
    assert len(layout.attention_layers) == 1

    jamba = {"attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
    kinds = [layer.kind for layer in config_layout({**BASE, **jamba}, "test").kv_layers]
    assert [kind is KvKind.RECURRENT for kind in kinds] == [True, False, True] * 2

    nemotron = {"hybrid_override_pattern": "M-M*-M", "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2,
                "ssm_state_size": 16, "conv_kernel": 4}  # fmt: skip
    layers = config_layout({**BASE, **nemotron}, "test").kv_layers
    assert [layer.kind for layer in layers].count(KvKind.RECURRENT) == 3
    assert len(layers) == 4
    assert layers[0].constant_elements == 3 * (32 + 2 * 2 * 16) + 32 * 16

    both = config_layout({**BASE, "model_type": "falcon_h1", "mamba_d_state": 16, "mamba_d_conv": 4}, "test")
    assert all(layer.constant_elements and layer.elements_per_token for layer in both.kv_layers)


@pytest.mark.parametrize(
    "model_type", ["gemma2", "gemma3_text", "gpt_oss", "cohere2", "olmo3", "mistral", "qwen3_next"]
)
def test_layers_left_out_agree_with_transformers_own_defaults(model_type: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    theirs = CONFIG_MAPPING[model_type]()
    ours = config_layout(
        {
            "model_type": model_type,
            "hidden_size": theirs.hidden_size,
            "num_hidden_layers": theirs.num_hidden_layers,
            "num_attention_heads": theirs.num_attention_heads,
            "num_key_value_heads": theirs.num_key_value_heads,
            "head_dim": getattr(theirs, "head_dim", 64),
            **({"sliding_window": window} if (window := getattr(theirs, "sliding_window", None)) else {}),
        },
        model_type,
    )
    kinds = {KvKind.FULL: "full_attention", KvKind.SLIDING: "sliding_attention", KvKind.RECURRENT: "linear_attention"}
    expected = getattr(theirs, "layer_types", None) or ["sliding_attention"] * theirs.num_hidden_layers
    assert [kinds[layer.kind] for layer in ours.kv_layers] == expected
