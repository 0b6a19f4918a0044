"""The layout of a model from its config.json, for the spellings that transformers' families use."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import ModelError
from workbench.models.layout import (
    SLIDING_FAMILIES,
    Layout,
    Sliding,
    family,
    full_or_sliding,
    latent,
    latent_attention,
    per_layer,
    recurrent,
    unique,
)
from workbench.models.model import AttentionLayer, KvLayer

Config = Mapping[str, Any]

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
_EXPERTS_USED = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k",
    "num_selected_experts", "experts_per_token",
)  # fmt: skip
# Heads that the families' classes assume when config.json leaves them out (transformers 5.24).
_DEFAULTS: Mapping[str, Config] = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4},
    "gemma3n": {"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 2},
    "gpt_oss": {"head_dim": 64},
    "qwen3": {"head_dim": 128},
    "qwen3_next": {"head_dim": 256},
    "qwen3_5": {"head_dim": 256},
}
# Families whose classes ignore sliding_window unless use_sliding_window is set.
_SLIDING_ON_REQUEST = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"})
_ALL_RECURRENT = frozenset({"mamba", "mamba2", "falcon_mamba"})
_RECURRENT_TYPES = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv", "short_conv"})
_NOT_MODELLED = (
    "attn_type_list", "linear_attn_config", "block_types", "block_configs", "ssm_cfg", "index_topk",
    "num_kv_shared_layers",
)  # fmt: skip


def text_config(config: Config) -> Config:
    """The settings of the language model inside a multi-modal one's, or the settings themselves."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            missing = {k: config[k] for k in ("tie_word_embeddings", "model_type") if k in config}
            return {**missing, **inner}
    return config


def config_layout(config: Config, name: str) -> Layout:
    """The layout that a config.json describes; `name` is said in errors.

    Raises ModelError for settings without a hidden size, or with figures that can't be right.
    """
    config = text_config(config)
    model_type = family(str(config.get("model_type", "")))
    config = {**_DEFAULTS.get(model_type, {}), **{k: v for k, v in config.items() if v is not None}}
    hidden = _positive(config, _HIDDEN, name)
    if hidden is None:
        raise ModelError(
            f"{name} has no {_HIDDEN[0]} in its settings, so it is not a language model this workbench knows. "
            "Check that config.json is the model's own."
        )
    layers = _positive(config, _LAYERS, name)
    if layers is not None and layers > 10_000:
        raise ModelError(f"{name} claims {layers:,} layers in its settings, which no model has.")
    notes: list[str] = []
    kv_layers: tuple[KvLayer, ...] = ()
    attention: tuple[AttentionLayer, ...] = ()
    if layers is None:
        notes.append("The settings do not say how many layers there are: the KV cache is not modelled.")
    else:
        kv_layers, attention = _layers(config, model_type, hidden, layers, name, notes)
    notes += [
        f"The settings have {key}, which is not modelled: the KV figures may be too high."
        for key in _NOT_MODELLED
        if config.get(key)
    ]
    if config.get("is_encoder_decoder"):
        notes.append("An encoder-decoder model: only its decoder's own cache is modelled.")
    return Layout(
        layers=layers,
        hidden=hidden,
        context_limit=_positive(config, _CONTEXT, name),
        experts=_positive(config, _EXPERTS, name) or 0,
        experts_used=_positive(config, _EXPERTS_USED, name) or 0,
        kv_layers=kv_layers,
        attention_layers=attention,
        notes=unique(notes),
    )


