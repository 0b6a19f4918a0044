"""A Model from the header of a GGUF file."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

from workbench.errors import ModelError
from workbench.models.ggml_types import file_types
from workbench.models.gguf import GgufHeader, SkippedArray, Value, part_names, read_gguf, shown
from workbench.models.gguf_architectures import (
    CACHELESS,
    LLAMA4_CHUNK,
    architecture_notes,
    window_when_absent,
)
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

_BLOCK = re.compile(r"^(?:dec\.)?blk\.(\d{1,9})\.([a-z_0-9]+)")
_LONGEST_NAME = 64
_Parts = dict[str, int]  # the names of a layer's tensors, each with the rows of its matrix, 0 where it is none
# Eight times what llama.cpp allows.
_MOST_LAYERS = 4096
# GGUF counts heads, dimensions and layers in 32 bits.
_MOST = 1 << 32


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
    if not architecture.isprintable() or len(architecture) > _LONGEST_NAME:
        raise ModelError(f"{path} has {shown(architecture)} where the name of an architecture was expected.")
    content = metadata.get("general.type", "model")
    if architecture == "clip" or content not in ("model", ""):
        what = "a vision or audio projector" if architecture == "clip" else f"of type {shown(content)}"
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
    notes = [*architecture_notes(architecture), *layout.notes, *grouped.notes]
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
    """The metadata of one architecture, by the last part of its keys.

    Raises ModelError for a value of another kind than asked for: read as absent, it would give wrong figures.
    """

    def __init__(self, header: GgufHeader, architecture: str) -> None:
        self.path = header.path
        self.metadata = header.metadata
        self.architecture = architecture
        self._checked: dict[str, int | tuple[int, ...] | None] = {}
        self._largest: dict[str, int] = {}

    def value(self, key: str) -> Value | None:
        return self.metadata.get(f"{self.architecture}.{key}")

    def numbers(self, key: str) -> int | tuple[int, ...] | None:
        """One number for all layers, or one each."""
        if key not in self._checked:
            value = self.value(key)
            listed = value if isinstance(value, tuple) else () if value is None else (value,)
            if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _MOST for n in listed):
                raise ModelError(
                    f"The header of {self.path} says {self.architecture}.{key} is {shown(value)} where a whole number, "
                    "or one for each layer, was expected. Convert the model again."
                )
            self._checked[key] = cast("int | tuple[int, ...] | None", value)
        return self._checked[key]

    def number(self, key: str, absent: int = 0) -> int:
        """The figure, the largest of one each; `absent` for none and for 0."""
        if key not in self._largest:
            value = self.numbers(key)
            self._largest[key] = max(value, default=0) if isinstance(value, tuple) else value or 0
        return self._largest[key] or absent

    def each(self, key: str, layer: int, absent: int) -> int:
        """The figure for one layer, of one for all or one each."""
        value = self.numbers(key)
        if isinstance(value, tuple):
            if layer >= len(value):
                raise ModelError(
                    f"The header of {self.path} gives {self.architecture}.{key} for {len(value):,} layers, and there "
                    f"is a layer {layer:,}. Convert the model again."
                )
            return value[layer]
        return absent if value is None else value


def _layout(header: GgufHeader, architecture: str) -> Layout:
    settings = _Settings(header, architecture)
    blocks = _blocks(header.tensors)
    notes: list[str] = []
    layers = _layer_count(settings, blocks, notes)
    if layers > _MOST_LAYERS:
        raise ModelError(
            f"{header.path} has {layers:,} layers, and no model has more than {_MOST_LAYERS:,}: its header is damaged. "
            "Download it again."
        )
    hidden = settings.number("embedding_length")
    slides = _sliding_layers(settings, layers, notes)
    kv: list[KvLayer] = []
    attention: list[AttentionLayer] = []
    if not settings.number("attention.head_count") and any(_attends(parts) for parts in blocks.values()):
        notes.append("The header does not say how many attention heads there are: the KV cache is not modelled.")
    else:
        for layer in sorted(index for index in blocks if index < layers):
            _add_layer(settings, layer, blocks[layer], hidden, slides(layer), kv, attention, notes)
    if settings.number("attention.shared_kv_layers") or architecture == "gemma3n":
        notes.append("The last layers reuse the cache of earlier ones: it is read again, and stored once.")
    if settings.number("attention.indexer.top_k"):
        notes.append(
            "Sparse attention by an indexer is not modelled: counted as full attention, without the indexer's own keys."
        )
    if settings.value("attention.causal") is False and architecture not in CACHELESS:
        notes.append("The header says its attention looks both ways, as embedding models' does: decoding is no use.")
    return Layout(
        layers=layers,
        hidden=hidden,
        context_limit=settings.number("context_length") or None,
        experts=settings.number("expert_count"),
        experts_used=settings.number("expert_used_count"),
        kv_layers=() if architecture in CACHELESS else tuple(kv),
        attention_layers=tuple(attention),
        notes=unique([*notes, *_contradictions(header, settings, layers)]),
    )


def _blocks(tensors: tuple[Tensor, ...]) -> dict[int, _Parts]:
    """The parts of each layer of the decoder, by the layer's number."""
    blocks: dict[int, _Parts] = {}
    for tensor in tensors:
        match = _BLOCK.match(tensor.name)
        if match:
            rows = tensor.shape[0] if tensor.name.endswith(".weight") and len(tensor.shape) == 2 else 0
            parts = blocks.setdefault(int(match[1]), {})
            parts[match[2]] = max(rows, parts.get(match[2], 0))
    return blocks


