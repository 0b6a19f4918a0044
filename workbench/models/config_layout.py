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

# Of an encoder-decoder the decoder's own figures come first.
_LAYERS = (
    "num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks",
)  # fmt: skip
HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "emb_dim")
_HEADS = (
    "num_decoder_attention_heads", "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads",
    "num_query_heads", "attention_heads",
)  # fmt: skip
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv")
_WINDOW = ("sliding_window", "sliding_window_size", "attention_window_size")
_LAYER_TYPES = ("layer_types", "layers_block_type")
EXTRA_LAYERS = (
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_layers",
    "mtp_num_hidden_layers",
    "num_mtp_modules",
)
"""Where settings count the blocks that predict tokens further ahead, stored behind the model's own."""
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
_EXPERTS_USED = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k",
    "num_selected_experts", "experts_per_token",
)  # fmt: skip
# Heads that the families' classes assume when config.json leaves them out (transformers 5.24).
_GATED_DELTA = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
LAYERS_OWN = ("head_dim", "v_head_dim", "num_key_value_heads", "num_attention_heads")
"""Figures in which single layers of a model may differ."""
MOST_LAYERS = 1_000
MOST_EXPERTS = 100_000
LARGEST = 1 << 40
"""Of any figure in the settings: what is above it is damage."""
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
# Sizes that a multi-modal model's settings may leave to the class of the language model in them.
_NESTED_DEFAULTS: Mapping[str, Config] = {
    "llama": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    "mistral": {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "sliding_window": 4096,
    },
}  # fmt: skip
# Families whose classes ignore sliding_window unless use_sliding_window is set.
_SLIDING_ON_REQUEST = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"})
_ALL_RECURRENT = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"})
_ALL_HYBRID = frozenset({"falcon_h1", "zaya"})
_RECURRENT_TYPES = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv", "short_conv"})
_FULL_TYPES = frozenset({"full_attention", "attention", "global_attention", "full"})
_SLIDING_TYPES = frozenset({"sliding_attention", "local_attention", "sliding"})
_NOTHING_KEPT = frozenset({"none", "moe", "mlp"})
_SHARED_BLOCKS = frozenset({"zamba", "zamba2"})
_NOT_MODELLED = ("block_configs", "ssm_cfg", "index_topk")


TEXT_SETTINGS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")


def text_config(config: Config) -> Config:
    """The settings of the language model inside a multi-modal one's, or the settings themselves."""
    for key in TEXT_SETTINGS:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            missing = {k: config[k] for k in ("tie_word_embeddings", "model_type") if k in config}
            inner = text_config(inner)
            return {**missing, **_NESTED_DEFAULTS.get(str(inner.get("model_type")), {}), **inner}
    return config


def config_layout(config: Config, name: str) -> Layout:
    """The layout that a config.json describes; `name` is said in errors.

    Raises ModelError for settings without a hidden size, or with figures that can't be right.
    """
    config = text_config(config)
    model_type = family(str(config.get("model_type", "")))
    config = {**_DEFAULTS.get(model_type, {}), **{k: v for k, v in config.items() if v is not None}}
    hidden = _positive(config, HIDDEN, name)
    if hidden is None:
        raise ModelError(
            f"{name} has no {HIDDEN[0]} in its settings, nor a {TEXT_SETTINGS[0]} that has, so it is not a language "
            "model this workbench knows. Check that they are the model's own, and complete."
        )
    layers = layer_count(config, name)
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
    if model_type in _SHARED_BLOCKS:
        notes.append("Attention blocks that several layers share are counted as read once.")
    if config.get("zero_expert_num"):
        notes.append("A token may choose experts that compute nothing: the experts read are the most it can choose.")
    experts, experts_used = _positive(config, _EXPERTS, name) or 0, _positive(config, _EXPERTS_USED, name) or 0
    if experts > MOST_EXPERTS:
        raise ModelError(f"{name} claims {experts:,} experts in its settings, which no model has.")
    if 0 < experts < experts_used:
        raise ModelError(f"{name} says that a token uses {experts_used:,} of {experts:,} experts. Check its settings.")
    return Layout(
        layers=layers,
        hidden=hidden,
        context_limit=_positive(config, _CONTEXT, name),
        experts=experts,
        experts_used=experts_used,
        kv_layers=kv_layers,
        attention_layers=attention,
        notes=unique(notes),
    )


