"""What a person chooses for a run, checked before anything is loaded."""

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from workbench.errors import SettingsError, unknown_name
from workbench.experiments.engine_settings import (
    ENDPOINT,
    TRANSFORMERS,
    EndpointSettings,
    LlamaCppSettings,
    check_engine,
)
from workbench.experiments.gap.variant import AS_LOADED, Cache, Stored, Variant
from workbench.experiments.repeats import LEAST_REPEATS, Repeats
from workbench.hardware.machine import THIS_MACHINE, usable_cores
from workbench.models.cache_types import CACHE_TYPE_BYTES, cache_type
from workbench.models.int8 import in_int8
from workbench.models.model import DTYPE_BYTES, KvKind, Model, ModelKind

DEFAULT_MODEL = "qwen3-0.6b"
DEFAULT_PROMPTS = (1, 16, 64, 256, 1024, 4096)
AutoRepeats = Literal["auto"]
AUTO_REPEATS: AutoRepeats = "auto"
MOST_SEQUENCES = 1_000_000_000
"""In a batch: no box has memory for as many, and what they would need can still be counted in 64 bits."""
THREADS_PER_CORE = 4
DEVICE_NAME = re.compile(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?")
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")


class Weights(StrEnum):
    """Whether the model's own weights are loaded, or values that only take their place."""

    REAL = "real"
    SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class RunSettings:
    """What any run is made with; `threads` None is what this process may use, `weights` None what the model has.

    With `layers` only slices of so many layers and of twice as many are run, and the whole model's times follow.
    `variant` is what else differs from the model as it is loaded: its own dtype and threads are None.
    """

    model: str = DEFAULT_MODEL
    weights: Weights | None = None
    dtype: str = "float32"
    device: str = "auto"
    threads: int | None = None
    track: str = THIS_MACHINE
    layers: int | None = None
    variant: Variant = AS_LOADED
    engine: str = TRANSFORMERS
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    llama_cpp: LlamaCppSettings = field(default_factory=LlamaCppSettings)

    @property
    def element_bytes(self) -> float:
        """Bytes of a cache's element, as the engine keeps it."""
        match self.engine:
            case "transformers":
                return DTYPE_BYTES[self.dtype]
            case "endpoint":
                return CACHE_TYPE_BYTES[cache_type(self.endpoint.cache_type)]
            case _:
                return self.llama_cpp.cache_element_bytes

    @property
    def form(self) -> str:
        """The dtype, and what else is changed, in words."""
        return self.dtype if self.variant == AS_LOADED else f"{self.dtype}, {self.variant}"

    @property
    def is_told(self) -> bool:
        """Whether it is known which model runs; behind an endpoint a person has to say so."""
        return self.engine != ENDPOINT or bool(self.model)

    def held(self, model: Model) -> Model:
        """The model as the engine holds it: as stored, but by transformers in the dtype and the variant's form."""
        if self.engine != TRANSFORMERS:
            return model
        held = model.in_dtype(self.dtype)
        return held if self.variant.stored is Stored.AS_LOADED else in_int8(held)

    def plain(self) -> dict[str, Any]:
        """The settings as values JSON can hold."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


@dataclass(frozen=True)
class RepeatedSettings(RunSettings):
    """What points are repeated by: `repeats` is a fixed count, or "auto".

    That is until the 95 per cent interval of each median is within `precision` of it (half width, as a share), or
    `most_repeats` samples or `most_seconds` of a point are reached.
    """

    repeats: int | AutoRepeats = AUTO_REPEATS
    precision: float = 0.02
    most_repeats: int = 30
    most_seconds: float = 10.0

    @property
    def rule(self) -> Repeats:
        """When a point has been measured often enough."""
        if isinstance(self.repeats, int):
            return Repeats(self.repeats, self.repeats)
        return Repeats(LEAST_REPEATS, self.most_repeats, self.precision, self.most_seconds)


@dataclass(frozen=True)
class SweepSettings(RepeatedSettings):
    """A prefill/decode sweep over prompt lengths; a repeat is a request."""

    prompts: tuple[int, ...] = DEFAULT_PROMPTS
    new_tokens: int = 17


@dataclass(frozen=True)
class BatchSettings(RepeatedSettings):
    """A batch sweep: decode steps of each of `batches` sequences together, for each number of tokens they hold.

    A pass is the prefill of a batch and `steps` steps; a fixed count of repeats is one of passes, while the samples
    that "auto" counts are steps. With `mixed` the sequences of a batch are of unequal length, and `contexts` their
    mean.
    """

    contexts: tuple[int, ...] = (2, 256)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    steps: int = 9
    mixed: bool = False

    def longest(self, context: int) -> int:
        """Tokens in the longest sequence of a batch whose mean is `context`."""
        return context + context // 2 if self.mixed else context

    @property
    def new_tokens(self) -> int:
        """Tokens each sequence is given: the first by prefill, one by each step."""
        return self.steps + 1


@dataclass(frozen=True)
class GapSettings(RunSettings):
    """A pass taken apart: a decode step of `batch` sequences that hold `context` tokens each.

    With `prefill` it is a prefill of `context` tokens of each. Measuring takes about `seconds`, five rounds at least.
    Afterwards the named `levers` are tried, and with `fastest_within` combinations of them for so many seconds.
    `slow_share` of the bytes it reads lie on a slower memory of `slow_gb_per_s`, where a person knows that.
    """

    context: int = 256
    batch: int = 1
    prefill: bool = False
    seconds: float = 30.0
    levers: tuple[str, ...] = ()
    fastest_within: float | None = None
    slow_share: float | None = None
    slow_gb_per_s: float | None = None

    @property
    def new_tokens(self) -> int:
        """Tokens beyond the context that the cache may come to hold."""
        return 2


def check_settings(settings: SweepSettings | BatchSettings | GapSettings) -> None:
    """Raise SettingsError where a setting is out of range or unknown; needs no model."""
    check_engine(settings.engine, settings.endpoint, settings.llama_cpp)
    if settings.engine != TRANSFORMERS and (settings.layers is not None or settings.variant != AS_LOADED):
        what = "Slices of a model's layers are" if settings.layers is not None else f"{settings.variant} is"
        raise SettingsError(f"{what} run by transformers only, and the engine is {settings.engine}.")
    _check_variant(settings)
    if settings.dtype not in DTYPE_BYTES:
        raise SettingsError(unknown_name("dtype", settings.dtype, DTYPE_BYTES))
    check_device(settings.device)
    _check_threads(settings.threads)
    match settings:
        case SweepSettings():
            _check_sweep(settings)
        case BatchSettings():
            _check_batches(settings)
        case GapSettings():
            _check_pass(settings)


def _check_threads(threads: int | None) -> None:
    if threads is None:
        return
    _at_least(1, threads, "The number of threads", "")
    most = THREADS_PER_CORE * usable_cores()
    if threads > most:
        raise SettingsError(
            f"The number of threads is {threads:,}; this process may use {usable_cores()} cores, and more "
            f"than {most} threads on them measure nothing but their waiting. Use at most {most}."
        )


def _check_sweep(settings: SweepSettings) -> None:
    _check_points(settings.prompts, "prompt lengths", "A prompt length", "1,16,64")
    reason = ": prefill gives the first token, decode the rest"
    _at_least(2, settings.new_tokens, "The number of new tokens", reason)
    _check_repeats(settings)


def _check_batches(settings: BatchSettings) -> None:
    _check_points(settings.contexts, "contexts", "A context", "2,256")
    _check_points(settings.batches, "batches", "A batch", "1,2,4,8")
    if max(settings.batches) > MOST_SEQUENCES:
        raise SettingsError(
            f"A batch is {max(settings.batches):,}; a step of more than {MOST_SEQUENCES:,} sequences is beyond any box."
        )
    _at_least(1, settings.steps, "The number of steps", "")
    _check_repeats(settings)


def _check_pass(settings: GapSettings) -> None:
    _at_least(1, settings.context, "The context", "")
    _at_least(1, settings.batch, "The batch", "")
    if not settings.seconds > 0:
        raise SettingsError(f"The seconds of measuring are {settings.seconds:g}; they must be above zero.")
    if (settings.slow_share is None) != (settings.slow_gb_per_s is None):
        raise SettingsError("A slower memory is told by the share of the bytes in it and by its rate in GB/s.")
    if settings.slow_gb_per_s is not None and not settings.slow_gb_per_s > 0:
        raise SettingsError(f"The slower memory reads {settings.slow_gb_per_s:g} GB/s; it must be above zero.")
    if settings.fastest_within is not None and not settings.fastest_within > 0:
        raise SettingsError(f"The search is given {settings.fastest_within:g} s; it needs more than none.")


def _check_variant(settings: RunSettings) -> None:
    variant = settings.variant
    if variant == AS_LOADED:
        return
    refusal = ""
    if settings.engine != TRANSFORMERS:
        refusal = f"only transformers runs a model so, and the engine is {settings.engine}"
    elif settings.layers is not None:
        refusal = "slices of its layers are run as they are loaded"
    elif isinstance(settings, GapSettings):
        refusal = "a ladder takes a model apart as it is loaded, and tries each of these beside it"
    elif isinstance(settings, BatchSettings) and settings.mixed and variant.compiled:
        refusal = "what is compiled is compiled for one shape, and sequences of unequal length have many"
    if refusal:
        raise SettingsError(f"The levers ask for {variant}: {refusal}. Leave them out.")


def check_held(settings: RunSettings, model: Model) -> None:
    """Raise SettingsError where the model can't be run in the variant; what only its network tells, loading does."""
    kinds = {layer.kind for layer in model.kv_layers}
    if settings.variant.cache is Cache.PREALLOCATED and KvKind.RECURRENT in kinds:
        raise SettingsError(
            f"{model.name} keeps recurrent states, for which there is no preallocated cache. Leave that, and compiled, "
            "out."
        )


def _check_repeats(settings: RepeatedSettings) -> None:
    if isinstance(settings.repeats, int):
        _at_least(1, settings.repeats, "The number of repeats", "")
    _at_least(LEAST_REPEATS, settings.most_repeats, "The most repeats", ": fewer bound no median")
    if not 0 < settings.precision < 1:
        raise SettingsError(
            f"The precision is {settings.precision * 100:g} %; it must lie between 0 and 100 %, as in 2%."
        )
    if not settings.most_seconds > 0:
        raise SettingsError(f"The most seconds are {settings.most_seconds:g}; they must be above zero.")


def check_device(name: str) -> None:
    """Raise SettingsError for a device no engine knows; whether it is here only an engine can say."""
    if not DEVICE_NAME.fullmatch(name):
        raise SettingsError(unknown_name("device", name, DEVICES))


def check_context(settings: SweepSettings | BatchSettings | GapSettings, model: Model) -> None:
    """Raise SettingsError where a sequence with its new tokens is longer than the model's context."""
    limit = model.context_limit
    match settings:
        case _ if limit is None:
            return
        case SweepSettings():
            longest, most, what = max(settings.prompts), limit - settings.new_tokens, "prompt"
            way_out = f"Use prompts up to {most:,}." if most > 0 else "Use fewer new tokens."
        case BatchSettings():
            mean = max(settings.contexts)
            longest, most, what = settings.longest(mean), limit - settings.new_tokens, "sequence"
            if settings.mixed:
                most = 2 * most // 3
            way_out = f"Use contexts up to {most:,}." if most > 0 else "Use fewer steps."
        case GapSettings():
            longest, most = settings.context, limit - settings.new_tokens
            what = "prompt" if settings.prefill else "sequence"
            way_out = f"Use a context up to {most:,}."
    if longest + settings.new_tokens > limit:
        raise SettingsError(
            f"A {what} of {longest:,} tokens and {settings.new_tokens} new ones are longer than the context of "
            f"{model.name}, {limit:,} tokens. {way_out}"
        )


def resolved_weights(settings: RunSettings, model: Model) -> Weights:
    """Real where the model has weights and nothing else was asked; SettingsError for real ones it does not have."""
    if settings.engine != TRANSFORMERS:
        return Weights.REAL
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


def _check_points(points: tuple[int, ...], these: str, one: str, example: str) -> None:
    if not points:
        raise SettingsError(f"No {these} were given: name at least one, as in {example}.")
    for point in points:
        _at_least(1, point, one, "")


def _at_least(least: int, value: int, what: str, reason: str) -> None:
    if value < least:
        raise SettingsError(f"{what} is {value}; it must be at least {least}{reason}.")
