"""The cache of every kind of architecture, against figures worked out from llama.cpp's loader of each.

The keys are those its converter writes; sizes are small. Hidden size 64, four heads of 16 unless a case says else.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.models.files import packaged_gguf
from workbench.models.gguf_architectures import CACHELESS, architecture_notes, is_known
from workbench.models.gguf_model import read_gguf_model
from workbench.models.model import KvKind, Model, Read

HEADS = {"embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
DIMENSIONS = {"attention.key_length": 16, "attention.value_length": 16}
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 8, "ssm.time_step_rank": 4}
MLA = {
    "attention.head_count_kv": 1,
    "attention.kv_lora_rank": 32,
    "attention.key_length": 40,
    "attention.value_length": 32,
    "attention.key_length_mla": 24,
    "attention.value_length_mla": 16,
    "rope.dimension_count": 8,
}
DECOMPRESSED = {
    "attention.head_count_kv": 4,
    "attention.kv_lora_rank": 32,
    "attention.key_length": 24,
    "rope.dimension_count": 8,
}
INDEXER = {"attention.indexer.head_count": 4, "attention.indexer.key_length": 16, "attention.indexer.top_k": 64}

FULL = "attn_q attn_k attn_v attn_output ffn_up"
FUSED = "attn_qkv attn_output ffn_up"
LATENT = "attn_q_a attn_q_b attn_kv_a_mqa attn_k_b attn_v_b attn_output ffn_up"
UNABSORBED = "attn_q_a attn_q_b attn_kv_a_mqa attn_kv_b attn_output ffn_up"
MAMBA = "ssm_in ssm_conv1d ssm_x ssm_dt ssm_a ssm_d ssm_out"
DELTA = "attn_qkv attn_gate ssm_conv1d ssm_dt ssm_a ssm_beta_alpha ssm_norm ssm_out ffn_up"
KIMI_DELTA = "attn_q attn_k attn_v ssm_conv1d_q ssm_conv1d_k ssm_conv1d_v ssm_f_a ssm_f_b ssm_beta ssm_a attn_output"
CONV = "shortconv.in_proj shortconv.conv ffn_up"
RWKV = "time_mix_w1 time_mix_w2 time_mix_key time_mix_value channel_mix_key"


class Kept(NamedTuple):
    """What a layer keeps: elements a token, window, elements whatever the context."""

    kind: KvKind
    elements: int
    window: int | None = None
    constant: int = 0


def full(elements: int = 64, constant: int = 0) -> Kept:
    return Kept(KvKind.FULL, elements, None, constant)


def slides(window: int, elements: int = 64) -> Kept:
    return Kept(KvKind.SLIDING, elements, window)


def latent(elements: int, window: int | None = None) -> Kept:
    return Kept(KvKind.LATENT, elements, window)


def state(elements: int) -> Kept:
    return Kept(KvKind.RECURRENT, 0, None, elements)


def written(
    folder: Path, architecture: str, settings: Mapping[str, Any], layers: Sequence[str], **others: Sequence[int]
) -> Model:
    """The model of a file with these parts in each layer, and other tensors by name (a dot for each `__`)."""
    shapes: dict[str, Sequence[int]] = {"token_embd.weight": (128, 64), "output_norm.weight": (64,)}
    for index, parts in enumerate(layers):
        shapes |= {f"blk.{index}.{part}.weight": (8, 64) for part in ("attn_norm", *parts.split())}
    shapes |= {name.replace("__", "."): shape for name, shape in others.items()}
    settings = {"block_count": len(layers), "context_length": 4096, **HEADS, **settings}
    return read_gguf_model(packaged_gguf(folder / "m.gguf", architecture, settings, shapes))


def kept(model: Model) -> list[Kept]:
    return [
        Kept(layer.kind, layer.elements_per_token, layer.window, layer.constant_elements) for layer in model.kv_layers
    ]


CASES: list[tuple[str, dict[str, Any], list[str], list[Kept]]] = [
    ("llama", {"rope.dimension_count": 16}, [FULL] * 2, [full()] * 2),
    ("qwen3", {"attention.key_length": 32, "attention.value_length": 32}, [FULL] * 2, [full(128)] * 2),
    ("gpt2", {"attention.head_count_kv": 4}, [FUSED] * 2, [full(128)] * 2),
    # multi-query attention: one KV head
    ("starcoder", {"attention.head_count_kv": 1}, [FUSED], [full(32)]),
    ("phi3", {"attention.sliding_window": 0}, [FUSED] * 2, [full()] * 2),
    ("gemma2", DIMENSIONS, [FULL] * 4, [slides(4096), full()] * 2),
    ("gemma2", {**DIMENSIONS, "attention.sliding_window": 32}, [FULL] * 4, [slides(32), full()] * 2),
    ("gemma3", {"attention.sliding_window": 32}, [FULL] * 7, [*[slides(32)] * 5, full(), slides(32)]),
    ("gemma3", {}, [FULL] * 2, [full()] * 2),
    ("gemma3n", {"attention.sliding_window": 32}, [FULL] * 6, [*[slides(32)] * 4, full(), slides(32)]),
    (
        "gemma4",
        {
            "attention.sliding_window": 32,
            "attention.sliding_window_pattern": [True, True, False, True, False],
            "attention.head_count_kv": [2, 2, 1, 2, 1],
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.key_length_swa": 16,
            "attention.value_length_swa": 16,
            "attention.shared_kv_layers": 2,
        },
        [*[FULL] * 3, *["attn_q attn_output ffn_up inp_gate"] * 2],
        [slides(32), slides(32), full(), slides(32), full()],
    ),
    ("gpt-oss", {"attention.sliding_window": 128}, [FULL] * 4, [slides(128), full()] * 2),
    ("cohere2", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("cohere2moe", {"attention.sliding_window": 32}, [FULL] * 5, [full(), *[slides(32)] * 3, full()]),
    ("laguna", {"attention.sliding_window": 32}, [FULL] * 5, [full(), *[slides(32)] * 3, full()]),
    ("afmoe", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("mellum", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("muse-glimmer", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("exaone-moe", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("exaone4", {}, [FULL] * 4, [full()] * 4),
    ("exaone4", {}, [FULL] * 64, [*[slides(4096)] * 3, full()] * 16),
    ("olmo2", {}, [FULL] * 4, [full()] * 4),
    ("olmo2", {"attention.sliding_window": 32}, [FULL] * 4, [*[slides(32)] * 3, full()]),
    ("plamo3", {"attention.sliding_window": 32}, [FULL] * 9, [*[slides(32)] * 7, full(), slides(32)]),
    ("smallthinker", {"attention.sliding_window": 4096}, [FULL] * 5, [full(), *[slides(4096)] * 3, full()]),
    ("smallthinker", {}, [FULL] * 2, [full()] * 2),
    ("llama4", {}, [FULL] * 4, [*[slides(8192)] * 3, full()]),
    ("llama4", {"attention.sliding_window": 0}, [FULL] * 4, [full()] * 4),
    # a period of 0 stands for every layer, of 1 for none
    ("gemma3", {"attention.sliding_window": 32, "attention.sliding_window_pattern": 0}, [FULL] * 2, [slides(32)] * 2),
    ("gemma3", {"attention.sliding_window": 32, "attention.sliding_window_pattern": 1}, [FULL] * 2, [full()] * 2),
    (
        "mimo2",
        {
            "attention.sliding_window": 32,
            "attention.sliding_window_pattern": [0, 1, 1],
            "attention.head_count_kv": [1, 2, 2],
            "attention.key_length": 24,
            "attention.value_length": 16,
        },
        [FULL] * 3,
        [full(40), slides(32, 80), slides(32, 80)],
    ),
    (
        "step35",
        {
            "attention.sliding_window": 32,
            "attention.sliding_window_pattern": [False, True],
            "attention.head_count": [4, 8],
            "attention.head_count_kv": [2, 2],
            **DIMENSIONS,
        },
        [FULL] * 2,
        [full(), slides(32)],
    ),
    ("openelm", {"attention.head_count_kv": [1, 2], **DIMENSIONS}, [FUSED] * 2, [full(32), full(64)]),
    # a layer of DeciLM may have no attention, or a linear map in its place
    (
        "deci",
        {"attention.head_count": [4, 0, 4], "attention.head_count_kv": [2, 0, 0], **DIMENSIONS},
        [FULL, "ffn_up", "attn_output ffn_up"],
        [full()],
    ),
    ("deepseek2", MLA, [LATENT] * 2, [latent(40)] * 2),
    ("mistral4", MLA, [LATENT] * 2, [latent(40)] * 2),
    ("deepseek2", {**DECOMPRESSED, "attention.value_length": 16}, [UNABSORBED], [latent(40)]),
    ("minicpm3", DECOMPRESSED, [UNABSORBED], [latent(40)]),
    ("glm-dsa", {**MLA, **INDEXER}, [f"{LATENT} indexer"] * 2, [latent(40)] * 2),
    (
        "dots3note",
        {
            **MLA,
            **INDEXER,
            "attention.kv_lora_rank_swa": 16,
            "attention.sliding_window": 32,
            "attention.sliding_window_pattern": [False, True],
        },
        [LATENT] * 2,
        [latent(40), latent(24, 32)],
    ),
    (
        "deepseek4",
        {
            "attention.head_count_kv": 1,
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.sliding_window": 16,
            "attention.compress_ratios": [0, 4],
        },
        ["attn_q_a attn_q_b attn_kv attn_output_a attn_output_b"] * 2,
        [latent(32, 16)] * 2,
    ),
    ("mamba", {**SSM, "attention.head_count": 0, "attention.head_count_kv": 0}, [MAMBA], [state(3 * 128 + 128 * 8)]),
    ("mamba2", {**SSM, "ssm.group_count": 2, "attention.head_count": 0}, [MAMBA], [state(3 * 160 + 1024)]),
    (
        "jamba",
        {**SSM, "attention.head_count_kv": [0, 2]},
        [f"{MAMBA} ffn_up", FULL],
        [state(3 * 128 + 1024), full()],
    ),
    (
        "granitehybrid",
        {**SSM, "ssm.group_count": 1, "attention.head_count_kv": [0, 2]},
        [f"{MAMBA} ffn_up", FULL],
        [state(3 * (128 + 2 * 8) + 1024), full()],
    ),
    ("plamo2", {**SSM, "ssm.group_count": 0, "attention.head_count_kv": [0, 2]}, [MAMBA, FUSED], [state(1408), full()]),
    # a layer of Nemotron-H is one of three: a state, attention, or feed-forward alone
    (
        "nemotron_h",
        {**SSM, "ssm.group_count": 2, "attention.head_count_kv": [0, 0, 2]},
        [MAMBA, "ffn_up ffn_down", "attn_q attn_k attn_v attn_output"],
        [state(3 * (128 + 32) + 1024), full()],
    ),
    # attention and a state side by side in every layer
    (
        "falcon-h1",
        {**SSM, "ssm.group_count": 1, **DIMENSIONS},
        [f"{FULL} {MAMBA}"] * 2,
        [full(64, 3 * (128 + 16) + 1024)] * 2,
    ),
    (
        "qwen3next",
        {**SSM, "ssm.group_count": 2, "full_attention_interval": 4, **DIMENSIONS},
        [DELTA, DELTA, DELTA, FULL],
        [*[state(3 * (128 + 32) + 1024)] * 3, full()],
    ),
    (
        "kimi-linear",
        {**MLA, "ssm.conv_kernel": 4, "kda.head_dim": 16, "attention.head_count_kv": [0, 0, 1]},
        [KIMI_DELTA, KIMI_DELTA, LATENT],
        [*[state(3 * 3 * 64 + 16 * 16 * 4)] * 2, latent(40)],
    ),
    (
        "minimax-01",
        {**DIMENSIONS, "full_attention_interval": 2},
        ["attn_norm_2 attn_qkv attn_gate attn_output", FULL],
        [state(16 * 16 * 4), full()],
    ),
    ("lfm2", {"shortconv.l_cache": 3, "attention.head_count_kv": [0, 2]}, [CONV, FULL], [state(128), full()]),
    (
        "lfm2",
        {"shortconv.l_cache": 3, "attention.head_count_kv": [0, 2], "attention.sliding_window": 32},
        [CONV, FULL],
        [state(128), slides(32)],
    ),
    ("rwkv6", {"wkv.head_size": 16, "attention.head_count": 0}, [RWKV], [state(2 * 64 + 64 * 16)]),
    ("rwkv7", {"wkv.head_size": 16, "token_shift_count": 2, "attention.head_count": 0}, [RWKV], [state(1152)]),
    ("arwkv7", {"wkv.head_size": 16, "token_shift_count": 1, "attention.head_count": 0}, [RWKV], [state(64 + 1024)]),
    # the layer after the last is an extra prediction head
    ("glm4moe", {"nextn_predict_layers": 1}, [FULL, FULL, f"{FULL} nextn.eh_proj"], [full()] * 2),
    ("bert", {"attention.causal": False}, [FULL] * 2, []),
    ("dream", {}, [FULL] * 2, []),
]


@pytest.mark.parametrize(
    ("architecture", "settings", "layers", "expected"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_each_layer_keeps_what_llama_cpp_gives_it(
    tmp_path: Path, architecture: str, settings: dict[str, Any], layers: list[str], expected: list[Kept]
) -> None:
    found = written(tmp_path, architecture, settings, layers)
    assert kept(found) == expected
    assert not any("not known" in note or "are recognised" in note for note in found.notes)


@pytest.mark.parametrize(
    ("architecture", "settings", "layers", "words"),
    [
        ("bert", {}, [FULL], "no decode step and keeps no cache"),
        ("llada", {}, [FULL], "diffusion"),
        ("eagle3", {}, [FULL], "does not run alone"),
        ("deepseek32", {**MLA, **INDEXER}, [LATENT], "Sparse attention by an indexer is not modelled"),
        ("deepseek4", {"attention.sliding_window": 8}, [FULL], "compressed entries"),
        ("nanbeige", {"num_loops": 2}, [FULL], "several times a token"),
        ("grovemoe", {}, [FULL], "chunk experts"),
        ("gemma3n", {"attention.sliding_window": 8}, [FULL], "stored once"),
        ("llama4", {}, [FULL], "one chunk"),
        ("phi3", {"attention.sliding_window": 2047}, [FULL], "not only its window of 2,047"),
        ("minicpm3", DECOMPRESSED, [UNABSORBED], "160 elements a token and layer"),
        ("qwen3", {"attention.causal": False}, [FULL], "looks both ways"),
        ("granite_swa", {"expert_count": 8, "expert_used_count": [1, 2]}, [FULL] * 2, "different numbers of experts"),
        ("llama", {}, [FULL], "KV heads of 16 make 32 values and the file's keys are 8 wide"),
        ("novel", {}, [FULL], "'novel' is not known to this workbench"),
        ("llama", {"block_count": 9}, [FULL], "states 9 layers and tensors of 1 are recognised"),
    ],
)
def test_what_is_not_modelled_is_said(
    tmp_path: Path, architecture: str, settings: dict[str, Any], layers: list[str], words: str
) -> None:
    assert any(words in note for note in written(tmp_path, architecture, settings, layers).notes)


def test_a_plain_model_has_nothing_to_be_said(tmp_path: Path) -> None:
    assert written(tmp_path, "llama", {}, [FULL], blk__0__attn_k__weight=(32, 64)).notes == ()


def test_every_architecture_of_the_package_is_known() -> None:
    from gguf.constants import MODEL_ARCH_NAMES

    assert [name for name in MODEL_ARCH_NAMES.values() if not is_known(name) and name not in ("clip", "mmproj")] == []
    assert all(is_known(name) and architecture_notes(name) for name in CACHELESS)


def read_bytes(model: Model) -> dict[str, tuple[Read, int]]:
    return {group.name: (group.read, group.bytes) for group in model.groups}


def test_experts_shared_experts_and_leading_dense_layers(tmp_path: Path) -> None:
    experts = "ffn_gate_inp ffn_gate_shexp ffn_up_shexp"
    found = written(
        tmp_path,
        "deepseek2",
        {**MLA, "expert_count": 8, "expert_used_count": 2, "expert_shared_count": 1, "leading_dense_block_count": 1},
        ["ffn_up ffn_down", experts],
        blk__1__ffn_up_exps__weight=(8, 16, 64),
        blk__1__exp_probs_b__bias=(8,),
        output__weight=(128, 64),
    )
    reads = read_bytes(found)
    assert reads["routed experts"] == (Read.ROUTED, 8 * 16 * 64 * 2)
    assert reads["shared experts"] == (Read.ALL, 2 * 8 * 64 * 2)
    assert reads["feed-forward"] == (Read.ALL, 2 * 8 * 64 * 2)
    assert reads["output head"] == (Read.ALL, 128 * 64 * 2)
    assert reads["token embedding"] == (Read.ONE_ROW, 128 * 64 * 2)
    assert found.read_bytes_per_token == found.shared_read_bytes + 8 * 16 * 64 * 2 * 2 // 8 + 64 * 2


def test_experts_that_are_stored_apart_are_routed(tmp_path: Path) -> None:
    apart = {f"blk__0__ffn_{part}__{i}__weight": (8, 64) for part in ("gate", "up", "down") for i in range(4)}
    found = written(tmp_path, "llama", {"expert_count": 4, "expert_used_count": 2}, ["attn_q attn_k attn_v"], **apart)
    assert read_bytes(found)["routed experts"] == (Read.ROUTED, 12 * 8 * 64 * 2)


def test_an_expert_count_that_the_tensors_contradict_is_said(tmp_path: Path) -> None:
    settings = {"expert_count": 16, "expert_used_count": 2}
    found = written(tmp_path, "qwen3moe", settings, [FULL], blk__0__ffn_up_exps__weight=(8, 16, 64))
    assert any("states 16 experts and its tensors hold 8" in note for note in found.notes)


def test_parts_that_no_step_of_decoding_reads(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "gemma4",
        {"attention.sliding_window": 32, "attention.sliding_window_pattern": [True]},
        [f"{FULL} inp_gate proj post_norm layer_output_scale"],
        per_layer_token_embd__weight=(128, 32),
        per_layer_model_proj__weight=(32, 64),
        rope_freqs__weight=(8,),
        v__blk__0__attn_q__weight=(8, 64),
        a__blk__0__attn_q__weight=(8, 64),
        mm__input_projection__weight=(8, 64),
        blk__0__attn_k__weight=(32, 64),
    )
    reads = read_bytes(found)
    assert reads["vision and audio towers"] == (Read.NONE, 3 * 8 * 64 * 2)
    assert reads["per-layer embeddings"] == (Read.ONE_ROW, 128 * 32 * 2)
    assert reads["token embedding"] == (Read.ALL, 128 * 64 * 2)
    assert found.tied_embeddings
    assert found.notes == ()


def test_a_decoder_with_an_encoder_keeps_its_own_layers(tmp_path: Path) -> None:
    names = ("attn_q", "attn_k", "attn_v", "cross_attn_q", "cross_attn_k", "ffn_up")
    both = {f"{side}__blk__{i}__{name}__weight": (8, 64) for side in ("enc", "dec") for i in (0, 1) for name in names}
    found = written(tmp_path, "t5", {"block_count": 2, "decoder_block_count": 2, **DIMENSIONS}, [], **both)
    assert kept(found) == [full()] * 2
    assert read_bytes(found)["encoder"][0] is Read.NONE
    assert any("Cross-attention" in note for note in found.notes)