def layer_count(config: Config, name: str) -> int | None:
    """Layers that keep a cache, or would; None where the settings don't say how many.

    Raises ModelError for a number that can't be right.
    """
    layers = _positive(config, _LAYERS, name)
    if layers is None:
        named = next((config[k] for k in (*_LAYER_TYPES, "hybrid_override_pattern") if config.get(k)), None)
        layers = len(named) if isinstance(named, list | str) else None
    elif config.get("model_type") == "longcat_flash" and "num_hidden_layers" not in config:
        # Each of its layers has two attentions, and keeps the cache of both.
        layers *= 2
    if layers is not None and layers > MOST_LAYERS:
        raise ModelError(f"{name} claims {layers:,} layers in its settings, which no model has.")
    return layers


def _positive(config: Config, keys: Sequence[str], name: str) -> int | None:
    """The first of `keys` that is set, as a whole number; of a list, its largest."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, list) and value and all(_is_count(v) for v in value):
            value = max(value)
        if value is None or value == 0:
            continue
        if not _is_count(value):
            raise ModelError(f"{name} has {key} = {_shown(value)} in its settings where a whole number was expected.")
        return int(value)
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _heads(config: Config, keys: Sequence[str], layers: int, name: str) -> list[int] | None:
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        each = value if isinstance(value, list) else [value]
        # Layers without attention have no heads.
        counts = [0 if count is None else count for count in each]
        if not all(_is_count(count) for count in counts):
            raise ModelError(f"{name} has {key} = {_shown(value)} in its settings where a whole number was expected.")
        heads = per_layer(counts if isinstance(value, list) else counts[0], layers)
        if heads is None:
            raise ModelError(f"{name} has {len(counts):,} entries in {key} for {layers:,} layers. Check its settings.")
        return heads
    return None


def _layers(
    config: Config, model_type: str, hidden: int, layers: int, name: str, notes: list[str]
) -> tuple[tuple[KvLayer, ...], tuple[AttentionLayer, ...]]:
    kinds = layer_kinds(config, model_type, layers, name, notes)
    state = _recurrent_elements(config, model_type, hidden)
    if state is None and any(kind in ("recurrent", "hybrid") for kind, _ in kinds):
        notes.append("The fixed state of the recurrent layers is not modelled for this family: counted as zero.")
        state = 0
    heads = _heads(config, _HEADS, layers, name)
    kv_heads = _heads(config, _KV_HEADS, layers, name)
    # Falcon's settings state kv heads that its class ignores where all queries share one.
    shared = config.get("multi_query", model_type == "falcon") and not config.get("new_decoder_architecture")
    if shared and (kv_heads is None or model_type == "falcon"):
        kv_heads = [1] * layers
    kv_heads = kv_heads or heads
    rank, rope_dim = config.get("kv_lora_rank"), config.get("qk_rope_head_dim")
    head_dim = _positive(config, _HEAD_DIM, name)
    if (heads is None or kv_heads is None) and any(kind not in ("recurrent", "none") for kind, _ in kinds):
        notes.append("The settings do not say how many attention heads there are: the KV cache is not modelled.")
        return (), ()

    own_cache = layers - _sharing_layers(config, layers, name, notes)
    crossing = config.get("cross_attention_layers")
    crossing = crossing if isinstance(crossing, list) else []
    if crossing:
        notes.append("Layers that attend to an image instead of the text keep nothing of the text: left out.")
    kv: list[KvLayer] = []
    attention: list[AttentionLayer] = []
    for index, (kind, window) in enumerate(kinds):
        if kind == "none" or index in crossing:
            continue
        if kind == "recurrent":
            kv.append(recurrent(state or 0))
            continue
        assert heads is not None
        assert kv_heads is not None
        if isinstance(rank, int) and isinstance(rope_dim, int):
            kv.append(latent(rank, rope_dim, window))
            attention.append(latent_attention(heads[index], rank, rope_dim, window))
            continue
        if not heads[index]:
            continue
        own = _layers_own(config, index, window, name)
        dim = own.get("head_dim") or head_dim or hidden // heads[index]
        value_dim = own.get("v_head_dim") or _positive(config, ("v_head_dim",), name) or dim
        if dim <= 0:
            raise ModelError(
                f"{name} says that {heads[index]:,} heads share a width of {hidden:,}. Check its settings."
            )
        kv_count = own.get("num_key_value_heads") or kv_heads[index]
        if index < own_cache:
            kv.append(full_or_sliding(kv_count, dim, value_dim, window, (state or 0) if kind == "hybrid" else 0))
        attention.append(AttentionLayer(own.get("num_attention_heads") or heads[index], (dim + value_dim) // 2, window))
    return tuple(kv), tuple(attention)


def _sharing_layers(config: Config, layers: int, name: str, notes: list[str]) -> int:
    """How many of the last layers keep no cache but read that of an earlier one."""
    sharing = _positive(config, ("num_kv_shared_layers",), name) or 0
    if sharing:
        notes.append(f"The last {sharing} layers read the cache of earlier ones, which is counted as read once.")
    if sharing >= layers:
        raise ModelError(f"{name} has num_kv_shared_layers = {sharing:,} of {layers:,} layers. Check its settings.")
    return sharing


def _layers_own(config: Config, index: int, window: int | None, name: str) -> Mapping[str, int]:
    """Figures of one layer that differ from the model's: its head dimensions and numbers of heads."""
    if window is not None and any(f"swa_{key}" in config for key in LAYERS_OWN):
        return {key: _positive(config, (f"swa_{key}",), name) or 0 for key in LAYERS_OWN}
    each = config.get("per_layer_config")
    if isinstance(each, Mapping):
        # transformers writes the layer's number with leading zeros.
        stated = next((each[key] for key in (str(index), f"{index:02}", f"{index:03}") if key in each), None)
        if isinstance(stated, Mapping):
            return {key: stated[key] for key in LAYERS_OWN if _is_count(stated.get(key))}
    if window is not None:
        return {}
    own = {"head_dim": _positive(config, ("global_head_dim",), name) or 0}
    if config.get("attention_k_eq_v", True):
        own["num_key_value_heads"] = _positive(config, ("num_global_key_value_heads",), name) or 0
    return own


