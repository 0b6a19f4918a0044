"""Ways to damage a model file, and everything that is computed from one that is still read."""

import random
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from tests.models.files import LLAMA_METADATA, LLAMA_TENSORS, Entry, gguf_bytes
from workbench.ceilings.decode import bytes_per_step, step_flop, step_seconds, weights_read
from workbench.ceilings.memory_fit import needed
from workbench.models.inspection import inspection
from workbench.models.resolve import resolve
from workbench.quantity import Unit, arithmetic

_COUNTS = (0, 1, 2, 3, 1 << 16, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1)
_VALUES: tuple[Any, ...] = (
    *(0, 1, 3, 4096, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 64) - 1, -1, -(1 << 40)),
    *(True, False, 0.5, float("nan"), float("inf"), -1e300),
    *("", "text", b"\xff\xfe\x00", b"\xed\xa0\x80", "x" * 70_000),
    *([], [0], [1, 2], [1] * 3, [0] * 5000, [-1, -1], [True, False], [0.5, 0.5], ["a", "b"], [b"\xff"]),
    *([[1], [2, 3]], [[["a"]]], [[[[[1]]]]], [[]] * 100),
)
_ARCHITECTURES = (
    "llama",
    "gemma3",
    "gemma4",
    "gpt-oss",
    "llama4",
    "qwen3next",
    "kimi-linear",
    "falcon-h1",
    "deepseek2",
)
_KEYS = (
    *("block_count", "context_length", "embedding_length", "vocab_size", "expert_count", "expert_used_count"),
    *("nextn_predict_layers", "decoder_block_count", "token_shift_count", "rope.dimension_count", "wkv.head_size"),
    *("attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length"),
    *("attention.key_length_swa", "attention.value_length_swa", "attention.kv_lora_rank", "attention.causal"),
    *("attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers"),
    *("attention.indexer.top_k", "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.group_count"),
    *("kda.head_dim", "shortconv.l_cache"),
)
_GENERAL_KEYS = (
    *("general.architecture", "general.type", "general.alignment", "general.file_type", "split.count", "split.no"),
    *("split.tensors.count", "tokenizer.ggml.tokens", "tokenizer.chat_template"),
)
_PARTS = (
    *("attn_q", "attn_k", "attn_qkv", "attn_kv_a_mqa", "attn_k_b", "ssm_conv1d", "ssm_a", "time_mix_w1", "ffn_up"),
    *("shortconv.conv", "ffn_up_exps", "ffn_gate.3", "nextn.eh_proj", "attn_norm_2", "ffn_gate_inp"),
)
_NAMES = ("", ".", "blk.", "blk.999999999.attn_q.weight", "blk.-1.attn_k", "output.weight", "x" * 70_000, "é.\0", "v.a")


