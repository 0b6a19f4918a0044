"""What a GGUF header says of a model: reads by group, and the cache of each layer by family."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.models.files import LLAMA_METADATA, Entry, gguf_bytes, smollm2
from workbench.errors import ModelError
from workbench.models.gguf_model import read_gguf_model
from workbench.models.model import KvKind, Model, Read


def model(tmp_path: Path, metadata: dict[str, Any], names: list[str] | None = None, layers: int = 6) -> Model:
    architecture = metadata["general.architecture"]
    settings = {
        "general.architecture": architecture,
        f"{architecture}.block_count": layers,
        f"{architecture}.embedding_length": 64,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.head_count_kv": 2,
        **metadata,
    }
    if names is None:
        names = [f"blk.{i}.attn_{part}.weight" for i in range(layers) for part in "qk"]
    tensors: list[Entry] = [("token_embd.weight", (64, 128), 0, 64 * 128 * 4)]
    tensors += [(name, (64, 16), 0, 64 * 16 * 4) for name in names]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(settings, tensors))
    return read_gguf_model(path)


def windows(found: Model) -> list[int | None]:
    return [layer.window for layer in found.kv_layers]


def test_the_real_file_is_read_to_the_byte() -> None:
    found = read_gguf_model(smollm2())
    assert found.parameters == found.read_parameters == 134_515_008
    assert found.tied_embeddings
    assert found.read_bytes_per_token == found.resident_bytes == 96_576_768
    assert found.file_bytes == smollm2().stat().st_size
    assert found.kv_elements_read(1) * 2 == 23_040
    assert (found.vocabulary, found.hidden, found.context_limit) == (49_152, 576, 8_192)
    assert found.quantisation == "Q4_1"
    assert found.name == "SmolLM2-135M-Instruct.Q4_1"
    assert [(g.name, g.read) for g in found.groups] == [
        ("attention projections", Read.ALL),
        ("feed-forward", Read.ALL),
        ("norms", Read.ALL),
        ("token embedding", Read.ALL),
    ]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("architecture", "full"),
    [
        ("gemma2", {1, 3, 5}),
        ("gemma3", {5}),
        ("gemma3n", {4}),
        ("gpt-oss", {1, 3, 5}),
        ("cohere2", {3}),
        ("smallthinker", {0, 4}),
        ("olmo2", {3}),
    ],
)
def test_the_pattern_of_sliding_layers_is_known_by_architecture(
    tmp_path: Path, architecture: str, full: set[int]
) -> None:
    found = model(tmp_path, {"general.architecture": architecture, f"{architecture}.attention.sliding_window": 32})
    assert windows(found) == [None if i in full else 32 for i in range(6)]
    assert [layer.kind for layer in found.kv_layers] == [KvKind.FULL if i in full else KvKind.SLIDING for i in range(6)]
    assert [layer.window for layer in found.attention_layers] == windows(found)


def test_a_pattern_in_the_header_wins(tmp_path: Path) -> None:
    window = {"general.architecture": "gemma3", "gemma3.attention.sliding_window": 32}
    period = model(tmp_path, {**window, "gemma3.attention.sliding_window_pattern": 2})
    assert windows(period) == [32, None] * 3
    marks = [True, False, False, True, True, False]
    each = model(tmp_path, {**window, "gemma3.attention.sliding_window_pattern": marks})
    assert windows(each) == [32 if mark else None for mark in marks]


def test_a_window_without_a_known_pattern_is_said_and_counted_full(tmp_path: Path) -> None:
    found = model(tmp_path, {"general.architecture": "novel", "novel.attention.sliding_window": 32})
    assert windows(found) == [None] * 6
    assert any("every layer is counted as full" in note for note in found.notes)


def test_explicit_head_dimensions_and_heads_per_layer_are_used(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        {
            "general.architecture": "llama",
            "llama.attention.key_length": 24,
            "llama.attention.value_length": 8,
            "llama.attention.head_count_kv": [1, 2, 4, 1, 2, 4],
        },
    )
    assert [layer.elements_per_token for layer in found.kv_layers] == [32, 64, 128, 32, 64, 128]


def test_latent_attention_keeps_rank_and_rope(tmp_path: Path) -> None:
    names = [f"blk.{i}.{part}.weight" for i in range(6) for part in ("attn_q_b", "attn_kv_a_mqa")]
    found = model(
        tmp_path,
        {
            "general.architecture": "deepseek2",
            "deepseek2.attention.kv_lora_rank": 512,
            "deepseek2.rope.dimension_count": 64,
        },
        names,
    )
    assert {(layer.kind, layer.elements_per_token) for layer in found.kv_layers} == {(KvKind.LATENT, 576)}


def test_hybrid_layers_have_a_state_and_no_growing_cache(tmp_path: Path) -> None:
    names = [f"blk.{i}.{part}.weight" for i in (0, 1, 2, 4) for part in ("attn_qkv", "ssm_conv1d")]
    names += [f"blk.{i}.attn_{part}.weight" for i in (3, 5) for part in "qk"]
    ssm = {"conv_kernel": 4, "inner_size": 128, "state_size": 16, "group_count": 2}
    found = model(
        tmp_path,
        {"general.architecture": "qwen3next", **{f"qwen3next.ssm.{k}": v for k, v in ssm.items()}},
        names,
    )
    state = 3 * (128 + 2 * 2 * 16) + 128 * 16
    assert [layer.constant_elements for layer in found.kv_layers] == [state, state, state, 0, state, 0]
    assert [layer.kind is KvKind.RECURRENT for layer in found.kv_layers] == [True, True, True, False, True, False]
    assert len(found.attention_layers) == 2
    assert any(group.name == "recurrent mixers" for group in found.groups)


def test_experts_extra_heads_and_towers_are_read_as_they_are(tmp_path: Path) -> None:
    names = [
        "blk.0.attn_q.weight",
        "blk.0.attn_k.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.0.ffn_up_exps.weight",
        "blk.0.ffn_down_exps.bias",
        "blk.0.ffn_up_shexp.weight",
        "blk.1.nextn.eh_proj.weight",
        "blk.1.attn_q.weight",
        "v.blk.0.attn_q.weight",
        "something_new.weight",
        "output.weight",
    ]
    found = model(
        tmp_path,
        {
            "general.architecture": "glm4moe",
            "glm4moe.nextn_predict_layers": 1,
            "glm4moe.expert_count": 16,
            "glm4moe.expert_used_count": 2,
        },
        names,
        layers=2,
    )
    size = 64 * 16 * 4
    assert {(g.name, g.read, g.bytes) for g in found.groups} == {
        ("attention projections", Read.ALL, 2 * size),
        ("router", Read.ALL, size),
        ("routed experts", Read.ROUTED, 2 * size),
        ("shared experts", Read.ALL, size),
        ("extra prediction heads", Read.NONE, 2 * size),
        ("vision and audio towers", Read.NONE, size),
        ("other", Read.ALL, size),
        ("output head", Read.ALL, size),
        ("token embedding", Read.ONE_ROW, 64 * 128 * 4),
    }
    assert found.read_bytes_per_token == 6 * size + 2 * size * 2 // 16 + 64 * 4
    assert len(found.kv_layers) == 1
    assert any("something_new.weight" in note for note in found.notes)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("attention.head_count", "four", "attention.head_count is 'four' where a whole number"),
        ("attention.head_count_kv", [2, 2], "for 2 layers, and there is a layer 2"),
        ("attention.key_length", 0.5, "attention.key_length is 0.5 where"),
        ("attention.sliding_window", -1, "attention.sliding_window is -1 where"),
        ("block_count", 1 << 40, "block_count is 1099511627776 where"),
        ("block_count", 4097, "has 4,097 layers"),
        ("expert_count", True, "expert_count is True where"),
        ("attention.head_count_kv", [1] * 5000, "head_count_kv is an array or text of 5,000 where"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, key: str, value: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)):
        model(tmp_path, {"general.architecture": "llama", f"llama.{key}": value})


@pytest.mark.parametrize("name", ["x" * 70_000, "a\x1b[2J"])
def test_an_architecture_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({"general.architecture": name}))
    with pytest.raises(ModelError, match="where the name of an architecture was expected") as caught:
        read_gguf_model(path)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


def test_unknown_types_are_flagged(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(tensors=[("token_embd.weight", (64, 128), 99, 4096)]))
    assert any("type 99" in note and "offsets" in note for note in read_gguf_model(path).notes)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "general.architecture"),
        ({"general.architecture": "clip"}, "vision or audio projector"),
        ({"general.architecture": "llama", "general.type": "adapter"}, "of type 'adapter'"),
    ],
)
def test_files_that_hold_no_language_model_are_refused(tmp_path: Path, metadata: dict[str, Any], words: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(metadata))
    with pytest.raises(ModelError, match=words):
        read_gguf_model(path)
    path.write_bytes(gguf_bytes(LLAMA_METADATA, []))
    with pytest.raises(ModelError, match="holds no tensors"):
        read_gguf_model(path)
