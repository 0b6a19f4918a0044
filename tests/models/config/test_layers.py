"""What each layer is, attention with or without a window among them, in the spellings of many families."""

from typing import Any

import pytest

from tests.models.config.a_model import BASE
from workbench.models.config.layout import config_layout
from workbench.models.model import KvKind


def windows(**settings: Any) -> list[int | None]:
    return [layer.window for layer in config_layout({**BASE, **settings}, "test").kv_layers]


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
