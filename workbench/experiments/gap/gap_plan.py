"""What taking a pass apart would need and take, known before anything is loaded."""

from dataclasses import dataclass

from workbench.ceilings import decode, prefill
from workbench.ceilings.memory_fit import MemoryNeed, memory_need
from workbench.experiments.gap.levers import check_names
from workbench.experiments.gap.parts import SHORT_S
from workbench.experiments.plan import LoadPlan, loading_seconds
from workbench.experiments.settings import GapSettings, check_context, check_settings, resolved_weights
from workbench.hardware.machine import available_bytes, usable_cores
from workbench.models.model import DTYPE_BYTES, Model
from workbench.models.resolve import resolve
from workbench.quantity import Quantity, format_duration
from workbench.runs.measured_device import rough_rates

FILLED_FROM = 8
"""Tokens really prefilled for a decode step's cache; the positions after them repeat these."""
PASSES_IN_ROUND = 18
"""The pass whole, its parts alone and left out, and those that find the framework, in passes of the whole model."""
WARMED = 2
"""How often a pass is run for each time it is timed, where it is as short as SHORT_S."""
USUAL_TIMES = 2.0
"""How many times its floor a pass takes, where it is neither physics nor a symptom."""
BESIDE_ROUND_S = 0.5
"""Reading the weights once more, and working the ladder out anew."""
BEFORE_ROUNDS_S = 3.0
"""Reading the box's rates, recording the pass, and building the narrow model."""
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class GapPlan(LoadPlan):
    """The plan of a pass that is taken apart; `least_s` is about what its least rounds take."""

    settings: GapSettings
    least_s: float = 0.0

    @property
    def longer_words(self) -> str:
        """Why it takes longer than was asked, where it does: there is no ladder of fewer rounds."""
        if self.least_s <= self.settings.seconds:
            return ""
        return (
            f"{LEAST_ROUNDS} rounds are the least a ladder is made of, and take about {format_duration(self.least_s)} "
            f"here: longer than the {format_duration(self.settings.seconds)} asked for."
        )

    def need_in(self, dtype: str) -> MemoryNeed:
        """The need of the same pass in another dtype."""
        return _need(self.settings, self.model.in_dtype(dtype), dtype)

    @property
    def cache_words(self) -> str:
        """Every sequence's tokens."""
        return f"of {self.settings.batch:,} × {self.settings.context:,} tokens"

    @property
    def shorter(self) -> str:
        """What would fit is not searched for."""
        return ""


def plan_gap(settings: GapSettings) -> GapPlan:
    """Resolve and check a gap; raises SettingsError or ModelError, and leaves memory to `check_memory`."""
    check_settings(settings)
    check_names(settings.levers)
    model = resolve(settings.model)
    weights = resolved_weights(settings, model)
    check_context(settings, model)
    resident = model.in_dtype(settings.dtype)
    B, C = rough_rates(settings.dtype, settings.threads or usable_cores())
    least_s = LEAST_ROUNDS * round_seconds(pass_seconds(settings, resident, B, C).value)
    return GapPlan(
        settings=settings,
        model=model,
        resident=resident,
        weights=weights,
        need=_need(settings, resident, settings.dtype),
        available=available_bytes(),
        seconds=loading_seconds(resident, weights)
        + BEFORE_ROUNDS_S
        + max(settings.seconds, least_s)
        + (settings.fastest_within or 0.0),
        least_s=least_s,
    )


def round_seconds(floor_s: float) -> float:
    """About what one round takes of a pass whose floor is so many seconds."""
    seconds = USUAL_TIMES * floor_s
    return PASSES_IN_ROUND * seconds * (WARMED if seconds <= SHORT_S else 1) + BESIDE_ROUND_S


def pass_seconds(settings: GapSettings, model: Model, B: Quantity, C: Quantity) -> Quantity:
    """The least seconds of the pass."""
    if settings.prefill:
        return prefill.seconds(model, settings.context, B, C, settings.batch)
    return decode.step_seconds(model, settings.context + 1, DTYPE_BYTES[settings.dtype], B, C, settings.batch)


def _need(settings: GapSettings, resident: Model, dtype: str) -> MemoryNeed:
    together = settings.batch * (settings.context if settings.prefill else min(FILLED_FROM, settings.context))
    element_bytes = DTYPE_BYTES[dtype]
    return memory_need(
        resident, settings.context, settings.new_tokens, element_bytes, settings.batch, pass_tokens=together
    )
