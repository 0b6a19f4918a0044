"""What a layer keeps of a token, from the heads and ranks that settings state."""

from tests.models.config.a_model import BASE
from workbench.models.config.layout import config_layout
from workbench.models.model import KvKind


def test_head_dim_is_explicit_first_then_hidden_over_heads() -> None:
    assert config_layout({**BASE, "model_type": "llama"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 24
    without = {k: v for k, v in BASE.items() if k != "head_dim"}
    assert config_layout({**without, "model_type": "llama"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 16
    assert config_layout({**without, "model_type": "qwen3"}, "t").kv_layers[0].elements_per_token == 2 * 2 * 128


def test_latent_attention() -> None:
    layout = config_layout({**BASE, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}, "test")
    assert {(layer.kind, layer.elements_per_token) for layer in layout.kv_layers} == {(KvKind.LATENT, 576)}
