"""A slice of a model: its first layers in their real width, between its own embedding and head."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.errors import SettingsError
from workbench.models.model import KvLayer, Model, ModelKind, TensorGroup
from workbench.models.tensors import EMBEDDING, HEAD

OF_THE_WHOLE = (EMBEDDING, HEAD, "position embedding")
"""Groups of tensors that a slice has in full; of all others it has its layers' share."""
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
OF_EACH_LAYER = ("layer_types", "mlp_layer_types")
"""Settings that list something for each layer."""


def larger_slice(model: Model, layers: int | None) -> Model:
    """Of the slices of `layers` and twice as many the larger, which holds both; the model itself with None.

    Raises SettingsError as `check_slices`.
    """
    if layers is None:
        return model
    check_slices(model, layers)
    return sliced(model, 2 * layers)


def sliced(model: Model, layers: int) -> Model:
    """The model's first `layers` layers; raises SettingsError as `check_slices` does not, where they are no fewer."""
    whole = len(model.kv_layers)
    if not 0 < layers <= whole:
        raise SettingsError(f"{model.name} has {whole} layers; a slice of it has at least 1 of them, and not {layers}.")
    return replace(
        model,
        groups=tuple(_share(group, layers, whole) for group in model.groups),
        kv_layers=model.kv_layers[:layers],
        attention_layers=model.attention_layers[:layers],
        config=None if model.config is None else sliced_settings(model.config, layers),
        file_bytes=model.file_bytes and model.file_bytes * layers // whole,
        slice_of=whole,
    )


def sliced_settings(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """The settings of a slice, those of a nested language model among them."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in LAYERS and isinstance(value, int):
            found[key] = layers
        elif key in OF_EACH_LAYER and isinstance(value, list | tuple):
            found[key] = list(value[:layers])
        elif key in ("text_config", "llm_config") and isinstance(value, Mapping):
            found[key] = sliced_settings(value, layers)
        else:
            found[key] = value
    return found


def check_slices(model: Model, layers: int) -> None:
    """Raise SettingsError where slices of `layers` and twice as many layers don't stand for the whole model."""
    whole = len(model.kv_layers)
    if layers < 1:
        raise SettingsError(f"A slice has at least 1 layer, and not {layers}.")
    if 2 * layers > whole:
        raise SettingsError(
            f"Slices of {layers} and {2 * layers} layers are more than the {whole} that {model.name} has. "
            + (f"Use --layers up to {whole // 2}." if whole > 1 else "Run it whole.")
        )
    if model.kind is ModelKind.GGUF:
        raise SettingsError(f"{model.name} is a GGUF file, which is loaded whole. Slice its preset or its folder.")
    kinds = [_kind(layer) for layer in model.kv_layers]
    if any(kind != kinds[index % layers] for index, kind in enumerate(kinds)):
        period = next(p for p in range(1, whole + 1) if all(k == kinds[i % p] for i, k in enumerate(kinds)))
        raise SettingsError(
            f"The layers of {model.name} are not all alike: {layers} of them don't stand for the rest. "
            + (f"Use --layers {period}, or a multiple." if 2 * period <= whole else "Run it whole.")
        )


def _kind(layer: KvLayer) -> tuple[object, ...]:
    return (layer.kind, layer.window, layer.elements_per_token)


def _share(group: TensorGroup, layers: int, whole: int) -> TensorGroup:
    if group.name in OF_THE_WHOLE:
        return group
    return replace(group, parameters=group.parameters * layers // whole, bytes=group.bytes * layers // whole)