def _positive(config: Config, keys: Sequence[str], name: str) -> int | None:
    """The first of `keys` that is set, as a whole number; of a list, its largest."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, list) and value and all(isinstance(v, int) for v in value):
            value = max(value)
        if value is None or value == 0:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value > 1 << 40:
            raise ModelError(f"{name} has {key} = {value!r} in its settings where a whole number was expected.")
        return value
    return None


def _heads(config: Config, keys: Sequence[str], layers: int) -> list[int] | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return per_layer(value, layers)
        if isinstance(value, list) and all(isinstance(v, int) for v in value):
            return per_layer(value, layers)
    return None


def _layers(
    config: Config, model_type: str, hidden: int, layers: int, name: str, notes: list[str]
) -> tuple[tuple[KvLayer, ...], tuple[AttentionLayer, ...]]:
    kinds = layer_kinds(config, model_type, layers, notes)
    state = _recurrent_elements(config, model_type, hidden)
    if state is None and any(kind in ("recurrent", "hybrid") for kind, _ in kinds):
        notes.append("The fixed state of the recurrent layers is not modelled for this family: counted as zero.")
        state = 0
    heads = _heads(config, _HEADS, layers)
    kv_heads = _heads(config, _KV_HEADS, layers)
    if kv_heads is None and config.get("multi_query") and not config.get("new_decoder_architecture"):
        kv_heads = [1] * layers
    kv_heads = kv_heads or heads
    rank, rope_dim = config.get("kv_lora_rank"), config.get("qk_rope_head_dim")
    head_dim = _positive(config, ("head_dim", "attention_head_dim", "kv_channels"), name)
    if (heads is None or kv_heads is None) and any(kind != "recurrent" for kind, _ in kinds):
        notes.append("The settings do not say how many attention heads there are: the KV cache is not modelled.")
        return (), ()

    kv: list[KvLayer] = []
    attention: list[AttentionLayer] = []
    for index, (kind, window) in enumerate(kinds):
        if kind == "none":
            continue
        if kind == "recurrent":
            kv.append(recurrent(state or 0))
            continue
        assert heads is not None
        assert kv_heads is not None
        if isinstance(rank, int) and isinstance(rope_dim, int):
            kv.append(latent(rank, rope_dim))
            attention.append(latent_attention(heads[index], rank, rope_dim))
            continue
        dim, kv_count = head_dim or hidden // max(heads[index], 1), kv_heads[index]
        if window is None and isinstance(config.get("global_head_dim"), int):
            dim = config["global_head_dim"]
            kv_count = config.get("num_global_key_value_heads") or kv_count
        value_dim = config.get("v_head_dim")
        value_dim = value_dim if isinstance(value_dim, int) else dim
        constant = (state or 0) if kind == "hybrid" else 0
        kv.append(full_or_sliding(kv_count, dim, value_dim, window, constant))
        attention.append(AttentionLayer(heads[index], (dim + value_dim) // 2, window))
    return tuple(kv), tuple(attention)


def layer_kinds(config: Config, model_type: str, layers: int, notes: list[str]) -> list[tuple[str, int | None]]:
    """Each layer as attention, recurrent, hybrid (both) or none, with the window of those that slide."""
    window = _window(config, model_type)
    chunk = config.get("attention_chunk_size")
    named = _named_kinds(config, model_type, layers)
    if named is not None:
        kinds: list[tuple[str, int | None]] = []
        for kind in named:
            if kind in _RECURRENT_TYPES:
                kinds.append(("recurrent", None))
            elif kind in ("hybrid", "none"):
                kinds.append((kind, None))
            elif kind in ("sliding_attention", "local_attention", "sliding"):
                kinds.append(("attention", window))
                if window is None:
                    notes.append("Some layers slide but the settings give no window: counted as full.")
            elif kind == "chunked_attention":
                kinds.append(("attention", chunk if isinstance(chunk, int) else None))
                notes.append("Chunked attention is counted as a window of one chunk, the most it reads.")
            else:
                if kind not in ("full_attention", "attention", "global_attention", "full"):
                    notes.append(f"Layers of type {kind!r} are not modelled: counted as full attention.")
                kinds.append(("attention", None))
        return kinds
    if window is None:
        return [("attention", None)] * layers
    if isinstance(config.get("max_window_layers"), int) and "use_sliding_window" in config:
        first = config["max_window_layers"]
        return [("attention", window if i >= first else None) for i in range(layers)]
    pattern = _pattern(config, model_type)
    if pattern is None:
        notes.append(
            f"The settings have a sliding window of {window:,} but not which layers use it, and the family "
            f"{model_type!r} is not known to: every layer is counted as full attention."
        )
        return [("attention", None)] * layers
    return [("attention", window if pattern.slides(i) else None) for i in range(layers)]


def _window(config: Config, model_type: str) -> int | None:
    if not config.get("use_sliding_window", model_type not in _SLIDING_ON_REQUEST):
        return None
    known = SLIDING_FAMILIES.get(model_type)
    window = config.get("sliding_window", config.get("sliding_window_size"))
    if window is None and known is not None and "sliding_window" not in config:
        window = known.window
    return window if isinstance(window, int) and window > 0 else None


def _pattern(config: Config, model_type: str) -> Sliding | None:
    stated = config.get("sliding_window_pattern", config.get("_sliding_window_pattern"))
    if isinstance(stated, int) and stated > 0:
        return Sliding(stated)
    if isinstance(stated, str) and stated:
        return Sliding(len(stated))
    return SLIDING_FAMILIES.get(model_type)


def _named_kinds(config: Config, model_type: str, layers: int) -> list[str] | None:
    """The type of each layer where the settings name them, in whichever way the family does."""
    for key in ("layer_types", "layers_block_type"):
        named = config.get(key)
        if isinstance(named, list) and len(named) >= layers and all(isinstance(kind, str) for kind in named):
            return list(named[:layers])
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= layers:
        return [{"M": "mamba", "*": "attention"}.get(letter, "none") for letter in pattern[:layers]]
    if model_type in _ALL_RECURRENT:
        return ["mamba"] * layers
    if model_type == "falcon_h1":
        return ["hybrid"] * layers
    if isinstance(period := config.get("attn_layer_period"), int) and period > 0:
        offset = config.get("attn_layer_offset", 0)
        return ["attention" if i % period == offset else "mamba" for i in range(layers)]
    for key, other in (("attn_layer_indices", "mamba"), ("full_attn_idxs", "conv")):
        if isinstance(indices := config.get(key), list):
            return ["attention" if i in indices else other for i in range(layers)]
    interval = config.get("full_attention_interval", 4 if model_type in ("qwen3_next", "qwen3_5") else None)
    if isinstance(interval, int) and interval > 0:
        return ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    if model_type == "llama4":
        return ["full_attention" if (i + 1) % 4 == 0 else "chunked_attention" for i in range(layers)]
    return None


def _recurrent_elements(config: Config, model_type: str, hidden: int) -> int | None:
    """Elements of one recurrent layer's state: its matrix and the last inputs of its convolution.

    Source: the caches of transformers' model classes (gated delta rule, Mamba, Mamba 2, short convolution).
    """

    def figure(*keys: str) -> int | None:
        return next((config[k] for k in keys if isinstance(config.get(k), int) and config[k] > 0), None)

    kernel = figure("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache")
    if kernel is None:
        return None
    if figure("conv_L_cache") is not None:
        return hidden * (kernel - 1)
    key_heads, key_dim = figure("linear_num_key_heads"), figure("linear_key_head_dim")
    value_heads, value_dim = figure("linear_num_value_heads"), figure("linear_value_head_dim")
    if key_heads and key_dim and value_heads and value_dim:
        convolved = 2 * key_heads * key_dim + value_heads * value_dim
        return convolved * (kernel - 1) + value_heads * key_dim * value_dim
    state = figure("mamba_d_state", "ssm_state_size", "state_size")
    if state is None:
        return None
    heads, dim = (
        figure("mamba_n_heads", "mamba_num_heads"),
        figure("mamba_d_head", "mamba_head_dim"),
    )
    if model_type == "mamba2":
        heads, dim = figure("num_heads"), figure("head_dim")
    groups = figure("mamba_n_groups", "n_groups") or 1
    if heads and dim:
        return (heads * dim + 2 * groups * state) * (kernel - 1) + heads * dim * state
    inner = figure("mamba_d_ssm", "intermediate_size" if "mamba" in model_type else "mamba_d_inner")
    inner = inner or (figure("mamba_expand", "expand") or 2) * hidden
    return inner * (kernel - 1) + inner * state
