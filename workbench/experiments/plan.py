"""What a run would need and take, known before anything is loaded."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace

from workbench.ceilings import decode, prefill
from workbench.ceilings.memory_fit import MemoryNeed, longest_prompt
from workbench.errors import MemoryRefused, SettingsError
from workbench.experiments.engine_plan import run_model, run_need
from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.gap.variant import AS_LOADED
from workbench.experiments.settings import (
    BatchSettings,
    RunSettings,
    SweepSettings,
    Weights,
    check_context,
    check_held,
    check_settings,
    resolved_weights,
)
from workbench.hardware.machine import available_bytes, runs_in_host_memory, usable_cores
from workbench.models.model import DTYPE_BYTES, Model
from workbench.models.slices import check_slices, larger_slice
from workbench.quantity import Quantity
from workbench.runs.measured_device import rough_rates

SYNTHETIC_BYTES_PER_SECOND = 1.5e9
LOADED_BYTES_PER_SECOND = 0.1e9
ENGINE_START_S = 5.0
MOST_LAYERS = 8
"""Layers of the slices that are offered, at most: more of them tell little more."""


@dataclass(frozen=True)
class LoadPlan(ABC):
    """What a run loads: its model as named and as resident, the memory it needs and what is available, and its time.

    `need` is what there must be for the run to begin.
    """

    settings: RunSettings
    model: Model
    resident: Model
    weights: Weights
    need: MemoryNeed
    available: int
    seconds: float

    @property
    def fits(self) -> bool:
        """Whether the need is at most what this process may still take."""
        return self.need.total <= self.available

    @property
    def is_refused(self) -> bool:
        """Whether memory is short before anything is loaded; an accelerator's is known only to torch."""
        return runs_in_host_memory(self.settings.device) and not self.fits

    @property
    def loading_words(self) -> str:
        """What is loaded, and in what."""
        settings = self.settings
        match settings.engine:
            case "transformers":
                return f"loading {self.model.name} in {settings.form}"
            case "endpoint":
                return f"asking {settings.endpoint.url} what it serves"
            case engine:
                return f"loading {self.model.name} with {engine}"

    @property
    def most_needed(self) -> MemoryNeed:
        """What the point that needs most needs."""
        return self.need

    @abstractmethod
    def need_in(self, dtype: str) -> MemoryNeed:
        """The need of the same run in another dtype."""

    @property
    @abstractmethod
    def cache_words(self) -> str:
        """What the cache of `need` holds, as in "at 4,113 tokens"."""

    @property
    @abstractmethod
    def shorter(self) -> str:
        """What of this run would fit in this dtype, in words; empty where nothing would."""


@dataclass(frozen=True)
class Plan(LoadPlan):
    """A prefill/decode sweep's plan."""

    settings: SweepSettings

    def need_in(self, dtype: str) -> MemoryNeed:
        """The need of its longest prompt in another dtype."""
        settings = self.settings
        resident = larger_slice(replace(settings, dtype=dtype).held(self.model), settings.layers)
        return run_need(settings, resident, max(settings.prompts), settings.new_tokens)

    @property
    def cache_words(self) -> str:
        """The longest prompt and its answer."""
        return f"at {max(self.settings.prompts) + self.settings.new_tokens:,} tokens"

    @property
    def shorter(self) -> str:
        """The longest prompt that would fit."""
        settings = self.settings
        if settings.engine != TRANSFORMERS:
            return ""
        prompt = longest_prompt(self.resident, settings.new_tokens, DTYPE_BYTES[settings.dtype], self.available)
        return f"prompts up to {prompt:,} tokens" if prompt else ""


def resolved_model(settings: SweepSettings | BatchSettings) -> tuple[Model, Model, Weights]:
    """The model of checked settings as named and as the engine holds it, and which weights it is loaded with.

    Raises SettingsError or ModelError.
    """
    check_settings(settings)
    model = run_model(settings)
    weights = resolved_weights(settings, model)
    check_context(settings, model)
    check_held(settings, model)
    return model, settings.held(model), weights


