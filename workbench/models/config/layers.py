"""How many layers a config.json describes, and what each is: attention, full or sliding, recurrent, both or neither."""

from collections.abc import Mapping

from workbench.errors import ModelError
from workbench.models.config.figures import Config, is_count, positive, shown
from workbench.models.layout import SLIDING_FAMILIES, Sliding

# Of an encoder-decoder the decoder's own figures come first.
_LAYERS = (
    "num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks",
)  # fmt: skip
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
MOST_LAYERS = 1_000
# Families whose classes ignore sliding_window unless use_sliding_window is set.
_SLIDING_ON_REQUEST = frozenset({"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"})
# Families of linear attention by the gated delta rule, whose classes attend in every fourth layer (transformers 5.24).
_GATED_DELTA = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_moe"})
_ALL_RECURRENT = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"})
_ALL_HYBRID = frozenset({"falcon_h1", "zaya"})
_RECURRENT_TYPES = frozenset({"linear_attention", "mamba", "mamba2", "recurrent", "conv", "short_conv"})
_FULL_TYPES = frozenset({"full_attention", "attention", "global_attention", "full"})
_SLIDING_TYPES = frozenset({"sliding_attention", "local_attention", "sliding"})
_NOTHING_KEPT = frozenset({"none", "moe", "mlp"})


def layer_count(config: Config, name: str) -> int | None:
    """Layers that keep a cache, or would; None where the settings don't say how many.

    Raises ModelError for a number that can't be right.
    """
    layers = positive(config, _LAYERS, name)
    if layers is None:
        named = next((config[k] for k in (*_LAYER_TYPES, "hybrid_override_pattern") if config.get(k)), None)
        layers = len(named) if isinstance(named, list | str) else None
    elif config.get("model_type") == "longcat_flash" and "num_hidden_layers" not in config:
        # Each of its layers has two attentions, and keeps the cache of both.
        layers *= 2
    if layers is not None:
        check_layer_count(layers, name)
    return layers


def check_layer_count(layers: int, name: str) -> None:
    """Raises ModelError, which says `name`, for more layers than any model has."""
    if layers > MOST_LAYERS:
        raise ModelError(f"{name} claims {layers:,} layers in its settings, which no model has.")


def layer_kinds(
    config: Config, model_type: str, layers: int, name: str, notes: list[str]
) -> list[tuple[str, int | None]]:
    """Each layer as attention, recurrent, hybrid (both) or none, with the window, in tokens, of those that slide.

    What is taken for granted of them is added to `notes`. Raises ModelError, which says `name`, for types that are not
    the layers', and for a window that is no number of tokens.
    """
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
        return "attention", positive(config, ("attention_chunk_size",), name)
    notes.append(f"Layers of type {named!r} are not modelled: counted as full attention.")
    return "attention", None


def _window(config: Config, model_type: str, name: str) -> int | None:
    known = SLIDING_FAMILIES.get(model_type)
    key = next((key for key in _WINDOW if key in config), None)
    window = config[key] if key else known.window if known is not None else None
    # Some settings write -1 or 0 for no window.
    if window is not None and window != -1 and not is_count(window):
        raise ModelError(
            f"{name} has {key} = {shown(window)} in its settings where a number of tokens, or null, was expected."
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
            raise ModelError(f"{name} has {key} = {shown(named)} where a list of layer types was expected.")
        extra = positive(config, EXTRA_LAYERS, name) or 0
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
