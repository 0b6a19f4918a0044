"""A layout from config.json: its experts under their many names, and what is not known."""

from tests.models.config.a_model import BASE
from workbench.models.config.layout import config_layout


def test_what_is_not_known_is_said() -> None:
    layout = config_layout({**BASE, "model_type": "novel", "sliding_window": 8}, "test")
    assert [layer.window for layer in layout.kv_layers] == [None] * 6
    assert any("'novel' is not known to" in note for note in layout.notes)
    strange = config_layout({**BASE, "layer_types": ["spiral"] * 6}, "test")
    assert any("'spiral' are not modelled" in note for note in strange.notes)
    headless = config_layout({"hidden_size": 64, "num_hidden_layers": 2}, "test")
    assert headless.kv_layers == ()
    assert any("how many attention heads" in note for note in headless.notes)


def test_experts_under_their_many_names() -> None:
    for total, used in (
        ("num_experts", "num_experts_per_tok"),
        ("num_local_experts", "num_experts_per_tok"),
        ("n_routed_experts", "num_experts_per_tok"),
        ("moe_num_experts", "moe_k"),
    ):
        layout = config_layout({**BASE, total: 64, used: 6}, "test")
        assert (layout.experts, layout.experts_used) == (64, 6)
