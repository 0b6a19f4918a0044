"""A Model from the header of a GGUF file."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from workbench.errors import ModelError
from workbench.models.ggml_types import file_types
from workbench.models.gguf import GgufHeader, SkippedArray, Value, part_names, read_gguf
from workbench.models.layout import (
    SLIDING_FAMILIES,
    Layout,
    Sliding,
    family,
    full_or_sliding,
    latent,
    latent_attention,
    recurrent,
    unique,
)
from workbench.models.model import AttentionLayer, KvLayer, Model, ModelKind
from workbench.models.tensors import Tensor, group_tensors

_BLOCK = re.compile(r"^blk\.(\d{1,9})\.([a-z_0-9]+)")
# Chunked attention of Llama 4: neither the length nor the pattern stands in the header.
_LLAMA4_CHUNK = 8192


def read_gguf_model(path: Path) -> Model:
    """The model of a GGUF file, from its header alone.

    Raises ModelError for what `read_gguf` refuses, and for a file that holds no language model.
    """
    header = read_gguf(path)
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ModelError(
            f"{path} does not say which architecture it is (general.architecture): it is not a model "
            "llama.cpp could load. Convert it again."
        )
    content = metadata.get("general.type", "model")
    if architecture == "clip" or content not in ("model", ""):
        what = "a vision or audio projector" if architecture == "clip" else f"of type {content!r}"
        raise ModelError(f"{path} is {what}, not a language model. Name the model's own .gguf file.")
    if not header.tensors:
        raise ModelError(f"{path} holds no tensors: it is a vocabulary, not a model. Name the model's own file.")
    layout = _layout(header, architecture)
    grouped = group_tensors(
        header.tensors,
        layers=layout.layers,
        tied=None,
        experts=layout.experts,
        experts_used=layout.experts_used,
    )
    notes = [*layout.notes, *grouped.notes]
    if header.unknown_types:
        notes.append(
            f"Element types not known to this workbench ({', '.join(header.unknown_types)}) are sized from the "
            "file's offsets, padding included: the byte figures rest on that."
        )
    vocabulary = metadata.get(f"{architecture}.vocab_size")
    tokens = metadata.get("tokenizer.ggml.tokens")
    return Model(
        name=_model_name(header.path),
        source=str(path),
        kind=ModelKind.GGUF,
        architecture=architecture,
        quantisation=_quantisation(metadata, header.tensors),
        groups=grouped.groups,
        kv_layers=layout.kv_layers,
        attention_layers=layout.attention_layers,
        vocabulary=grouped.vocabulary
        or (vocabulary if isinstance(vocabulary, int) else 0)
        or (tokens.length if isinstance(tokens, SkippedArray) else 0),
        hidden=grouped.hidden or layout.hidden,
        context_limit=layout.context_limit,
        tied_embeddings=grouped.tied,
        file_bytes=header.file_bytes,
        path=path,
        experts=layout.experts,
        experts_used=layout.experts_used,
        notes=unique(notes),
    )


def _model_name(path: Path) -> str:
    parts = part_names(path)
    return path.stem if parts is None else path.stem.rsplit("-", 3)[0]


def _quantisation(metadata: Mapping[str, Value], tensors: tuple[Tensor, ...]) -> str:
    """The file's own name for its mix of types, or the type that takes most of its bytes."""
    number = metadata.get("general.file_type")
    if isinstance(number, int) and number in file_types():
        return file_types()[number]
    by_type: dict[str, int] = {}
    for tensor in tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    return max(by_type, key=lambda kind: by_type[kind])


class _Settings:
    """The metadata of one architecture, by the last part of its keys."""

    def __init__(self, metadata: Mapping[str, Value], architecture: str) -> None:
        self.metadata = metadata
        self.architecture = architecture

    def value(self, key: str) -> Value | None:
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, absent: int = 0) -> int:
        value = self.value(key)
        if isinstance(value, tuple):
            value = max(value, default=None)
        return value if isinstance(value, int) and 0 < value < 1 << 40 else absent

    def each(self, key: str, layer: int, absent: int) -> int:
        """The figure for one layer, of one for all or one each."""
        value = self.value(key)
        if isinstance(value, tuple):
            value = value[layer] if layer < len(value) else None
        return value if isinstance(value, int) and 0 <= value < 1 << 40 else absent


