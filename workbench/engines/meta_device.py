"""A model's tensors and cache from transformers' own class, built on the meta device: no memory, no weights."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import signature
from typing import Any

# Read when transformers is imported: no hub is asked.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import DynamicCache, initialization
from transformers.cache_utils import DummyLayer
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import logging as transformers_logging

from workbench.errors import ModelError
from workbench.models.blueprint import Blueprint, CacheLayer
from workbench.models.config.cache import LAYERS_OWN
from workbench.models.config.text_config import TEXT_SETTINGS
from workbench.models.model import DTYPE_BYTES
from workbench.models.tensors import Tensor

log = logging.getLogger(__name__)
MOST_TENSORS, MOST_SECONDS = 100_000, 20.0
"""The largest published models have some 60,000 tensors and are built in a few seconds."""
PASSED_TOKENS = 8
"""Tokens of the pass that shows what each layer of the cache keeps."""
_CLASSES = (
    "AutoModelForCausalLM",
    "AutoModelForImageTextToText",
    "AutoModelForMultimodalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSpeechSeq2Seq",
)


def blueprint(config: Mapping[str, Any], name: str) -> Blueprint:
    """What transformers' class makes of the settings; `name` is said in errors.

    Nothing is allocated, and no code of the folder is run. Raises ModelError for an architecture that
    transformers does not know or has no language model of, settings its class refuses, and a model beyond
    MOST_TENSORS or MOST_SECONDS. The settings' dtype is one of DTYPE_BYTES.
    """
    transformers_logging.set_verbosity_error()
    settings = known_settings(config, name)
    notes: list[str] = []
    if settings.model_type != config["model_type"]:
        notes.append(
            f"Transformers does not know the model_type {config['model_type']!r}: the class that the settings name, "
            f"of {settings.model_type!r}, is taken."
        )
    try:
        built = build(settings, name)
    except ModelError as error:
        text = settings.get_text_config(decoder=True)
        if text is settings or not isinstance(error.__cause__, ImportError):
            raise
        # A vision tower may need a library of its own, and no step of decoding reads it.
        built = build(text, name)
        why = _reason(error.__cause__)
        notes.append(f"Only the language model is counted: its towers can't be built here ({why}).")
    # A class may compute with some of its parameters in float32; files hold them in the dtype stated.
    dtype = str(settings.dtype or torch.float32).removeprefix("torch.")
    size = DTYPE_BYTES[dtype]
    tensors = tuple(
        Tensor(tensor, tuple(p.shape), dtype, p.numel(), p.numel() * size) for tensor, p in built.named_parameters()
    )
    return Blueprint(tensors, _in_full(settings), _cache_layers(built, settings), tuple(notes))


def build(settings: Any, name: str) -> Any:
    """The model of the settings on the meta device, its head and table tied where they are; raises as `blueprint`."""
    chosen = _named_class(settings, name)
    with _explained(name), _bounded(name), initialization.no_init_weights(), torch.device("meta"):
        # Experts by index: the pass over the cache then needs no router's values.
        built = chosen.from_config(settings, trust_remote_code=False, experts_implementation="batched_mm")
        # Tying is part of the initialisation that is left out.
        built.tie_weights()
    return built


def known_settings(config: Mapping[str, Any], name: str) -> Any:
    """The settings with what their class fills in; quantisation is left out, as it is no part of the shape.

    Raises ModelError for a model_type that transformers does not know, or settings its class refuses.
    """
    model_type = _known_type(config, name)
    values = {k: v for k, v in config.items() if k not in ("auto_map", "quantization_config", "model_type")}
    with _explained(name):
        return CONFIG_MAPPING[model_type].from_dict(values)


def _known_type(config: Mapping[str, Any], name: str) -> str:
    """The settings' model_type, or that of the class they name where their maker gave the type a name of its own."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ModelError(
            f"{name} has no model_type, so which architecture it is can't be told. Check that it is the model's own."
        )
    if model_type in CONFIG_MAPPING:
        return model_type
    named = config.get("architectures")
    named = named[0] if isinstance(named, list) and named else None
    for known, built in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items():
        if built == named:
            return str(known)
    nearest = get_close_matches(model_type, list(CONFIG_MAPPING.keys()), n=1, cutoff=0.8)
    offer = f" The nearest it knows is {nearest[0]}." if nearest else ""
    own_code = " The code in its folder (auto_map) would define it, and is never run." if config.get("auto_map") else ""
    raise ModelError(
        f"{name}: transformers {transformers.__version__} does not know the architecture {model_type!r}.{offer}"
        f"{own_code} Without weights its tensors can't be told: download them in safetensors, or upgrade transformers."
    )


