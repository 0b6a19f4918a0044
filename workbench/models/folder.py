"""A Model from a Hugging Face folder: config.json and safetensors headers. Nothing in it is ever run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import ModelError
from workbench.models.config.layers import EXTRA_LAYERS, layer_count
from workbench.models.config.text_config import text_config
from workbench.models.described import described_model
from workbench.models.model import Model, ModelKind
from workbench.models.quantised import quantisation_name
from workbench.models.safetensors_header import (
    INDEX_NAMES,
    SafetensorsTable,
    read_files,
    read_shards,
    unpacked,
)
from workbench.models.tensors import Tensor, layers_stored
from workbench.models.unweighted import quantisation_settings, unweighted_model

MOST_SETTINGS_BYTES = 50_000_000
_PICKLED = ("*.bin", "*.pt", "*.pth")


def read_folder(folder: Path) -> Model:
    """The model of a folder with config.json, and safetensors weights if it has any.

    Raises ModelError that says which it is: no such folder, no config.json, a config.json that is not JSON,
    pickled weights only, a shard missing, a damaged file, or settings that are not the weights' own.
    """
    config = read_config(folder)
    where = folder / "config.json"
    table = _weights(folder)
    if table is None:
        return unweighted_model(config, name=_folder_name(folder), where=where, path=folder)
    quantisation = quantisation_settings(config)
    tensors = unpacked(table, dict(quantisation) if quantisation is not None else None)
    notes = list(table.notes)
    if config.get("auto_map"):
        notes.append("The folder ships code of its own (auto_map): it is never run.")
    notes += _check_layers(config, tensors, folder)
    return described_model(
        config,
        tensors,
        name=_folder_name(folder),
        source=str(folder),
        kind=ModelKind.FOLDER,
        quantisation=quantisation_name(quantisation) if quantisation is not None else _commonest_type(tensors),
        file_bytes=table.file_bytes,
        path=folder,
        notes=notes,
    )


def read_settings_file(path: Path) -> Model:
    """The model of a file that holds a model's settings, whatever its name, without weights.

    Raises ModelError for a file that holds something else, or settings that are damaged.
    """
    config = _decoded(path)
    if "model_type" not in config:
        raise ModelError(
            f"{path} is JSON without a model_type, so it is not a model's settings. Name a config.json, a model's "
            "folder or a .gguf file."
        )
    name = _folder_name(path.parent) if path.name == "config.json" else path.stem
    return unweighted_model(config, name=name, where=path, path=path)


def _check_layers(config: Mapping[str, Any], tensors: Sequence[Tensor], folder: Path) -> list[str]:
    """Refuse weights of more layers than the settings state; of fewer, a sentence that says so."""
    inner = text_config(config)
    layers = layer_count(inner, f"{folder / 'config.json'}")
    stored = layers_stored(tensors)
    if layers is None or not stored:
        return []
    extra = next((inner[key] for key in EXTRA_LAYERS if isinstance(inner.get(key), int)), 0)
    if stored > layers + extra:
        raise ModelError(
            f"The weights in {folder} are of {stored:,} layers, and its config.json says there are {layers:,}. "
            "Settings and weights are of different models; download them again together."
        )
    if stored < layers:
        return [f"The weights have {stored:,} of the {layers:,} layers that the settings state: parts are missing."]
    return []


def read_config(folder: Path) -> dict[str, Any]:
    """The settings in a folder's config.json.

    Raises ModelError for a missing folder, a missing file, or one that is not a JSON object.
    """
    if not folder.exists():
        raise ModelError(f"There is no folder {folder}. Check the path.")
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file where a model's folder was expected.")
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{folder} has no config.json, so it is not a Hugging Face model's folder. "
            "Name the folder that holds config.json, or a .gguf file."
        )
    return _decoded(path)


def _decoded(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_SETTINGS_BYTES:
            raise ModelError(f"{path} is larger than a model's settings are. Name a config.json.")
        # The standard library's reader, as published settings hold its Infinity.
        config = json.loads(path.read_bytes().decode("utf-8-sig"), object_hook=_special_float)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not a valid JSON object ({error}). Download it again.") from error
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error}.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} is not a valid JSON object (it is a {type(config).__name__}). Download it again.")
    return config


def _special_float(value: dict[str, Any]) -> Any:
    """The number that transformers writes as an object, as plain JSON has no infinity."""
    if set(value) == {"__float__"} and value["__float__"] in ("Infinity", "-Infinity", "NaN"):
        return float(value["__float__"])
    return value


def _weights(folder: Path) -> SafetensorsTable | None:
    """The tensors stored in the folder, or None where there are none."""
    for name in INDEX_NAMES:
        if (folder / name).is_file():
            return read_shards(folder, folder / name)
    single = folder / "model.safetensors"
    if single.is_file():
        return read_files([single])
    found = sorted(folder.glob("*.safetensors"))
    first_shard = next((path for path in found if "-of-" in path.name), None)
    if first_shard is not None:
        raise ModelError(
            f"{folder} has shards such as {first_shard.name} but no {INDEX_NAMES[0]}, which says how they belong "
            "together. Download the index."
        )
    if len(found) == 1 and not found[0].name.startswith("adapter"):
        return read_files(found)
    if found:
        raise ModelError(
            f"{folder} has {', '.join(p.name for p in found[:3])} but no model.safetensors, so which of them is the "
            "model can't be told. Download the whole model."
        )
    if any(path for pattern in _PICKLED for path in folder.glob(pattern)):
        raise ModelError(
            f"{folder} has pickled weights only, which can run code when opened, so they never are. "
            "Download the model's safetensors files, or convert it to them."
        )
    return None


def _folder_name(folder: Path) -> str:
    """The folder's name, or the model's where the folder is a snapshot in the Hugging Face cache."""
    resolved = folder.absolute()
    if resolved.parent.name == "snapshots" and resolved.parent.parent.name.startswith("models--"):
        return resolved.parent.parent.name.rsplit("--", 1)[-1]
    return resolved.name or str(folder)


def _commonest_type(tensors: Sequence[Tensor]) -> str:
    """The element type that takes most of the bytes."""
    by_type: dict[str, int] = {}
    for tensor in tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    return max(by_type, key=lambda kind: by_type[kind], default="unknown")
