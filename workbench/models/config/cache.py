"""What each layer that a config.json describes keeps of the tokens before, and what its attention computes on them."""

from collections.abc import Mapping, Sequence

from workbench.errors import ModelError
from workbench.models.config.figures import Config, each_layer, is_count, positive
from workbench.models.config.layers import layer_kinds
from workbench.models.config.recurrent_state import recurrent_elements
from workbench.models.layout import full_or_sliding, latent, latent_attention, recurrent
from workbench.models.model import AttentionLayer, KvLayer

# Of an encoder-decoder the decoder's own figures come first.
_HEADS = (
    "num_decoder_attention_heads", "decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads",
    "num_query_heads", "attention_heads",
)  # fmt: skip
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv")
LAYERS_OWN = ("head_dim", "v_head_dim", "num_key_value_heads", "num_attention_heads")
"""Figures in which single layers of a model may differ."""


def cache_and_attention(
    config: Config, model_type: str, hidden: int, layers: int, name: str, notes: list[str]
) -> tuple[tuple[KvLayer, ...], tuple[AttentionLayer, ...]]:
    """The cache of each layer that keeps one, and the attention of each that attends, in the order of the layers.

    Both are empty where the settings don't say how many heads there are. What a person must know of the figures is
    added to `notes`. Raises ModelError, which says `name`, for figures that can't be right.
    """
    kinds = layer_kinds(config, model_type, layers, name, notes)
    state = _state_elements(config, model_type, hidden, kinds, notes)
    heads = each_layer(config, _HEADS, layers, name)
    kv_heads = _kv_heads(config, model_type, layers, name) or heads
    head_dim = positive(config, _HEAD_DIM, name)
    if (heads is None or kv_heads is None) and any(kind not in ("recurrent", "none") for kind, _ in kinds):
        notes.append("The settings do not say how many attention heads there are: the KV cache is not modelled.")
        return (), ()
    own_cache = layers - _sharing_layers(config, layers, name, notes)
    crossing = _crossing_layers(config, notes)
    rank, rope_dim = config.get("kv_lora_rank"), config.get("qk_rope_head_dim")
    kv: list[KvLayer] = []
    attention: list[AttentionLayer] = []
    for index, (kind, window) in enumerate(kinds):
        if kind == "none" or index in crossing:
            continue
        if kind == "recurrent":
            kv.append(recurrent(state))
            continue
        assert heads is not None
        assert kv_heads is not None
        if isinstance(rank, int) and isinstance(rope_dim, int):
            kv.append(latent(rank, rope_dim, window))
            attention.append(latent_attention(heads[index], rank, rope_dim, window))
        elif heads[index]:
            own = _layers_own(config, index, window, name)
            key_dim, value_dim = _dimensions(config, own, heads[index], head_dim, hidden, name)
            if index < own_cache:
                kv_count = own.get("num_key_value_heads") or kv_heads[index]
                constant = state if kind == "hybrid" else 0
                kv.append(full_or_sliding(kv_count, key_dim, value_dim, window, constant))
            head_count = own.get("num_attention_heads") or heads[index]
            attention.append(AttentionLayer(head_count, (key_dim + value_dim) // 2, window))
    return tuple(kv), tuple(attention)


def _state_elements(
    config: Config, model_type: str, hidden: int, kinds: Sequence[tuple[str, int | None]], notes: list[str]
) -> int:
    """Elements of a recurrent layer's state, zero where there is none or its family's is not known."""
    state = recurrent_elements(config, model_type, hidden)
    if state is None and any(kind in ("recurrent", "hybrid") for kind, _ in kinds):
        notes.append("The fixed state of the recurrent layers is not modelled for this family: counted as zero.")
    return state or 0


def _kv_heads(config: Config, model_type: str, layers: int, name: str) -> list[int] | None:
    stated = each_layer(config, _KV_HEADS, layers, name)
    # Falcon's settings state kv heads that its class ignores where all queries share one.
    shared = config.get("multi_query", model_type == "falcon") and not config.get("new_decoder_architecture")
    if shared and (stated is None or model_type == "falcon"):
        return [1] * layers
    return stated


def _crossing_layers(config: Config, notes: list[str]) -> Sequence[int]:
    """The layers that attend to an image, and keep nothing of the text."""
    crossing = config.get("cross_attention_layers")
    if not isinstance(crossing, list) or not crossing:
        return ()
    notes.append("Layers that attend to an image instead of the text keep nothing of the text: left out.")
    return crossing


def _sharing_layers(config: Config, layers: int, name: str, notes: list[str]) -> int:
    """How many of the last layers keep no cache but read that of an earlier one."""
    sharing = positive(config, ("num_kv_shared_layers",), name) or 0
    if sharing:
        notes.append(f"The last {sharing} layers read the cache of earlier ones, which is counted as read once.")
    if sharing >= layers:
        raise ModelError(f"{name} has num_kv_shared_layers = {sharing:,} of {layers:,} layers. Check its settings.")
    return sharing


def _dimensions(
    config: Config, own: Mapping[str, int], heads: int, head_dim: int | None, hidden: int, name: str
) -> tuple[int, int]:
    """Elements of a head's key and of its value: the layer's `own`, else the model's, else hidden / heads."""
    key_dim = own.get("head_dim") or head_dim or hidden // heads
    value_dim = own.get("v_head_dim") or positive(config, ("v_head_dim",), name) or key_dim
    if key_dim <= 0:
        raise ModelError(f"{name} says that {heads:,} heads share a width of {hidden:,}. Check its settings.")
    return key_dim, value_dim


def _layers_own(config: Config, index: int, window: int | None, name: str) -> Mapping[str, int]:
    """Figures of one layer that differ from the model's: its head dimensions and numbers of heads."""
    if window is not None and any(f"swa_{key}" in config for key in LAYERS_OWN):
        return {key: positive(config, (f"swa_{key}",), name) or 0 for key in LAYERS_OWN}
    each = config.get("per_layer_config")
    if isinstance(each, Mapping):
        # transformers writes the layer's number with leading zeros.
        stated = next((each[key] for key in (str(index), f"{index:02}", f"{index:03}") if key in each), None)
        if isinstance(stated, Mapping):
            return {key: stated[key] for key in LAYERS_OWN if is_count(stated.get(key))}
    if window is not None:
        return {}
    own = {"head_dim": positive(config, ("global_head_dim",), name) or 0}
    if config.get("attention_k_eq_v", True):
        own["num_key_value_heads"] = positive(config, ("num_global_key_value_heads",), name) or 0
    return own