def _layer_count(settings: _Settings, blocks: Mapping[int, _Parts], notes: list[str]) -> int:
    """The layers a token passes through: extra prediction layers are not among them."""
    stated = settings.number("decoder_block_count") or settings.number("block_count")
    if not stated:
        notes.append("The header does not say how many layers there are: counted from its tensors.")
        return max(blocks, default=-1) + 1
    # A file may keep the key and leave the extra layers out of tensors and count alike.
    predicting = any("nextn" in parts for parts in blocks.values())
    return max(stated - settings.number("nextn_predict_layers"), 0) if predicting else stated


def _contradictions(header: GgufHeader, settings: _Settings, layers: int) -> Iterator[str]:
    """Sentences on where the header and the tensors of a file disagree."""
    found = sum(1 for index in _blocks(header.tensors) if index < layers)
    # The blocks of an HRM are counted as often as they run.
    if found != layers and settings.architecture != "hrm_text":
        yield (
            f"The header states {layers:,} layers and tensors of {found:,} are recognised: "
            "the cache of the others is not counted."
        )
    if not any(tensor.name.startswith("token_embd.") for tensor in header.tensors):
        yield "The file holds no token embedding: it is no whole language model, and the figures cover what it holds."
    experts = settings.number("expert_count")
    stacked = {t.shape[0] for t in header.tensors if t.name.endswith("_exps.weight") and len(t.shape) == 3}
    if stacked and stacked != {experts}:
        shown = " or ".join(f"{n:,}" for n in sorted(stacked))
        yield f"The header states {experts:,} experts and its tensors hold {shown}: what a token reads rests on it."
    used = settings.value("expert_used_count")
    if isinstance(used, tuple) and len(set(used)) > 1:
        yield "Layers use different numbers of experts: all are counted as using the most."


def _attends(parts: _Parts) -> bool:
    """Whether a layer's tensors are those of attention; linear attention stores attn_qkv beside ssm parts."""
    fused = "attn_qkv" in parts and not any(part.startswith("ssm_") for part in parts)
    return fused or bool(parts.keys() & {"attn_q", "attn_k", "attn_q_a", "attn_q_b", "attn_kv_a_mqa"})


