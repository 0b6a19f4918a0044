"""Models known by name: a TOML file each, shipped with the workbench or in a person's own settings folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from workbench import presets as shared
from workbench.errors import ModelError, WorkbenchError
from workbench.models.model import Model, Published, Read, TensorGroup
from workbench.models.shape import shape_model
from workbench.presets import Count, Loaded, Ordinal, Preset, Text, find


class PresetGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors of one purpose in a file, as `TensorGroup` has them."""

    name: Text
    types: list[str]
    parameters: Count
    bytes: Count
    read: Read
    rows: Ordinal = 1


class PresetPublished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameter counts on the model's card, as `Published` has them."""

    parameters: Ordinal
    active: Ordinal
    source: Text


class ModelPreset(Preset, frozen=True):
    """A model's shape, and for a quantised file its tensor groups and bytes, with where the figures were read."""

    source: Text
    config: dict[str, Any]
    quantisation: str | None = None
    file_bytes: Count | None = None
    groups: tuple[PresetGroup, ...] = ()
    notes: tuple[str, ...] = ()
    published: PresetPublished | None = None


@dataclass(frozen=True)
class Presets:
    """The presets that could be read, by name in lower case, and a sentence for each file that could not."""

    models: Mapping[str, ModelPreset]
    problems: tuple[str, ...]


def load_presets(*folders: Path) -> Presets:
    """All presets in `folders` (by default the shipped and the person's own); a later folder wins."""
    loaded = shared.load("models", read_preset, *folders)
    return Presets(loaded.by_name, loaded.problems)


def read_preset(path: Path) -> ModelPreset:
    """One preset from its file.

    Raises ModelError that names the file, the key, and the nearest known key for a mistyped one.
    """
    return shared.read_preset(path, ModelPreset, ModelError)


def preset_model(name: str, presets: Presets | None = None) -> Model:
    """The model of the preset named, whatever the case of the name.

    Raises ModelError with the nearest known name when there is none.
    """
    presets = presets or load_presets()
    return model_of(find("model preset", name, Loaded(presets.models, presets.problems), ModelError))


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
        model = replace(model, groups=tuple(_tensor_group(group) for group in preset.groups))
    card = preset.published
    return replace(
        model,
        file_bytes=preset.file_bytes,
        notes=(*model.notes, *preset.notes),
        published=None if card is None else Published(card.parameters, card.active, card.source),
    )


def _tensor_group(group: PresetGroup) -> TensorGroup:
    return TensorGroup(group.name, tuple(group.types), group.parameters, group.bytes, group.read, group.rows)
