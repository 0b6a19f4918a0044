"""Sizes that the families' classes assume when config.json leaves them out (transformers 5.24)."""

from collections.abc import Mapping

from workbench.models.config.figures import Config

CLASS_DEFAULTS: Mapping[str, Config] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3n": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 2},
    "gpt_oss": {"head_dim": 64},
    "qwen3": {"head_dim": 128},
    "qwen3_next": {"head_dim": 256},
    "qwen3_5": {"head_dim": 256},
}
"""By family: the heads of a model."""
NESTED_DEFAULTS: Mapping[str, Config] = {
    "llama": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    "mistral": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "sliding_window": 4096,
    },
}  # fmt: skip
"""By model_type: what a multi-modal model's settings may leave to the class of the language model in them."""