def plan(settings: SweepSettings) -> Plan:
    """Resolve and check a sweep; raises SettingsError or ModelError, and leaves memory to `check_memory`."""
    model, resident, weights = resolved_model(settings)
    return Plan(
        settings=settings,
        model=model,
        resident=resident,
        weights=weights,
        need=run_need(settings, larger_slice(resident, settings.layers), max(settings.prompts), settings.new_tokens),
        available=available_bytes(),
        seconds=_seconds(settings, resident, weights),
    )


def loading_seconds(resident: Model, weights: Weights) -> float:
    """A rough time until a model is loaded."""
    rate = SYNTHETIC_BYTES_PER_SECOND if weights is Weights.SYNTHETIC else LOADED_BYTES_PER_SECOND
    return ENGINE_START_S + resident.resident_bytes / rate


def request_seconds(settings: SweepSettings, resident: Model, n: int, B: Quantity, C: Quantity) -> float:
    """Least seconds of one request of a prompt length, from its two floors."""
    ttft = prefill.seconds(resident, n, B, C).value
    tpot = decode.step_seconds(resident, middle_context(n, settings.new_tokens), settings.element_bytes, B, C)
    return ttft + tpot.value * (settings.new_tokens - 1)


def middle_context(prompt_tokens: int, new_tokens: int) -> int:
    """Tokens in the cache that the middle decode step attends to, its own included."""
    return prompt_tokens + new_tokens // 2


def check_before_loading(planned: LoadPlan) -> None:
    """`check_memory` where the machine's own memory holds the model."""
    if planned.is_refused:
        check_memory(planned)


def check_memory(planned: LoadPlan) -> None:
    """Raise MemoryRefused, with the figures and what would fit, where the need is more than is available."""
    if planned.fits:
        return
    need, settings, model = planned.need, planned.settings, planned.model
    ways = [
        f"{dtype} ({smaller.total / 1e9:.1f} GB)"
        for dtype in DTYPE_BYTES
        if settings.engine == TRANSFORMERS
        and DTYPE_BYTES[dtype] < DTYPE_BYTES[settings.dtype]
        and (smaller := planned.need_in(dtype)).total <= planned.available
    ]
    ways += filter(None, (planned.shorter, _slices_that_fit(planned)))
    offer = f"What would fit: {' or '.join(ways)}." if ways else "Choose a smaller model, or free memory."
    raise MemoryRefused(
        f"{model.name} in {settings.form} needs {need.total / 1e9:.1f} GB: {need.weights / 1e9:.1f} GB of weights, "
        f"{need.cache / 1e9:.2f} GB of cache {planned.cache_words}, "
        f"{need.working / 1e9:.2f} GB of activations and {need.engine / 1e9:.2f} GB for the engine. This process "
        f"may still take {planned.available / 1e9:.1f} GB. {offer}"
    )


def _slices_that_fit(planned: LoadPlan) -> str:
    layers = layers_that_fit(planned)
    return f"slices of its layers, from which the whole follows (--layers {layers})" if layers else ""


def layers_that_fit(planned: LoadPlan) -> int:
    """The largest slices, up to MOST_LAYERS, that would fit where the whole doesn't; 0 where none would."""
    settings = planned.settings
    if settings.engine != TRANSFORMERS or settings.layers is not None or settings.variant != AS_LOADED:
        return 0
    for layers in range(min(MOST_LAYERS, len(planned.model.kv_layers) // 2), 0, -1):
        slices = replace(planned, settings=replace(settings, layers=layers))
        with suppress(SettingsError):
            check_slices(planned.model, layers)
            if slices.need_in(settings.dtype).total <= planned.available:
                return layers
    return 0


def _seconds(settings: SweepSettings, resident: Model, weights: Weights) -> float:
    """A rough time from this machine's rates: loading, and as many requests at their floors as there may be."""
    B, C = rough_rates(settings.dtype, settings.threads or usable_cores())
    requests = [request_seconds(settings, resident, n, B, C) for n in settings.prompts]
    measuring = sum(settings.rule.most_in(seconds) * seconds for seconds in requests)
    return loading_seconds(resident, weights) + measuring
