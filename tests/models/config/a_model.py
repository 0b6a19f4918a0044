"""Settings of a small model, to which tests add what they are about."""

from typing import Any

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
}
