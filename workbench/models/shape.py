"""The tensors of a model from its config.json by arithmetic, for the decoder families that presets use."""

import math
from collections.abc import Iterator

from workbench.errors import ModelError, unknown_name
from workbench.models.config.class_defaults import CLASS_DEFAULTS
from workbench.models.config.figures import Config
from workbench.models.config.layers import check_layer_count
from workbench.models.described import described_model
from workbench.models.model import DTYPE_BYTES, Model, ModelKind
from workbench.models.tensors import Tensor

Shapes = Iterator[tuple[str, tuple[int, ...]]]

FAMILIES = ("gpt_oss", "llama", "mistral", "qwen2", "qwen3", "qwen3_moe")


def shape_model(config: Config, *, name: str, source: str, quantisation: str | None = None) -> Model:
    """The model that a config.json describes, its tensors in the dtype it states.

    Raises ModelError for a family that is not in FAMILIES, a missing setting, or an unknown dtype.
    """
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"The settings of {name}: {unknown_name('dtype', dtype, DTYPE_BYTES)}")
    return described_model(
        config,
        shape_tensors(config, name, dtype),
        name=name,
        source=source,
        kind=ModelKind.PRESET,
        quantisation=quantisation or dtype,
    )


def shape_tensors(config: Config, name: str, dtype: str) -> tuple[Tensor, ...]:
    """Every tensor, in `dtype`; raises ModelError as `tensor_shapes` does."""
    size = DTYPE_BYTES[dtype]
    return tuple(
        Tensor(tensor, shape, dtype, math.prod(shape), math.prod(shape) * size)
        for tensor, shape in tensor_shapes(config, name)
    )


def tensor_shapes(config: Config, name: str) -> Shapes:
    """Name and shape of every tensor, as transformers' class of the family names them.

    Raises ModelError for a family that is not in FAMILIES or a missing setting.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ModelError(
            f"The shape of {name} can't be computed from its settings alone: its model_type is {family!r}, and the "
            f"families known are {', '.join(FAMILIES)}. Name a folder with weights, or a .gguf file."
        )
    h, V = _setting(config, "hidden_size", name), _setting(config, "vocab_size", name)
    yield "model.embed_tokens.weight", (V, h)
    layers = _setting(config, "num_hidden_layers", name)
    check_layer_count(layers, name)
    for index in range(layers):
        layer = f"model.layers.{index}"
        yield from _attention(config, name, f"{layer}.self_attn", h)
        yield from _feed_forward(config, name, f"{layer}.mlp", h, index)
        yield f"{layer}.input_layernorm.weight", (h,)
        yield f"{layer}.post_attention_layernorm.weight", (h,)
    yield "model.norm.weight", (h,)
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", (V, h)


def _setting(config: Config, key: str, name: str) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        found = "is missing" if value is None else f"is {value!r}"
        raise ModelError(f"The settings of {name} need {key} as a whole number above zero, and it {found}.")
    return value


def _optional(config: Config, key: str, name: str) -> int | None:
    return None if config.get(key) is None else _setting(config, key, name)


def _attention(config: Config, name: str, prefix: str, h: int) -> Shapes:
    family = config["model_type"]
    heads = _setting(config, "num_attention_heads", name)
    kv_heads = _optional(config, "num_key_value_heads", name) or heads
    head_dim = _optional(config, "head_dim", name) or CLASS_DEFAULTS.get(family, {}).get("head_dim") or h // heads
    if head_dim <= 0:
        raise ModelError(f"The settings of {name} have {heads:,} heads share a width of {h:,}. Check them.")
    q, kv = heads * head_dim, kv_heads * head_dim
    biased = bool(config.get("attention_bias", family == "gpt_oss"))
    bias_qkv = biased or family == "qwen2"
    bias_o = biased and family != "qwen2"
    for part, rows, columns, bias in (
        ("q_proj", q, h, bias_qkv),
        ("k_proj", kv, h, bias_qkv),
        ("v_proj", kv, h, bias_qkv),
        ("o_proj", h, q, bias_o),
    ):
        yield f"{prefix}.{part}.weight", (rows, columns)
        if bias:
            yield f"{prefix}.{part}.bias", (rows,)
    if family in ("qwen3", "qwen3_moe"):
        yield f"{prefix}.q_norm.weight", (head_dim,)
        yield f"{prefix}.k_norm.weight", (head_dim,)
    if family == "gpt_oss":
        yield f"{prefix}.sinks", (heads,)


def _feed_forward(config: Config, name: str, prefix: str, h: int, index: int) -> Shapes:
    family = config["model_type"]
    if family == "gpt_oss":
        E, f = _setting(config, "num_local_experts", name), _setting(config, "intermediate_size", name)
        yield f"{prefix}.router.weight", (E, h)
        yield f"{prefix}.router.bias", (E,)
        yield f"{prefix}.experts.gate_up_proj", (E, h, 2 * f)
        yield f"{prefix}.experts.gate_up_proj_bias", (E, 2 * f)
        yield f"{prefix}.experts.down_proj", (E, f, h)
        yield f"{prefix}.experts.down_proj_bias", (E, h)
        return
    if family == "qwen3_moe" and _routed(config, index, name):
        E = _optional(config, "num_local_experts", name) or _setting(config, "num_experts", name)
        f = _setting(config, "moe_intermediate_size", name)
        yield f"{prefix}.gate.weight", (E, h)
        yield f"{prefix}.experts.gate_up_proj", (E, 2 * f, h)
        yield f"{prefix}.experts.down_proj", (E, h, f)
        return
    f = _setting(config, "intermediate_size", name)
    bias = family == "llama" and bool(config.get("mlp_bias"))
    for part, rows, columns in (("gate_proj", f, h), ("up_proj", f, h), ("down_proj", h, f)):
        yield f"{prefix}.{part}.weight", (rows, columns)
        if bias:
            yield f"{prefix}.{part}.bias", (rows,)


def _routed(config: Config, index: int, name: str) -> bool:
    """Whether a layer of a qwen3_moe has experts: those named dense, and those between sparse steps, don't."""
    dense = config.get("mlp_only_layers") or ()
    if not isinstance(dense, list | tuple):
        raise ModelError(f"The settings of {name} need mlp_only_layers as a list of layers, and it is {dense!r}.")
    return index not in dense and (index + 1) % (_optional(config, "decoder_sparse_step", name) or 1) == 0
