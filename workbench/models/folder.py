"""A Model from a Hugging Face folder: config.json and safetensors headers. Nothing in it is ever run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import ModelError
from workbench.models.config_layout import config_layout, text_config
from workbench.models.layout import unique
from workbench.models.model import Model, ModelKind
from workbench.models.safetensors_header import (
    INDEX_NAMES,
    SafetensorsTable,
    read_files,
    read_shards,
    unpacked,
)
from workbench.models.tensors import Tensor, group_tensors

_PICKLED = ("*.bin", "*.pt", "*.pth")


def read_folder(folder: Path) -> Model:
    """The model of a folder with config.json and safetensors weights.

    Raises ModelError that says which it is: no such folder, no config.json, a config.json that is not JSON,
    no weights, pickled weights only, a shard missing, or a damaged file.
    """
    config = read_config(folder)
    table = _weights(folder)
    inner = text_config(config)
    layout = config_layout(config, f"{folder / 'config.json'}")
    quantisation = config.get("quantization_config") or inner.get("quantization_config")
    tensors = unpacked(table, quantisation or config.get("quantization"))
    tied = inner.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    grouped = group_tensors(
        tensors,
        layers=layout.layers,
        tied=tied if isinstance(tied, bool) else None,
        experts=layout.experts,
        experts_used=layout.experts_used,
    )
    notes = [*layout.notes, *table.notes, *grouped.notes]
    if config.get("auto_map"):
        notes.append("The folder ships code of its own (auto_map): it is never run, so this model can't be measured.")
    vocabulary = inner.get("vocab_size")
    return Model(
        name=_folder_name(folder),
        source=str(folder),
        kind=ModelKind.FOLDER,
        architecture=str(inner.get("model_type") or config.get("model_type") or "unknown"),
        quantisation=_quantisation(quantisation or config.get("quantization"), tensors),
        groups=grouped.groups,
        kv_layers=layout.kv_layers,
        attention_layers=layout.attention_layers,
        vocabulary=grouped.vocabulary or (vocabulary if isinstance(vocabulary, int) else 0),
        hidden=layout.hidden,
        context_limit=layout.context_limit,
        tied_embeddings=grouped.tied,
        file_bytes=table.file_bytes,
        path=folder,
        experts=layout.experts,
        experts_used=layout.experts_used,
        config=config,
        notes=unique(notes),
    )


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
    try:
        config = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path} is not a valid JSON object ({error}). Download it again.") from error
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error}.") from error
    return config


def _weights(folder: Path) -> SafetensorsTable:
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
    raise ModelError(
        f"{folder} has config.json but no weights (no model.safetensors, no {INDEX_NAMES[0]}). "
        "Download the model's safetensors files."
    )


def _folder_name(folder: Path) -> str:
    """The folder's name, or the model's where the folder is a snapshot in the Hugging Face cache."""
    resolved = folder.absolute()
    if resolved.parent.name == "snapshots" and resolved.parent.parent.name.startswith("models--"):
        return resolved.parent.parent.name.rsplit("--", 1)[-1]
    return resolved.name or str(folder)


def _quantisation(settings: object, tensors: tuple[Tensor, ...]) -> str:
    """The method that the settings name with its bits, or the type that takes most of the bytes."""
    if isinstance(settings, Mapping):
        method = settings.get("quant_method") or ("mlx" if "group_size" in settings else None)
        bits = settings.get("bits")
        if method:
            return f"{method} {bits}-bit" if bits else str(method)
    by_type: dict[str, int] = {}
    for tensor in tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    return max(by_type, key=lambda kind: by_type[kind], default="unknown")