def layer_kinds(
    config: Config, model_type: str, layers: int, name: str, notes: list[str]
) -> list[tuple[str, int | None]]:
    """Each layer as attention, recurrent, hybrid (both) or none, with the window of those that slide."""
    window = _window(config, model_type, name)
    named = _named_kinds(config, model_type, layers, name)
    if named is not None:
        return [_kind(kind, window, config, name, notes) for kind in named]
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


def _kind(named: str, window: int | None, config: Config, name: str, notes: list[str]) -> tuple[str, int | None]:
    """One layer's kind and window from the type its settings name."""
    if named in _RECURRENT_TYPES:
        return "recurrent", None
    if named in _NOTHING_KEPT:
        return "none", None
    if named == "hybrid":
        return "hybrid", None
    if named in _FULL_TYPES:
        return "attention", None
    if named in _SLIDING_TYPES or named == "hybrid_sliding":
        if window is None:
            notes.append("Some layers slide but the settings give no window: counted as full.")
        return "hybrid" if named == "hybrid_sliding" else "attention", window
    if named == "chunked_attention":
        notes.append("Chunked attention is counted as a window of one chunk, the most it reads.")
        return "attention", _positive(config, ("attention_chunk_size",), name)
    notes.append(f"Layers of type {named!r} are not modelled: counted as full attention.")
    return "attention", None


def _window(config: Config, model_type: str, name: str) -> int | None:
    known = SLIDING_FAMILIES.get(model_type)
    key = next((key for key in _WINDOW if key in config), None)
    window = config[key] if key else known.window if known is not None else None
    # Some settings write -1 or 0 for no window.
    if window is not None and window != -1 and not _is_count(window):
        raise ModelError(
            f"{name} has {key} = {_shown(window)} in its settings where a number of tokens, or null, was expected."
        )
    if not config.get("use_sliding_window", model_type not in _SLIDING_ON_REQUEST):
        return None
    return window if window is not None and window > 0 else None


def _pattern(config: Config, model_type: str) -> Sliding | None:
    stated = config.get("sliding_window_pattern", config.get("_sliding_window_pattern"))
    if isinstance(stated, int) and stated > 0:
        return Sliding(stated)
    if isinstance(stated, str) and stated:
        return Sliding(len(stated))
    return SLIDING_FAMILIES.get(model_type)


