"""The fixed state of recurrent and hybrid layers."""

from tests.models.config.a_model import BASE
from workbench.models.config.layout import config_layout
from workbench.models.model import KvKind


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
