"""Models known by name: a TOML file each, shipped with the workbench or in a person's own settings folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import ModelError, WorkbenchError, unknown_name
from workbench.models.model import Model, Read, TensorGroup
from workbench.models.shape import shape_model
from workbench.paths import config_folder, resource


class PresetGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors of one purpose in a file, as `TensorGroup` has them."""

    name: str
    types: list[str]
    parameters: int
    bytes: int
    read: Read
    rows: int = 1


class ModelPreset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model's shape, and for a quantised file its tensor groups and bytes, with where the figures were read."""

    name: str
    source: str
    config: dict[str, Any]
    quantisation: str | None = None
    file_bytes: int | None = None
    groups: list[PresetGroup] = []
    notes: list[str] = []


_STRUCTS: Mapping[str, type[msgspec.Struct]] = {"": ModelPreset, "groups": PresetGroup}


@dataclass(frozen=True)
class Presets:
    """The presets that could be read, by name in lower case, and a sentence for each file that could not."""

    models: Mapping[str, ModelPreset]
    problems: tuple[str, ...]


def preset_folders() -> tuple[Path, Path]:
    """The shipped presets' folder and a person's own, whose presets win."""
    return resource("presets") / "models", config_folder() / "presets" / "models"


def load_presets(*folders: Path) -> Presets:
    """All presets in `folders` (by default the shipped and the person's own); a later folder wins."""
    models: dict[str, ModelPreset] = {}
    problems: list[str] = []
    for folder in folders or preset_folders():
        for path in sorted(folder.glob("*.toml")):
            try:
                preset = read_preset(path)
            except ModelError as error:
                problems.append(str(error))
            else:
                models[preset.name.lower()] = preset
    return Presets(models, tuple(problems))


def read_preset(path: Path) -> ModelPreset:
    """One preset from its file.

    Raises ModelError that names the file, the key, and the nearest known key for a mistyped one.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=ModelPreset)
    except msgspec.ValidationError as error:
        raise ModelError(f"The preset {path}: {_explained(str(error))}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"The preset {path} is not valid TOML: {error}.") from error
    except OSError as error:
        raise ModelError(f"The preset {path} can't be read: {error}.") from error


def _explained(message: str) -> str:
    """msgspec's message as a sentence, with the nearest known key for an unknown one."""
    unknown = re.search(r"unknown field `(?P<key>.*?)`(?: - at `\$\.?(?P<place>[a-z]*))?", message)
    if unknown is None:
        return f"{message.replace('$.', '')}."
    place = unknown["place"] or ""
    known = [field.name for field in msgspec.structs.fields(_STRUCTS.get(place, ModelPreset))]
    nearest = get_close_matches(unknown["key"], known, n=1, cutoff=0.5)
    offer = f" Did you mean {nearest[0]}?" if nearest else f" Known: {', '.join(known)}."
    return f"there is no key {unknown['key']!r}{f' in {place}' if place else ''}.{offer}"


def preset_model(name: str, presets: Presets | None = None) -> Model:
    """The model of the preset named, whatever the case of the name.

    Raises ModelError with the nearest known name when there is none.
    """
    presets = presets or load_presets()
    preset = presets.models.get(name.lower())
    if preset is None:
        said = "".join(f" {problem}" for problem in presets.problems)
        raise ModelError(unknown_name("model preset", name, presets.models) + said)
    return model_of(preset)


def model_of(preset: ModelPreset) -> Model:
    """The model a preset describes: its shape's tensors, or the groups it lists.

    Raises ModelError for a config whose family can't be computed, or groups that contradict themselves.
    """
    where = f"the preset {preset.name}"
    try:
        model = shape_model(preset.config, name=preset.name, source=preset.source, quantisation=preset.quantisation)
    except ModelError:
        raise
    except (WorkbenchError, TypeError, ValueError, KeyError, ZeroDivisionError) as error:
        raise ModelError(f"The config of {where} can't be used: {error!r}.") from error
    if preset.groups:
        routed = any(group.read is Read.ROUTED for group in preset.groups)
        if routed and not 0 < model.experts_used <= model.experts:
            raise ModelError(
                f"{where.capitalize()} has groups read as {Read.ROUTED}, but its config does not say how many "
                "experts there are and how many a token uses."
            )
        model = replace(model, groups=tuple(_group(group, where) for group in preset.groups))
    return replace(model, file_bytes=preset.file_bytes, notes=(*model.notes, *preset.notes))


def _group(group: PresetGroup, where: str) -> TensorGroup:
    if group.parameters < 0 or group.bytes < 0 or group.rows < 1:
        raise ModelError(
            f"The group {group.name!r} of {where} has a count below what can be: parameters and bytes are at "
            "least 0, rows at least 1."
        )
    return TensorGroup(group.name, tuple(group.types), group.parameters, group.bytes, group.read, group.rows)