def _named_kinds(config: Config, model_type: str, layers: int, name: str) -> list[str] | None:
    """The type of each layer where the settings name them, in whichever way the family does."""
    for key in _LAYER_TYPES:
        named = config.get(key)
        if named is None:
            continue
        if not isinstance(named, list) or not all(isinstance(kind, str) for kind in named):
            raise ModelError(f"{name} has {key} = {_shown(named)} where a list of layer types was expected.")
        extra = _positive(config, EXTRA_LAYERS, name) or 0
        if not layers <= len(named) <= layers + extra:
            raise ModelError(
                f"{name} names the types of {len(named):,} layers in {key}, and says there are {layers:,}. "
                "Check that config.json is as its maker published it."
            )
        return list(named[:layers])
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        if len(pattern) < layers:
            raise ModelError(f"{name} has a hybrid_override_pattern of {len(pattern):,} letters for {layers:,} layers.")
        return [{"M": "mamba", "*": "attention"}.get(letter, "none") for letter in pattern[:layers]]
    if model_type in _ALL_RECURRENT:
        return ["mamba"] * layers
    if model_type in _ALL_HYBRID:
        return ["hybrid"] * layers
    if isinstance(period := config.get("attn_layer_period"), int) and period > 0:
        offset = config.get("attn_layer_offset", 0)
        return ["attention" if i % period == offset else "mamba" for i in range(layers)]
    for key, other in (("attn_layer_indices", "mamba"), ("full_attn_idxs", "conv")):
        if isinstance(indices := config.get(key), list):
            return ["attention" if i in indices else other for i in range(layers)]
    if isinstance(indices := config.get("hybrid_layer_ids"), list):
        return ["hybrid" if i in indices else "mamba" for i in range(layers)]
    if isinstance(blocks := config.get("block_types"), list) and blocks:
        repeated = [str(blocks[i % len(blocks)]) for i in range(layers)]
        return ["sliding_attention" if kind == "attention" else kind for kind in repeated]
    if isinstance(listed := config.get("attn_type_list"), list) and len(listed) >= layers:
        return ["full_attention" if kind == 1 else "linear_attention" for kind in listed[:layers]]
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(full := linear.get("full_attn_layers"), list):
        # Numbered from one.
        return ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)]
    if model_type == "bamba":
        return ["mamba"] * layers
    interval = config.get("full_attention_interval", 4 if model_type in _GATED_DELTA else None)
    if isinstance(interval, int) and interval > 0:
        return ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    if model_type == "llama4":
        return _llama4_kinds(config, layers)
    return None


def _llama4_kinds(config: Config, layers: int) -> list[str]:
    """Layers without rotary positions attend to everything, the others to their chunk."""
    rotary = config.get("no_rope_layers")
    if isinstance(rotary, list) and len(rotary) == layers:
        return ["chunked_attention" if uses else "full_attention" for uses in rotary]
    return ["full_attention" if (i + 1) % 4 == 0 else "chunked_attention" for i in range(layers)]


def _recurrent_elements(config: Config, model_type: str, hidden: int) -> int | None:
    """Elements of one recurrent layer's state: its matrix and the last inputs of its convolution.

    Source: the caches of transformers' model classes (gated delta rule, Mamba, Mamba 2, short convolution).
    """

    def figure(*keys: str) -> int | None:
        return next((config[k] for k in keys if isinstance(config.get(k), int) and config[k] > 0), None)

    if model_type == "rwkv":
        # The token before, for both halves of a block, and the running sums of its attention.
        return 2 * hidden + 3 * (figure("attention_hidden_size") or hidden)
    if model_type == "minimax":
        heads, dim = figure("num_attention_heads"), figure("head_dim")
        return heads * (dim or hidden // heads) ** 2 if heads else None
    width = figure("lru_width") or hidden
    if (kernel := figure("conv1d_width")) is not None:
        return width * (kernel - 1) + width
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping):
        config = {
            "linear_num_heads": linear.get("num_heads"),
            "linear_head_dim": linear.get("head_dim"),
            "linear_conv_kernel_dim": linear.get("short_conv_kernel_size"),
        }
    kernel = figure("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache")
    if kernel is None:
        return None
    if figure("conv_L_cache") is not None:
        return hidden * (kernel - 1)
    heads, dim = figure("linear_num_heads"), figure("linear_head_dim")
    if heads and dim:
        return 3 * heads * dim * (kernel - 1) + heads * dim * dim
    key_heads, key_dim = figure("linear_num_key_heads"), figure("linear_key_head_dim")
    value_heads, value_dim = figure("linear_num_value_heads"), figure("linear_value_head_dim")
    if key_heads and key_dim and value_heads and value_dim:
        convolved = 2 * key_heads * key_dim + value_heads * value_dim
        return convolved * (kernel - 1) + value_heads * key_dim * value_dim
    state = figure("mamba_d_state", "ssm_state_size", "state_size")
    if state is None:
        return None
    heads, dim = (
        figure("mamba_n_heads", "mamba_num_heads", "n_mamba_heads"),
        figure("mamba_d_head", "mamba_head_dim", "mamba_headdim"),
    )
    if model_type == "mamba2":
        heads, dim = figure("num_heads"), figure("head_dim")
    groups = figure("mamba_n_groups", "mamba_ngroups", "n_groups") or 1
    if heads and dim:
        return (heads * dim + 2 * groups * state) * (kernel - 1) + heads * dim * state
    stated = figure("mamba_d_ssm", "intermediate_size" if "mamba" in model_type else "mamba_d_inner")
    inner = stated or (figure("mamba_expand", "expand") or 2) * hidden
    return inner * (kernel - 1) + inner * state