def _layout(header: GgufHeader, architecture: str) -> Layout:
    settings = _Settings(header.metadata, architecture)
    blocks: dict[int, set[str]] = {}
    for tensor in header.tensors:
        match = _BLOCK.match(tensor.name)
        if match:
            blocks.setdefault(int(match[1]), set()).add(match[2])
    notes: list[str] = []
    stated = settings.number("block_count")
    layers = stated - settings.number("nextn_predict_layers") if stated else len(blocks)
    if not stated:
        notes.append("The header does not say how many layers there are: counted from its tensors.")
    hidden = settings.number("embedding_length")
    slides = _sliding_layers(settings, architecture, notes)
    window = settings.number("attention.sliding_window") or _family_window(architecture)
    kv: list[KvLayer] = []
    attention: list[AttentionLayer] = []
    if not settings.value("attention.head_count") and any(_attends(parts) for parts in blocks.values()):
        notes.append("The header does not say how many attention heads there are: the KV cache is not modelled.")
    else:
        for layer in sorted(index for index in blocks if index < layers):
            sliding = window if slides is not None and window and slides(layer) else None
            _add_layer(settings, layer, blocks[layer], hidden, sliding, kv, attention, notes)
    if settings.number("attention.shared_kv_layers") or architecture == "gemma3n":
        notes.append("The last layers reuse the cache of earlier ones: it is read again, and stored once.")
    if settings.value("attention.indexer.top_k"):
        notes.append("Sparse attention by an indexer is not modelled: counted as full attention.")
    return Layout(
        layers=layers,
        hidden=hidden,
        context_limit=settings.number("context_length") or None,
        experts=settings.number("expert_count"),
        experts_used=settings.number("expert_used_count"),
        kv_layers=tuple(kv),
        attention_layers=tuple(attention),
        notes=unique(notes),
    )


def _attends(parts: set[str]) -> bool:
    """Whether a layer's tensors are those of attention; linear attention stores attn_qkv beside ssm parts."""
    fused = "attn_qkv" in parts and not any(part.startswith("ssm_") for part in parts)
    return fused or bool(parts & {"attn_q", "attn_k", "attn_q_a", "attn_q_b", "attn_kv_a_mqa"})


def _add_layer(
    settings: _Settings,
    layer: int,
    parts: set[str],
    hidden: int,
    window: int | None,
    kv: list[KvLayer],
    attention: list[AttentionLayer],
    notes: list[str],
) -> None:
    state = _recurrent_elements(settings, parts, hidden)
    if state is None and any(p.startswith(("ssm_", "time_mix", "shortconv")) for p in parts):
        notes.append("The fixed state of the recurrent layers is not modelled for this file: counted as zero.")
        state = 0
    if not _attends(parts):
        if state is not None:
            kv.append(recurrent(state))
        elif not any(p.startswith("ffn_") for p in parts):
            notes.append("Some layers have neither attention nor a recurrent state: no cache is counted for them.")
        return
    heads = settings.each("attention.head_count", layer, 0)
    if "attn_kv_a_mqa" in parts:
        rank = settings.number("attention.kv_lora_rank")
        rope = settings.number("rope.dimension_count")
        if not rank:
            notes.append("The header has latent attention but not its rank: the KV cache is counted too low.")
        kv.append(latent(rank, rope))
        attention.append(latent_attention(heads, rank, rope))
        return
    suffix = "_swa" if window is not None else ""
    absent = hidden // heads if heads else 0
    key = settings.number(f"attention.key_length{suffix}") or settings.number("attention.key_length", absent)
    value = settings.number(f"attention.value_length{suffix}") or settings.number("attention.value_length", absent)
    kv_heads = settings.each("attention.head_count_kv", layer, heads)
    kv.append(full_or_sliding(kv_heads, key, value, window, state or 0))
    attention.append(AttentionLayer(heads, (key + value) // 2, window))


def _family_window(architecture: str) -> int:
    if architecture == "llama4":
        return _LLAMA4_CHUNK
    known = SLIDING_FAMILIES.get(family(architecture))
    return (known.window or 0) if known is not None else 0


def _sliding_layers(settings: _Settings, architecture: str, notes: list[str]) -> Callable[[int], bool] | None:
    """Which layers slide: from the header where it says, else known by architecture."""
    pattern = settings.value("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        marks = tuple(bool(mark) for mark in pattern)
        return lambda layer: layer < len(marks) and marks[layer]
    if architecture == "llama4":
        notes.append("Chunked attention is counted as a window of one chunk, the most it reads.")
        return Sliding(4).slides
    known = SLIDING_FAMILIES.get(family(architecture))
    if isinstance(pattern, int) and pattern > 0:
        return Sliding(pattern, known.full_first if known is not None else False).slides
    if known is not None:
        return known.slides
    if settings.number("attention.sliding_window"):
        notes.append(
            f"The header has a sliding window of {settings.number('attention.sliding_window'):,} but not which "
            f"layers use it, and the architecture {architecture!r} is not known to: every layer is counted as full."
        )
    return None


def _recurrent_elements(settings: _Settings, parts: set[str], hidden: int) -> int | None:
    """Elements of one recurrent layer's state: its matrix and the last inputs of its convolution.

    Source: the recurrent state sizes of llama.cpp's hyperparameters.
    """
    if any(part.startswith("shortconv") for part in parts):
        return hidden * (settings.number("shortconv.l_cache", 1) - 1)
    if any(part.startswith("time_mix") for part in parts):
        head = settings.number("wkv.head_size")
        return hidden * (settings.number("token_shift_count", 2) + head) if head else None
    if not any(part.startswith("ssm_") for part in parts):
        return None
    kernel, inner, state = (settings.number(f"ssm.{key}") for key in ("conv_kernel", "inner_size", "state_size"))
    if head := settings.number("kda.head_dim"):
        width = settings.number("attention.head_count") * head
        return 3 * (kernel - 1) * width + width * head if kernel else None
    if not (kernel and inner and state):
        return None
    return (kernel - 1) * (inner + 2 * settings.number("ssm.group_count") * state) + inner * state
