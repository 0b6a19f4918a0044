"""Bringing a model into memory with transformers: its own weights, a GGUF's dequantised, or synthetic ones."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, initialization
from transformers.utils import logging as transformers_logging

from workbench.engines.meta_device import auto_classes, known_settings
from workbench.engines.slice_folder import needed_files
from workbench.engines.synthetic import fill
from workbench.errors import MemoryRefused, ModelError, WorkbenchError, first_line
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import Weights
from workbench.models.model import Model, ModelKind, Read

log = logging.getLogger(__name__)
DEFAULT_SCALE = 0.02
LEAST_SHARE_HELD = 0.9
"""Of what is stored: a head stored twice and tensors a family leaves unused make the two differ a little."""


def load_model(planned: LoadPlan, device: torch.device) -> Any:
    """The transformers model in the dtype of the plan on `device`, ready for inference.

    Raises ModelError where transformers can't build or read it, MemoryRefused where memory runs out.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    dtype = getattr(torch, planned.settings.dtype)
    with _explained(planned.model):
        if planned.weights is Weights.SYNTHETIC:
            model = _synthetic(planned.model, dtype, device)
        else:
            model = _real(planned.model, dtype, device)
    # The parameters go on requiring gradients, as they do for everybody who loads a model: without, torch copies the
    # whole output head for a prefill's last position in 16 bits, which takes longer than the prefill.
    return model.eval()


def _synthetic(model: Model, dtype: torch.dtype, device: torch.device) -> Any:
    config = known_settings(model.config or {}, model.source)
    chosen = language_class(model, config)
    with initialization.no_init_weights(), torch.device(device):
        built = chosen.from_config(config, dtype=dtype, trust_remote_code=False)
    # Tying is part of the initialisation that was left out.
    built.tie_weights()
    fill(built, getattr(config, "initializer_range", None) or DEFAULT_SCALE)
    return built


def language_class(model: Model, config: Any) -> Any:
    """The class that runs on a prompt of text alone; ModelError for a model that needs an encoder's input."""
    if config.is_encoder_decoder:
        raise ModelError(
            f"{model.name} is an encoder-decoder, whose decoder reads an encoder's output as well as its own tokens. "
            "The workbench times decoders only; what one token reads is in `workbench inspect`."
        )
    return auto_classes(config, model.source)[0]


def _real(model: Model, dtype: torch.dtype, device: torch.device) -> Any:
    assert model.path is not None
    folder: Path = model.path if model.kind is ModelKind.FOLDER else model.path.parent
    where: dict[str, Any] = {} if model.kind is ModelKind.FOLDER else {"gguf_file": model.path.name}
    if device.type != "cpu":
        where["device_map"] = {"": device}
    chosen = AutoModelForCausalLM
    if model.config is not None:
        chosen = language_class(model, known_settings(model.config, model.source))
    with nullcontext(folder) if model.slice_of is None else needed_files(folder, len(model.kv_layers)) as held:
        if model.slice_of is not None:
            where["config"] = known_settings(model.config or {}, model.source)
        built, loaded = chosen.from_pretrained(
            held,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **where,
        )
    _check_complete(model, built, sorted(loaded["missing_keys"]))
    return built


def _check_complete(model: Model, built: Any, missing: list[str]) -> None:
    """Refuse a network that is not the one in the files: its reads, and so its ceiling, would be another model's."""
    if missing:
        raise ModelError(
            f"{model.source} lacks {len(missing):,} of the tensors its settings ask for, {missing[0]} among them. "
            "The settings (layers, widths) and the weights are of different models; download them again together."
        )
    held = sum(parameter.numel() for parameter in built.parameters())
    stored = sum(group.parameters for group in model.groups if group.read is not Read.NONE)
    if held < LEAST_SHARE_HELD * (stored - model.head_parameters):
        raise ModelError(
            f"{model.source} holds {stored:,} parameters, and its settings build a model of {held:,}. "
            "The settings (layers, widths) and the weights are of different models; download them again together."
        )


@contextmanager
def _explained(model: Model) -> Iterator[None]:
    """Turn what transformers and torch raise into a sentence that names the model and the way out."""
    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:
        log.exception("loading %s", model.name)
        if is_out_of_memory(error):
            raise MemoryRefused(
                f"Memory ran out while {model.name} was loaded. Free memory, or choose a smaller dtype or model."
            ) from error
        raise ModelError(
            f"{model.source} can't be loaded: transformers {transformers.__version__} says: {first_line(error)} "
            f"The architecture is {model.architecture!r}. If transformers does not know it, upgrade transformers or "
            "choose another model; code inside a model folder is never run."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python raised it because memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        sign in words for sign in ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate")
    )
