"""What a sweep would need and take, known before anything is loaded."""

from dataclasses import dataclass

from workbench.ceilings import decode, prefill
from workbench.ceilings.memory_fit import MemoryNeed, longest_prompt, memory_need
from workbench.errors import MemoryRefused
from workbench.experiments.settings import SweepSettings, Weights, check_context, check_settings, resolved_weights
from workbench.hardware.machine import available_bytes, runs_in_host_memory, usable_cores
from workbench.models.model import DTYPE_BYTES, Model
from workbench.models.resolve import resolve
from workbench.quantity import Quantity
from workbench.runs.measured_device import ASSUMED_READ, assumed_compute

SYNTHETIC_BYTES_PER_SECOND = 1.5e9
LOADED_BYTES_PER_SECOND = 0.1e9


@dataclass(frozen=True)
class Plan:
    """A sweep's model as named and as resident, its memory need and available memory in bytes, and its time."""

    settings: SweepSettings
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


def plan(settings: SweepSettings) -> Plan:
    """Resolve and check a sweep; raises SettingsError or ModelError, and leaves memory to `check_memory`."""
    check_settings(settings)
    model = resolve(settings.model)
    weights = resolved_weights(settings, model)
    check_context(settings, model)
    resident = model.in_dtype(settings.dtype)
    element_bytes = DTYPE_BYTES[settings.dtype]
    return Plan(
        settings=settings,
        model=model,
        resident=resident,
        weights=weights,
        need=memory_need(resident, max(settings.prompts), settings.new_tokens, element_bytes),
        available=available_bytes(),
        seconds=_seconds(settings, resident, weights),
    )


def point_seconds(settings: SweepSettings, resident: Model, n: int, B: Quantity, C: Quantity) -> float:
    """Least seconds of all repeats of one prompt length, from its two floors."""
    ttft = prefill.seconds(resident, n, B, C).value
    tpot = decode.step_seconds(resident, middle_context(n, settings.new_tokens), DTYPE_BYTES[settings.dtype], B, C)
    return settings.repeats * (ttft + tpot.value * (settings.new_tokens - 1))


def middle_context(prompt_tokens: int, new_tokens: int) -> int:
    """Tokens in the cache that the middle decode step attends to, its own included."""
    return prompt_tokens + new_tokens // 2


def check_before_loading(planned: Plan) -> None:
    """`check_memory` where the machine's own memory holds the model; an accelerator's is known only to torch."""
    if runs_in_host_memory(planned.settings.device):
        check_memory(planned)


def check_memory(planned: Plan) -> None:
    """Raise MemoryRefused, with the figures and what would fit, where the need is more than is available."""
    if planned.fits:
        return
    need, settings, model = planned.need, planned.settings, planned.model
    ways = [
        f"{dtype} ({smaller.total / 1e9:.1f} GB)"
        for dtype in DTYPE_BYTES
        if DTYPE_BYTES[dtype] < DTYPE_BYTES[settings.dtype]
        and (smaller := _need_in(model, dtype, settings)).total <= planned.available
    ]
    prompt = longest_prompt(planned.resident, settings.new_tokens, DTYPE_BYTES[settings.dtype], planned.available)
    if prompt:
        ways.append(f"prompts up to {prompt:,} tokens")
    offer = f"What would fit: {' or '.join(ways)}." if ways else "Choose a smaller model, or free memory."
    raise MemoryRefused(
        f"{model.name} in {settings.dtype} needs {need.total / 1e9:.1f} GB: {need.weights / 1e9:.1f} GB of weights, "
        f"{need.cache / 1e9:.2f} GB of cache at {max(settings.prompts) + settings.new_tokens:,} tokens, "
        f"{need.working / 1e9:.2f} GB of activations and {need.engine / 1e9:.2f} GB for the engine. This process "
        f"may still take {planned.available / 1e9:.1f} GB. {offer}"
    )


def _need_in(model: Model, dtype: str, settings: SweepSettings) -> MemoryNeed:
    return memory_need(model.in_dtype(dtype), max(settings.prompts), settings.new_tokens, DTYPE_BYTES[dtype])


def _seconds(settings: SweepSettings, resident: Model, weights: Weights) -> float:
    """A rough time from assumed rates: loading, and every point at its floor."""
    C = assumed_compute(settings.threads or usable_cores())
    rate = SYNTHETIC_BYTES_PER_SECOND if weights is Weights.SYNTHETIC else LOADED_BYTES_PER_SECOND
    engine_start = 5.0
    measuring = sum(point_seconds(settings, resident, n, ASSUMED_READ, C) for n in settings.prompts)
    return engine_start + resident.resident_bytes / rate + measuring