def _add_layer(
    settings: _Settings,
    layer: int,
    parts: _Parts,
    hidden: int,
    window: int | None,
    kv: list[KvLayer],
    attention: list[AttentionLayer],
    notes: list[str],
) -> None:
    heads = settings.each("attention.head_count", layer, 0)
    kv_heads = settings.each("attention.head_count_kv", layer, heads)
    suffix = "_swa" if window is not None else ""
    absent = hidden // heads if heads else 0
    key = settings.number(f"attention.key_length{suffix}") or settings.number("attention.key_length", absent)
    value = settings.number(f"attention.value_length{suffix}") or settings.number("attention.value_length", absent)
    state = _recurrent_elements(settings, parts, hidden, key)
    if state is None and any(p.startswith(("ssm_", "time_mix", "shortconv")) for p in parts):
        notes.append("The fixed state of the recurrent layers is not modelled for this file: counted as zero.")
        state = 0
    # Delta attention has queries and keys of its own, and no KV heads.
    if not _attends(parts) or (state is not None and not kv_heads) or _is_lightning(settings, parts):
        if state is not None:
            kv.append(recurrent(state))
        elif not any(p.startswith("ffn_") for p in parts):
            notes.append("Some layers have neither attention nor a recurrent state: no cache is counted for them.")
    elif "attn_kv_a_mqa" in parts:
        rank = settings.number(f"attention.kv_lora_rank{suffix}") or settings.number("attention.kv_lora_rank")
        rope = settings.number("rope.dimension_count")
        if not rank:
            notes.append("The header has latent attention but not its rank: the KV cache is counted too low.")
        if "attn_k_b" not in parts:
            notes.append(
                f"llama.cpp keeps this file's keys and values whole, {kv_heads * (key + value):,} elements a token and "
                f"layer, not the {rank + rope:,} of the latent vector that are counted: it was converted for that."
            )
        kv.append(latent(rank, rope, window))
        attention.append(latent_attention(heads, rank, rope, window))
    elif "attn_kv" in parts:
        kv.append(latent(key, 0, window))
        attention.append(AttentionLayer(heads, key, window))
    else:
        if not kv_heads * (key + value):
            notes.append("The header gives some layers with attention no KV heads or no head size: counted as nothing.")
        if parts.get("attn_k", 0) not in (0, kv_heads * key):
            notes.append(
                f"The header's {kv_heads:,} KV heads of {key:,} make {kv_heads * key:,} values and the file's keys are "
                f"{parts['attn_k']:,} wide: the cache is counted by the header."
            )
        kv.append(full_or_sliding(kv_heads, key, value, window, state or 0))
        attention.append(AttentionLayer(heads, (key + value) // 2, window))


def _sliding_layers(settings: _Settings, layers: int, notes: list[str]) -> Callable[[int], int | None]:
    """The window of each layer, None for full attention: from the header where it says, else by architecture."""
    architecture = settings.architecture
    window = _window(settings, layers)
    slides = _pattern(settings)
    if not window:
        return lambda _: None
    if architecture == "llama4":
        notes.append("Chunked attention is counted as a window of one chunk, the most it reads.")
    if architecture == "phi3":
        notes.append(f"llama.cpp reads this family's whole cache, not only its window of {window:,} tokens.")
    if slides is None:
        notes.append(
            f"The header has a sliding window of {window:,} but not which layers use it, and the architecture "
            f"{architecture!r} is not known to: every layer is counted as full."
        )
        return lambda _: None
    return lambda layer: window if slides(layer) else None


def _window(settings: _Settings, layers: int) -> int:
    """The window in tokens, 0 for none."""
    stated = settings.value("attention.sliding_window")
    if settings.architecture == "llama4":
        return 0 if stated == 0 else LLAMA4_CHUNK
    if stated is None:
        return window_when_absent(settings.architecture, layers)
    return settings.number("attention.sliding_window")


def _pattern(settings: _Settings) -> Callable[[int], bool] | None:
    pattern = settings.value("attention.sliding_window_pattern")
    if not isinstance(pattern, tuple):
        pattern = settings.numbers("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        marks = tuple(bool(mark) for mark in pattern)
        return lambda layer: layer < len(marks) and marks[layer]
    known = Sliding(4) if settings.architecture == "llama4" else SLIDING_FAMILIES.get(family(settings.architecture))
    if pattern is not None:
        return Sliding(pattern or None, known.full_first if known is not None else False).slides
    return known.slides if known is not None else None


def _is_lightning(settings: _Settings, parts: _Parts) -> bool:
    """Whether a layer is the linear attention of MiniMax-Text-01, which alone there has a second norm."""
    return settings.architecture == "minimax-01" and "attn_norm_2" in parts


def _recurrent_elements(settings: _Settings, parts: _Parts, hidden: int, key: int) -> int | None:
    """Elements of one recurrent layer's state: its matrix and the last inputs of its convolution.

    Source: the recurrent state sizes of llama.cpp's hyperparameters.
    """
    if any(part.startswith("shortconv") for part in parts):
        return hidden * (settings.number("shortconv.l_cache", 1) - 1)
    if any(part.startswith("time_mix") for part in parts):
        head = settings.number("wkv.head_size")
        return hidden * (settings.number("token_shift_count", 2) + head) if head else None
    if _is_lightning(settings, parts):
        return settings.number("attention.head_count") * key * key
    if not any(part.startswith("ssm_") for part in parts):
        return None
    kernel, inner, state = (settings.number(f"ssm.{name}") for name in ("conv_kernel", "inner_size", "state_size"))
    if head := settings.number("kda.head_dim"):
        width = settings.each("attention.head_count", 0, 0) * head
        return 3 * (kernel - 1) * width + width * head if kernel else None
    if not (kernel and inner and state):
        return None
    return (kernel - 1) * (inner + 2 * settings.number("ssm.group_count") * state) + inner * state
