"""From what a person types to a model, and models found on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.files import TINY_LLAMA, gguf_bytes, smollm2
from tests.models.test_folder import folder
from workbench.errors import ModelError, SettingsError
from workbench.models.inspection import inspection
from workbench.models.model import ModelKind
from workbench.models.resolve import find_models, resolve
from workbench.paths import config_folder, data_folder, log_file, resource


def test_a_path_wins_over_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("qwen3-0.6b").kind is ModelKind.PRESET
    folder(tmp_path / "qwen3-0.6b")
    assert resolve("qwen3-0.6b").kind is ModelKind.FOLDER
    assert resolve(str(smollm2())).kind is ModelKind.GGUF


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder(tmp_path / "m")
    assert resolve("~/m").path == tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "No model is named"),
        ("nowhere/model", "There is no folder or file"),
        ("Qwen/Qwen3-0.6B", "has to be downloaded first"),
        ("./qwen3-0.6b", "There is no folder or file"),
        ("gone.gguf", "There is no file gone.gguf"),
        ("qwen3-0.6c", r"Did you mean qwen3-0\.6b"),
        ("a\0b", "There is no model preset|can't be looked up"),
        ("x" * 5000, "can't be looked up|There is no"),
    ],
)
def test_what_is_not_there_is_said(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=words):
        resolve(name)


def test_one_file_of_a_folder_points_to_the_folder(tmp_path: Path) -> None:
    path = folder(tmp_path / "m")
    with pytest.raises(ModelError, match="Name the folder it is in"):
        resolve(str(path / "model.safetensors"))
    (path / "weights.bin").write_bytes(b"\x80")
    with pytest.raises(ModelError, match="never is"):
        resolve(str(path / "weights.bin"))


def test_models_on_disk_are_found_once_and_within_bounds(tmp_path: Path) -> None:
    here = folder(tmp_path / "models--a--b")
    deep = tmp_path / "models--c--d" / "snapshots" / "0123"
    deep.mkdir(parents=True)
    folder(deep)
    for name in ("one.gguf", "two-00001-of-00002.gguf", "two-00002-of-00002.gguf", "mmproj-one.gguf"):
        (tmp_path / name).write_bytes(gguf_bytes())
    (tmp_path / "1" / "2" / "3" / "4" / "5").mkdir(parents=True)
    (tmp_path / "1" / "2" / "3" / "4" / "5" / "deep.gguf").write_bytes(b"")
    found = find_models([tmp_path, tmp_path, tmp_path / "none"], seconds=30)
    assert set(found) == {tmp_path / "one.gguf", tmp_path / "two-00001-of-00002.gguf", here, deep}
    assert len(found) == 4
    assert len(find_models([tmp_path], most=2, seconds=30)) == 2
    assert find_models([tmp_path], seconds=-1) == []
    assert resolve(str(deep)).name == "d"


def test_inspection_has_the_promised_keys() -> None:
    figures = inspection(resolve("gpt-oss-120b-mxfp4"))
    promised = (
        "model source architecture parameters read_parameters file_bytes resident_bytes read_bytes_per_token "
        "shared_read_bytes routed_expert_bytes experts experts_used tied_embeddings kv groups notes"
    )
    assert set(promised.split()) <= figures.keys()
    kv = "dtype bytes_per_token full_bytes_per_token windowed_bytes_per_token window constant_bytes"
    assert set(kv.split()) <= figures["kv"].keys()
    assert {g["read"] for g in figures["groups"]} == {"all", "one row", "K of N"}
    assert inspection(resolve("qwen3-8b"), "float32")["kv"]["bytes_per_token"] == 2 * 147_456
    with pytest.raises(SettingsError, match="Did you mean float16"):
        inspection(resolve("qwen3-8b"), "float61")


def test_reading_a_model_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from workbench.models.resolve import resolve; from workbench.models.inspection import inspection;"
        f"inspection(resolve({str(smollm2())!r})); inspection(resolve('qwen3-8b'));"
        "print([m for m in ('torch', 'transformers', 'textual', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_folders_of_the_workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (resource("presets") / "models" / "qwen3-0.6b.toml").is_file()
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("WORKBENCH_DATA")
    assert data_folder().name == "inference-workbench"
    assert "inference-workbench" in os.fspath(config_folder())
    assert "inference-workbench" in os.fspath(log_file())


def test_a_settings_file_is_a_model_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    for name, expected in (("config.json", "tiny-llama"), ("downloaded.JSON", "downloaded")):
        (folder / name).write_text(json.dumps(TINY_LLAMA))
        model = resolve(str(folder / name))
        assert (model.name, model.file_bytes, model.path) == (expected, None, folder / name)
        assert model.parameters > 0
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="without a model_type"):
        resolve(str(folder / "tokenizer.json"))
