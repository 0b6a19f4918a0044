"""A Model from a config.json without weights: by arithmetic for the families of shape.py, else from its class."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.errors import ModelError, unknown_name
from workbench.models.blueprint import Blueprint, CacheLayer
from workbench.models.config.layers import EXTRA_LAYERS
from workbench.models.config.layout import HIDDEN, config_layout
from workbench.models.config.text_config import text_config
from workbench.models.described import described_model
from workbench.models.model import DTYPE_BYTES, KvKind, KvLayer, Model, ModelKind
from workbench.models.quantised import quantisation_name, quantised
from workbench.models.shape import FAMILIES, shape_tensors
from workbench.models.tensors import Tensor

MOST_PARAMETERS = 10**14


def unweighted_model(config: Mapping[str, Any], *, name: str, where: Path, path: Path) -> Model:
    """The model that the settings in the file `where` describe, its tensors in the dtype they state.

    Raises ModelError for settings that are damaged, and for an architecture that transformers does not know.
    """
    source = str(where)
    notes = ["There are no weights here: the tensors are those the settings describe."]
    dtype = stated_dtype(config, source)
    if dtype is None:
        notes.append("The settings state no dtype: the weights are counted in bfloat16.")
    _check_stated(config, source)
    kind = dtype or "bfloat16"
    if config.get("model_type") in FAMILIES:
        plan = Blueprint(shape_tensors(config, source, kind), config, None)
    else:
        plan = _from_class({**config, "dtype": kind}, source)
    tensors = plan.tensors
    _check_sizes(tensors, source)
    settings = quantisation_settings(config)
    if settings is not None:
        tensors, note = quantised(tensors, settings)
        notes.append(note)
        kind = quantisation_name(settings)
    extra = next((text_config(config)[k] for k in EXTRA_LAYERS if text_config(config).get(k)), None)
    if extra:
        notes.append(
            f"Extra prediction heads ({extra} in the settings) are not counted: no step of decoding reads them."
        )
    model = described_model(
        config,
        tensors,
        name=name,
        source=source,
        kind=ModelKind.FOLDER,
        quantisation=kind,
        in_full=plan.settings,
        path=path,
        notes=[*notes, *plan.notes],
    )
    if model.experts and not model.tied_embeddings:
        with_table = (model.read_parameters + model.vocabulary * model.hidden) / 1e9
        said = f"Model cards count the embedding table as active too: {with_table:.1f} billion parameters."
        model = replace(model, notes=(*model.notes, said))
    if plan.cache is not None and not _agree(model.kv_layers, plan.cache):
        differs = "The cache that transformers keeps for this model differs from the one counted: it is not modelled."
        return replace(model, notes=(*model.notes, differs))
    return model


def stated_dtype(config: Mapping[str, Any], where: str) -> str | None:
    """The dtype the settings state, wherever they do; None where they don't.

    Raises ModelError for one that is not a float type this workbench knows.
    """
    inner = text_config(config)
    stated = next((c[key] for c in (config, inner) for key in ("dtype", "torch_dtype") if c.get(key)), None)
    if stated is None or stated == "auto":
        return None
    dtype = str(stated).removeprefix("torch.")
    if dtype not in DTYPE_BYTES:
        raise ModelError(f"{where}: {unknown_name('dtype', dtype, DTYPE_BYTES)}")
    return dtype


def quantisation_settings(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the settings say of quantisation, under the names that transformers, llm-compressor and MLX use.

    Raises ModelError where that is no object.
    """
    inner = text_config(config)
    keys = ("quantization_config", "compression_config", "quantization")
    key, found = next(((key, c[key]) for c in (config, inner) for key in keys if c.get(key)), (None, None))
    if found is not None and not isinstance(found, Mapping):
        raise ModelError(
            f"The settings have {key} = {str(found)[:60]!r} where an object that names a method was expected."
        )
    return found


def _check_stated(config: Mapping[str, Any], where: str) -> None:
    """Refuse settings that leave out the model's own size, which its class would fill in with another model's."""
    inner = text_config(config)
    nested = inner is not config
    # A nested model's settings may lean on its class; the figures they do have must still be right.
    if nested and not any(inner.get(key) for key in HIDDEN):
        return
    if config_layout(config, where).layers is None and not nested:
        raise ModelError(f"{where} does not say how many layers there are. Check that it is as its maker published it.")


def _check_sizes(tensors: Sequence[Tensor], where: str) -> None:
    """Refuse what no model is: a tensor without elements, or more parameters than any machine could hold."""
    empty = next((tensor.name for tensor in tensors if not tensor.parameters), None)
    if empty:
        raise ModelError(f"{where} describes a tensor without elements, {empty}. Check its sizes for a zero.")
    total = sum(tensor.parameters for tensor in tensors)
    if total > MOST_PARAMETERS:
        raise ModelError(f"{where} describes a model of {total:.0e} parameters, which none is. Check its sizes.")


def _from_class(config: Mapping[str, Any], where: str) -> Blueprint:
    # Torch takes seconds to import, and only settings without weights of other families need it.
    from workbench.engines.meta_device import blueprint

    return blueprint(config, where)


def _agree(ours: Sequence[KvLayer], theirs: Sequence[CacheLayer]) -> bool:
    """Whether both keep tokens, states and windows in the same layers, in order, and as much of a token."""
    kept = [layer for layer in theirs if layer.keeps_tokens or layer.keeps_state]
    return len(ours) == len(kept) and all(
        (layer.elements_per_token > 0) == other.keeps_tokens
        and (layer.kind is KvKind.RECURRENT or layer.constant_elements > 0) == other.keeps_state
        and layer.window == other.window
        and other.elements_per_token in (None, layer.elements_per_token)
        for layer, other in zip(ours, kept, strict=True)
    )
