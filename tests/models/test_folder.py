"""Hugging Face folders: what is read from one, and every way one can be incomplete."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.models.files import TINY_LLAMA, bfloat16, safetensors_bytes
from workbench.errors import ModelError
from workbench.models.folder import read_folder
from workbench.models.model import Read
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