def auto_classes(settings: Any, name: str) -> list[Any]:
    """The auto classes that have a model for the settings, the one for language alone first.

    Raises ModelError where transformers has no language model for them.
    """
    able = [
        found
        for found in (getattr(modeling_auto, known, None) for known in _CLASSES)
        if found is not None and type(settings) in found._model_mapping
    ]
    if not able:
        raise ModelError(
            f"{name}: {settings.model_type!r} is not a language model in transformers {transformers.__version__}, "
            "so what one token reads is not defined. Name a model that generates text."
        )
    return able


def _named_class(settings: Any, name: str) -> Any:
    """The auto class whose model is the one the settings name, which may have towers beside the language model."""
    able = auto_classes(settings, name)
    named = settings.architectures[0] if isinstance(settings.architectures, list) and settings.architectures else None
    return next((c for c in able if _class_name(c, settings) == named), able[0])


def _class_name(auto: Any, settings: Any) -> str:
    mapped = auto._model_mapping[type(settings)]
    return str((mapped[0] if isinstance(mapped, tuple) else mapped).__name__)


def _in_full(settings: Any) -> dict[str, Any]:
    """The settings with their class's defaults, those of single layers among them."""
    full: dict[str, Any] = settings.to_dict()
    text = settings.get_text_config(decoder=True)
    inner = next((full[key] for key in TEXT_SETTINGS if text is getattr(settings, key, None)), full)
    try:
        inner["per_layer_config"] = {
            str(index): {key: getattr(layer, key, None) for key in LAYERS_OWN}
            for index, layer in enumerate(text.per_layer_config)
        }
    except Exception:
        log.debug("no settings of single layers for %s", settings.model_type, exc_info=True)
    return full


def _cache_layers(built: Any, settings: Any) -> tuple[CacheLayer, ...] | None:
    """The layers of the cache that transformers keeps, or None where it has a way of its own."""
    if settings.is_encoder_decoder or not {"cache", "past_key_values"} & set(signature(built.forward).parameters):
        return None
    try:
        cache = DynamicCache(config=settings)
    except Exception:
        log.debug("no DynamicCache for %s", settings.model_type, exc_info=True)
        return None
    try:
        with torch.inference_mode(), torch.device("meta"):
            built.eval()(input_ids=torch.zeros((1, PASSED_TOKENS), dtype=torch.long), cache=cache, use_cache=True)
        passed = True
    except Exception:
        # Some classes need values, or an image, to run: their kinds of layers are still known.
        log.debug("no pass on the meta device for %s", settings.model_type, exc_info=True)
        cache, passed = DynamicCache(config=settings), False
    layers = []
    for layer in cache.layers:
        elements = _elements_per_token(layer) if passed else None
        layers.append(
            CacheLayer(
                keeps_tokens=elements is not None
                if passed
                else hasattr(layer, "keys") and type(layer) is not DummyLayer,
                keeps_state="LinearAttention" in type(layer).__name__,
                window=getattr(layer, "sliding_window", None),
                elements_per_token=elements,
            )
        )
    return tuple(layers)


def _elements_per_token(layer: Any) -> int | None:
    kept = [getattr(layer, name, None) for name in ("keys", "values")]
    if not all(isinstance(tensor, torch.Tensor) for tensor in kept):
        return None
    return sum(tensor.numel() for tensor in kept if tensor is not None) // PASSED_TOKENS or None


@contextmanager
def _bounded(name: str) -> Iterator[None]:
    """End the building of a model that no machine could hold, before it takes minutes."""
    count = 0
    deadline = time.monotonic() + MOST_SECONDS

    def one_more(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > MOST_TENSORS or time.monotonic() > deadline:
            raise ModelError(
                f"The settings of {name} describe more than {min(count, MOST_TENSORS):,} tensors, more than any "
                "published model has. Check the numbers of layers and experts."
            )

    handle = register_module_parameter_registration_hook(one_more)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        log.debug("building %s", name, exc_info=True)
        raise ModelError(
            f"{name}: transformers {transformers.__version__} can't build a model from these settings "
            f"({_reason(error)}). Check that they are complete and as their maker published them."
        ) from error


def _reason(error: BaseException) -> str:
    """The first sentence of what was raised, on one line and without its full stop."""
    words = " ".join((str(error) or type(error).__name__).split())
    return words.split(". ")[0][:300].removesuffix(".")
