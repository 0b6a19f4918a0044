"""The fixed state of a recurrent layer, in elements, from the settings of its family.

Source: the caches of transformers' model classes. k is the kernel of a layer's short convolution, which keeps the last
k − 1 inputs of every channel (RG-LRU, gated delta rule, Mamba, Mamba 2, short convolution).
"""

from collections.abc import Mapping

from workbench.models.config.figures import Config


def recurrent_elements(config: Config, model_type: str, hidden: int) -> int | None:
    """Elements of one recurrent layer's state; None where the settings describe none that is known."""
    if model_type == "rwkv":
        # The token before, for both halves of a block, and the running sums of its attention.
        return 2 * hidden + 3 * (_figure(config, "attention_hidden_size") or hidden)
    if model_type == "minimax":
        return _lightning_attention(config, hidden)
    if (k := _figure(config, "conv1d_width")) is not None:
        width = _figure(config, "lru_width") or hidden
        return width * (k - 1) + width
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping):
        config = {
            "linear_num_heads": linear.get("num_heads"),
            "linear_head_dim": linear.get("head_dim"),
            "linear_conv_kernel_dim": linear.get("short_conv_kernel_size"),
        }
    k = _figure(config, "linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache")
    if k is None:
        return None
    if _figure(config, "conv_L_cache") is not None:
        return hidden * (k - 1)
    delta = _delta_rule(config, k)
    return _selective_state(config, model_type, hidden, k) if delta is None else delta


def _figure(config: Config, *keys: str) -> int | None:
    """The first of `keys` that is a number above zero."""
    return next((config[key] for key in keys if isinstance(config.get(key), int) and config[key] > 0), None)


def _lightning_attention(config: Config, hidden: int) -> int | None:
    """heads · dim²."""
    heads, dim = _figure(config, "num_attention_heads"), _figure(config, "head_dim")
    return heads * (dim or hidden // heads) ** 2 if heads else None


def _delta_rule(config: Config, k: int) -> int | None:
    """(2·key_heads·key_dim + value_heads·value_dim)·(k − 1) + value_heads·key_dim·value_dim."""
    heads, dim = _figure(config, "linear_num_heads"), _figure(config, "linear_head_dim")
    if heads and dim:
        return 3 * heads * dim * (k - 1) + heads * dim * dim
    key_heads, key_dim = _figure(config, "linear_num_key_heads"), _figure(config, "linear_key_head_dim")
    value_heads, value_dim = _figure(config, "linear_num_value_heads"), _figure(config, "linear_value_head_dim")
    if key_heads and key_dim and value_heads and value_dim:
        convolved = 2 * key_heads * key_dim + value_heads * value_dim
        return convolved * (k - 1) + value_heads * key_dim * value_dim
    return None


def _selective_state(config: Config, model_type: str, hidden: int, k: int) -> int | None:
    """Mamba 2: (heads·dim + 2·groups·state)·(k − 1) + heads·dim·state; Mamba: inner·(k − 1) + inner·state."""
    state = _figure(config, "mamba_d_state", "ssm_state_size", "state_size")
    if state is None:
        return None
    heads = _figure(config, "mamba_n_heads", "mamba_num_heads", "n_mamba_heads")
    dim = _figure(config, "mamba_d_head", "mamba_head_dim", "mamba_headdim")
    if model_type == "mamba2":
        heads, dim = _figure(config, "num_heads"), _figure(config, "head_dim")
    groups = _figure(config, "mamba_n_groups", "mamba_ngroups", "n_groups") or 1
    if heads and dim:
        return (heads * dim + 2 * groups * state) * (k - 1) + heads * dim * state
    stated = _figure(config, "mamba_d_ssm", "intermediate_size" if "mamba" in model_type else "mamba_d_inner")
    inner = stated or (_figure(config, "mamba_expand", "expand") or 2) * hidden
    return inner * (k - 1) + inner * state
