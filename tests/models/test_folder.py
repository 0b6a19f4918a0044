"""Hugging Face folders: what is read from one, and every way one can be incomplete."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.models.files import TINY_LLAMA, bfloat16, safetensors_bytes
from workbench.errors import ModelError
from workbench.models.folder import read_folder
from workbench.models.model import ModelKind, Read
from workbench.models.shape import shape_model, tensor_shapes

INDEX = "model.safetensors.index.json"


def folder(path: Path, config: dict[str, Any] | None = None) -> Path:
    path.mkdir(exist_ok=True)
    config = TINY_LLAMA if config is None else config
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(safetensors_bytes(bfloat16(dict(tensor_shapes(TINY_LLAMA, "tiny")))))
    return path


def sharded(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(TINY_LLAMA))
    shapes = list(tensor_shapes(TINY_LLAMA, "tiny"))
    weight_map: dict[str, str] = {}
    for number, part in enumerate((shapes[:5], shapes[5:]), start=1):
        name = f"model-{number:05}-of-00002.safetensors"
        (path / name).write_bytes(safetensors_bytes(bfloat16(dict(part))))
        weight_map |= {tensor: name for tensor, _ in part}
    (path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_folder(path)
    return str(caught.value)


@pytest.mark.parametrize("build", [folder, sharded])
def test_a_folder_reads_as_its_shape_does(tmp_path: Path, build: Any) -> None:
    path = build(tmp_path / "tiny-llama")
    found = read_folder(path)
    shape = shape_model(TINY_LLAMA, name="tiny", source="test")
    assert found.groups == shape.groups
    assert found.kv_layers == shape.kv_layers
    assert found.attention_layers == shape.attention_layers
    assert found.name == "tiny-llama"
    assert found.file_bytes == sum(p.stat().st_size for p in path.glob("*.safetensors"))
    assert (found.vocabulary, found.hidden, found.context_limit) == (128, 64, 512)
    assert found.quantisation == "bfloat16"
    assert found.config == TINY_LLAMA
    assert found.notes == ()


def test_a_head_stored_beside_a_tied_table_is_not_counted_as_read(tmp_path: Path) -> None:
    found = read_folder(folder(tmp_path / "m", {**TINY_LLAMA, "tie_word_embeddings": True}))
    by_name = {g.name: g.read for g in found.groups}
    assert by_name["token embedding"] is Read.ALL
    assert by_name["copy of the embedding"] is Read.NONE
    assert found.tied_embeddings


def test_a_multi_modal_config_nests_the_language_models(tmp_path: Path) -> None:
    inner = {k: v for k, v in TINY_LLAMA.items() if k != "tie_word_embeddings"}
    config = {"model_type": "llava", "text_config": inner, "tie_word_embeddings": False}
    found = read_folder(folder(tmp_path / "m", config))
    assert found.architecture == "llama"
    assert len(found.kv_layers) == 2


def test_code_in_the_folder_is_noted_and_left_alone(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", {**TINY_LLAMA, "auto_map": {"AutoModel": "code.Model"}})
    (path / "code.py").write_text("raise SystemExit('run')")
    assert any("never run" in note for note in read_folder(path).notes)


def test_packed_weights_count_the_parameters_they_hold(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", {**TINY_LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}})
    (path / "model.safetensors").write_bytes(
        safetensors_bytes(
            {
                "model.layers.0.self_attn.q_proj.qweight": ("I32", (8, 64), 8 * 64 * 4),
                "model.layers.0.self_attn.q_proj.scales": ("F16", (1, 64), 128),
                "model.layers.0.self_attn.q_proj.g_idx": ("I32", (64,), 256),
            }
        )
    )
    found = read_folder(path)
    assert found.parameters == 64 * 64
    assert found.resident_bytes == 8 * 64 * 4 + 128 + 256
    assert found.quantisation == "gptq 4-bit"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    assert "There is no folder" in refusal(tmp_path / "none")
    assert "has no config.json" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("{not json")
    assert "config.json is not a valid JSON object" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    assert "config.json is not a valid JSON object" in refusal(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(TINY_LLAMA))
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    assert "pickled weights only" in refusal(tmp_path)
    assert "a file where a model's folder" in refusal(tmp_path / "config.json")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    path = sharded(tmp_path / "m")
    (path / "model-00002-of-00002.safetensors").unlink()
    assert "lacks 1 of the 2 shards its index names: model-00002-of-00002.safetensors" in refusal(path)
    (path / INDEX).unlink()
    assert "which says how they belong together" in refusal(path)


def test_an_index_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = sharded(tmp_path / "m")
    index = json.loads((path / INDEX).read_text())
    index["weight_map"]["absent.weight"] = "model-00001-of-00002.safetensors"
    (path / INDEX).write_text(json.dumps(index))
    assert "'absent.weight' in model-00001-of-00002.safetensors, which does not hold it" in refusal(path)
    (path / INDEX).write_text(json.dumps({"weight_map": {"a": "../outside.safetensors"}}))
    assert "not a file beside it" in refusal(path)
    (path / INDEX).write_text("{")
    assert "can't be read as the list" in refusal(path)


def test_damaged_safetensors_say_what_is_wrong(tmp_path: Path) -> None:
    path = folder(tmp_path / "m")
    file = path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert "the download is incomplete" in refusal(path)
    file.write_bytes(whole[:100])
    assert "less than its header" in refusal(path)
    file.write_bytes(struct.pack("<Q", 1 << 50) + whole[8:])
    assert "first eight bytes give a header of 1,125,899,906,842,624 bytes" in refusal(path)
    file.write_bytes(struct.pack("<Q", 4) + b"nope")
    assert "not the JSON" in refusal(path)
    file.write_bytes(b"")
    assert "is empty" in refusal(path)
    file.write_bytes(safetensors_bytes({"a.weight": ("F32", (2, 2), 4)}))
    assert "can't take 4 bytes" in refusal(path)


def test_a_config_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "not a language model" in refusal(folder(tmp_path / "m", {"model_type": "tokenizer"}))
    assert "num_hidden_layers = 'two'" in refusal(folder(tmp_path / "m", {**TINY_LLAMA, "num_hidden_layers": "two"}))


def settings_only(path: Path, config: dict[str, Any] | str) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def test_settings_without_weights_read_as_their_shape(tmp_path: Path) -> None:
    found = read_folder(settings_only(tmp_path / "tiny", TINY_LLAMA))
    shape = shape_model(TINY_LLAMA, name="tiny", source="test")
    assert (found.groups, found.kv_layers) == (shape.groups, shape.kv_layers)
    assert (found.kind, found.file_bytes, found.path) == (ModelKind.FOLDER, None, tmp_path / "tiny")
    assert any("no weights here" in note for note in found.notes)


def test_a_dtype_left_out_is_said(tmp_path: Path) -> None:
    without = {k: v for k, v in TINY_LLAMA.items() if k not in ("dtype", "torch_dtype")}
    found = read_folder(settings_only(tmp_path, without))
    assert found.quantisation == "bfloat16"
    assert any("state no dtype" in note for note in found.notes)


def test_infinity_in_settings_is_read_however_it_is_written(tmp_path: Path) -> None:
    text = json.dumps(TINY_LLAMA)[:-1]
    for infinity in ("Infinity", '{"__float__": "Infinity"}'):
        found = read_folder(settings_only(tmp_path, f'{text}, "time_step_limit": [0.0, {infinity}]}}'))
        assert found.config is not None
        assert found.config["time_step_limit"] == [0.0, float("inf")]


@pytest.mark.parametrize(
    ("quantisation", "bytes_each"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, 0.5 + 2.5 / 32),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, 0.5 + 2.5 / 64),
        ({"quant_method": "fp8"}, 1),
        ({"quant_method": "fp8", "weight_block_size": [16, 16]}, 1 + 4 / 256),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 0.5 + 4 / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1 + 4 / 64),
        (
            {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
             "config_groups": {"group_0": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}},
            0.5 + 2 / 32,
        ),
        ({"quant_method": "novel"}, 2),
    ],
)  # fmt: skip
def test_quantised_settings_count_the_bytes_of_their_method(
    tmp_path: Path, quantisation: dict[str, Any], bytes_each: float
) -> None:
    wide = {**TINY_LLAMA, "hidden_size": 64, "intermediate_size": 64, "num_key_value_heads": 4}
    found = read_folder(settings_only(tmp_path, {**wide, "quantization_config": quantisation}))
    groups = {group.name: group for group in found.groups}
    projections = groups["attention projections"]
    assert projections.bytes / projections.parameters == pytest.approx(bytes_each, rel=0.001)
    assert groups["token embedding"].bytes == 2 * groups["token embedding"].parameters
    assert any("not modelled" in note for note in found.notes) == (quantisation["quant_method"] == "novel")


def test_mxfp4_packs_the_experts_only(tmp_path: Path) -> None:
    config = {**PUBLISHED_GPT_OSS, "quantization_config": {"quant_method": "mxfp4"}}
    found = read_folder(settings_only(tmp_path, config))
    experts = next(group for group in found.groups if group.name == "routed experts")
    biases = 2 * 4 * (2 * 64 + 64)
    assert experts.bytes == (experts.parameters - biases) * 17 // 32 + 2 * biases


PUBLISHED_GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 8,
    "vocab_size": 128,
}

DAMAGED: dict[str, list[Any]] = {
    "hidden_size": ["64", None, -64, 1.5, True, [], 10**30, 0],
    "num_hidden_layers": ["2", None, -2, 2_000, 10**6, 0, float("nan")],
    "num_attention_heads": ["4", -4, 10**11],
    "num_key_value_heads": ["2", -2, {"a": 1}],
    "vocab_size": ["128", -1, 0, 10**30],
    "intermediate_size": ["128", 10**30, 0],
    "sliding_window": ["8", 1.5, True, -8, [8]],
    "layer_types": ["full", ["full_attention"], [1, 2], ["full_attention"] * 3],
    "num_local_experts": ["4", 10**6, 10**18],
    "num_experts_per_tok": ["2", -2, 5],
    "dtype": ["int3", 7],
    "quantization_config": ["fp8", [1]],
}


@pytest.mark.parametrize("family", ["gpt_oss", "mixtral"])
@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in DAMAGED.items() for value in values])
def test_damaged_settings_are_refused_in_one_sentence(tmp_path: Path, family: str, key: str, value: Any) -> None:
    config = {**PUBLISHED_GPT_OSS, "model_type": family, key: value}
    message = refusal(settings_only(tmp_path, config))
    assert "\n" not in message
    assert message.endswith(".")


def test_a_class_that_builds_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.engines import meta_device

    monkeypatch.setattr(meta_device, "MOST_TENSORS", 10)
    config = {**PUBLISHED_GPT_OSS, "model_type": "mixtral"}
    assert "describe more than 10 tensors" in refusal(settings_only(tmp_path, config))


def test_an_architecture_that_is_not_known_is_refused(tmp_path: Path) -> None:
    config = {**TINY_LLAMA, "model_type": "novel_arch", "architectures": ["NovelForCausalLM"]}
    assert "does not know the architecture 'novel_arch'" in refusal(settings_only(tmp_path, config))
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_novel.NovelForCausalLM"}
    path = settings_only(tmp_path, config)
    (path / "modeling_novel.py").write_text("raise SystemExit('run')")
    assert "never run" in refusal(path)
    assert "no model_type" in refusal(settings_only(tmp_path, {k: v for k, v in config.items() if k != "model_type"}))


def test_weights_of_another_number_of_layers_are_told(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", {**TINY_LLAMA, "num_hidden_layers": 1})
    assert "are of 2 layers, and its config.json says there are 1" in refusal(path)
    path = folder(tmp_path / "m", {**TINY_LLAMA, "num_hidden_layers": 1, "num_nextn_predict_layers": 1})
    assert {g.name: g.read for g in read_folder(path).groups}["extra prediction heads"] is Read.NONE
    path = folder(tmp_path / "m", {**TINY_LLAMA, "num_hidden_layers": 3})
    assert any("2 of the 3 layers" in note for note in read_folder(path).notes)


def test_a_window_that_is_no_number_is_refused_with_weights_too(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", {**TINY_LLAMA, "model_type": "mistral", "sliding_window": "8"})
    assert "sliding_window = '8'" in refusal(path)


def test_a_nested_model_may_lean_on_its_class(tmp_path: Path) -> None:
    """LLaVA 1.5's settings leave its language model's sizes to the class of a 7B Llama."""
    inner = {"model_type": "llama", "vocab_size": 32064}
    found = read_folder(folder(tmp_path / "m", {"model_type": "llava", "text_config": inner, "num_hidden_layers": 2}))
    assert len(found.kv_layers) == 32
    assert found.hidden == 4096
