"""What a person chooses for a sweep, checked before anything is loaded."""

import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from workbench.errors import SettingsError, unknown_name
from workbench.hardware.machine import THIS_MACHINE, usable_cores
from workbench.models.model import DTYPE_BYTES, Model, ModelKind

DEFAULT_MODEL = "qwen3-0.6b"
DEFAULT_PROMPTS = (1, 16, 64, 256, 1024, 4096)
THREADS_PER_CORE = 4
DEVICE_NAME = re.compile(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?")
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")


class Weights(StrEnum):
    """Whether the model's own weights are loaded, or values that only take their place."""

    REAL = "real"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class SweepSettings:
    """A prefill/decode sweep; `threads` None is what this process may use, `weights` None what the model has."""

    model: str = DEFAULT_MODEL
    weights: Weights | None = None
    prompts: tuple[int, ...] = DEFAULT_PROMPTS
    new_tokens: int = 17
    repeats: int = 3
    dtype: str = "float32"
    device: str = "auto"
    threads: int | None = None
    track: str = THIS_MACHINE

    def plain(self) -> dict[str, Any]:
        """The settings as values JSON can hold."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def check_settings(settings: SweepSettings) -> None:
    """Raise SettingsError where a setting is out of range or unknown; needs no model."""
    if settings.dtype not in DTYPE_BYTES:
        raise SettingsError(unknown_name("dtype", settings.dtype, DTYPE_BYTES))
    if not DEVICE_NAME.fullmatch(settings.device):
        raise SettingsError(unknown_name("device", settings.device, DEVICES))
    if not settings.prompts:
        raise SettingsError("No prompt lengths were given: name at least one, as in 1,16,64.")
    for n in settings.prompts:
        _at_least(1, n, "A prompt length", "")
    _at_least(2, settings.new_tokens, "The number of new tokens", ": prefill gives the first token, decode the rest")
    _at_least(1, settings.repeats, "The number of repeats", "")
    if settings.threads is not None:
        _at_least(1, settings.threads, "The number of threads", "")
        most = THREADS_PER_CORE * usable_cores()
        if settings.threads > most:
            raise SettingsError(
                f"The number of threads is {settings.threads:,}; this process may use {usable_cores()} cores, and more "
                f"than {most} threads on them measure nothing but their waiting. Use at most {most}."
            )


def check_context(settings: SweepSettings, model: Model) -> None:
    """Raise SettingsError where a prompt and its answer are longer than the model's context."""
    if model.context_limit is None:
        return
    longest = max(settings.prompts)
    if longest + settings.new_tokens > model.context_limit:
        most = model.context_limit - settings.new_tokens
        way_out = f"Use prompts up to {most:,}." if most > 0 else "Use fewer new tokens."
        raise SettingsError(
            f"A prompt of {longest:,} tokens and {settings.new_tokens} new ones are longer than the context of "
            f"{model.name}, {model.context_limit:,} tokens. {way_out}"
        )


def resolved_weights(settings: SweepSettings, model: Model) -> Weights:
    """Real where the model has weights and nothing else was asked; SettingsError for real ones it does not have."""
    has_weights = model.kind is not ModelKind.PRESET and model.file_bytes is not None
    if settings.weights is Weights.REAL and not has_weights:
        what = "a preset's shape" if model.kind is ModelKind.PRESET else "settings alone"
        raise SettingsError(
            f"{model.name} is {what} and has no weights. Name a model folder with safetensors or a .gguf file for real "
            "weights, or leave them synthetic: the timing does not depend on their values."
        )
    if settings.weights is Weights.SYNTHETIC and model.kind is ModelKind.GGUF:
        raise SettingsError(
            f"{model.name} is a GGUF file, which is loaded with its own weights. For synthetic ones name its preset "
            "or its Hugging Face folder."
        )
    if settings.weights is not None:
        return settings.weights
    return Weights.REAL if has_weights else Weights.SYNTHETIC


def _at_least(least: int, value: int, what: str, reason: str) -> None:
    if value < least:
        raise SettingsError(f"{what} is {value}; it must be at least {least}{reason}.")
