"""The layout of a model from its config.json: its sizes, its experts, and what each layer keeps."""

from workbench.errors import ModelError
from workbench.models.config.cache import cache_and_attention
from workbench.models.config.class_defaults import CLASS_DEFAULTS
from workbench.models.config.figures import Config, positive
from workbench.models.config.layers import layer_count
from workbench.models.config.text_config import TEXT_SETTINGS, text_config
from workbench.models.layout import Layout, family, unique
from workbench.models.model import AttentionLayer, KvLayer

HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "emb_dim")
"""The names of a model's width."""
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
_EXPERTS_USED = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k",
    "num_selected_experts", "experts_per_token",
)  # fmt: skip
MOST_EXPERTS = 100_000
_SHARED_BLOCKS = frozenset({"zamba", "zamba2"})
_NOT_MODELLED = ("block_configs", "ssm_cfg", "index_topk")


def config_layout(config: Config, name: str) -> Layout:
    """The layout that a config.json describes; `name` is said in errors.

    Raises ModelError for settings without a hidden size, or with figures that can't be right.
    """
    config = text_config(config)
    model_type = family(str(config.get("model_type", "")))
    config = {**CLASS_DEFAULTS.get(model_type, {}), **{k: v for k, v in config.items() if v is not None}}
    hidden = positive(config, HIDDEN, name)
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
        kv_layers, attention = cache_and_attention(config, model_type, hidden, layers, name, notes)
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
    experts, experts_used = positive(config, _EXPERTS, name) or 0, positive(config, _EXPERTS_USED, name) or 0
    if experts > MOST_EXPERTS:
        raise ModelError(f"{name} claims {experts:,} experts in its settings, which no model has.")
    if 0 < experts < experts_used:
        raise ModelError(f"{name} says that a token uses {experts_used:,} of {experts:,} experts. Check its settings.")
    return Layout(
        layers=layers,
        hidden=hidden,
        context_limit=positive(config, _CONTEXT, name),
        experts=experts,
        experts_used=experts_used,
        kv_layers=kv_layers,
        attention_layers=attention,
        notes=unique(notes),
    )