def mutated(whole: bytes, header: int, chance: random.Random, start: int = 4) -> bytes:
    """The bytes with one to four wounds in the header from `start` on, or cut short."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(start, header)
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at : at + 8] = chance.choice([0, 1, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1]).to_bytes(
                    8, "little"
                )
            case 2:
                data[at : at + 4] = chance.randrange(1 << 32).to_bytes(4, "little")
            case 3:
                del data[at : at + chance.randint(1, 32)]
            case 4:
                data = data[: chance.randrange(4, len(data))]
        if len(data) <= header:
            break
    return bytes(data)


def miswritten(chance: random.Random) -> bytes:
    """A GGUF whose form is right and whose content is not: values, types, counts, names, sizes and offsets."""
    architecture = chance.choice(_ARCHITECTURES)
    layers = chance.randint(1, 3)
    metadata: dict[str, Any] = {
        "general.architecture": architecture,
        f"{architecture}.block_count": layers,
        f"{architecture}.embedding_length": 64,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.sliding_window": 16,
        **{f"{architecture}.{key}": chance.choice((4, 8, 64)) for key in chance.sample(_KEYS[7:], 6)},
    }
    tensors: list[Entry] = [LLAMA_TENSORS[0]]
    for layer in range(layers):
        for part in chance.sample(_PARTS, 4):
            tensors.append((f"blk.{layer}.{part}.weight", (64, 4), 0, 1024))
    for _ in range(chance.randint(1, 3)):
        match chance.randrange(4):
            case 0 | 1:
                key = (
                    f"{architecture}.{chance.choice(_KEYS)}" if chance.random() < 0.8 else chance.choice(_GENERAL_KEYS)
                )
                metadata[key] = chance.choice(_VALUES)
            case 2:
                metadata.pop(chance.choice(list(metadata)), None)
            case 3:
                at = chance.randrange(len(tensors))
                tensors[at] = _wrong(tensors, at, chance)
    offsets = (
        {chance.randrange(len(tensors)): chance.choice((*_COUNTS, 32, 64, 1 << 33))} if chance.random() < 0.2 else {}
    )
    return gguf_bytes(
        metadata,
        tensors,
        version=chance.choice((2, 3, 3, 3)) if chance.random() < 0.95 else chance.choice((0, 1, 4, 1 << 16, 3 << 24)),
        order=chance.choice("<<<>"),
        offsets=offsets,
    )


def _wrong(tensors: Sequence[Entry], at: int, chance: random.Random) -> Entry:
    name, sizes, kind, stored = tensors[at]
    match chance.randrange(5):
        case 0:
            name = chance.choice((*_NAMES, tensors[0][0]))
        case 1:
            sizes = [chance.choice(_COUNTS) for _ in range(chance.randint(0, 5))]
        case 2:
            kind = chance.choice((1, 2, 8, 14, 30, 39, 40, 99, (1 << 32) - 1))
        case 3:
            stored = chance.choice((0, 32, 4096, 65_536))
        case 4:
            sizes = (64, 0)
    return name, sizes, kind, stored


def write_split(folder: Path, chance: random.Random) -> Path:
    """A model in two parts, one of them damaged or missing; the part to name."""
    paths = [folder / f"tiny-0000{number}-of-00002.gguf" for number in (1, 2)]
    for number, (path, tensors) in enumerate(zip(paths, (LLAMA_TENSORS[:2], LLAMA_TENSORS[2:]), strict=True)):
        metadata = {**(LLAMA_METADATA if number == 0 else {}), "split.no": number, "split.count": 2}
        if chance.random() < 0.3:
            metadata[chance.choice(("split.no", "split.count", "split.tensors.count"))] = chance.choice(_VALUES)
        path.write_bytes(gguf_bytes(metadata, tensors))
    hurt = chance.choice(paths)
    if chance.random() < 0.1:
        hurt.unlink()
    elif chance.random() < 0.7:
        hurt.write_bytes(mutated(hurt.read_bytes(), 200, chance))
    return chance.choice(paths)


def everything(path: Path) -> None:
    """All that is computed of a model: what is read, the cache and the ceilings.

    Raises ModelError where the file is refused, AssertionError for a figure that can't be.
    """
    model = resolve(str(path))
    shown = inspection(model)
    assert 0 <= shown["read_bytes_per_token"] <= shown["resident_bytes"] <= (model.file_bytes or 0)
    B = arithmetic("bandwidth", 1e11, Unit.BYTES_PER_SECOND, "B")
    C = arithmetic("compute", 1e13, Unit.FLOP_PER_SECOND, "C")
    for t, b in ((0, 1), (4096, 1), (1 << 20, 64)):
        for figure in (
            weights_read(model, b),
            step_flop(model, t, b),
            bytes_per_step(model, t, 2.0, b),
            step_seconds(model, t, 2.0, B, C, b),
            needed(model, t, 2.0, b),
        ):
            assert isfinite(figure.value), str(figure)
            assert figure.value >= 0, str(figure)
