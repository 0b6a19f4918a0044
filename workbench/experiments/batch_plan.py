"""What a batch sweep would need and take at each of its points, known before anything is loaded."""

from dataclasses import dataclass, replace
from math import ceil

from workbench.ceilings import decode, prefill
from workbench.ceilings.memory_fit import MemoryNeed, most_sequences
from workbench.experiments.engine_plan import run_need
from workbench.experiments.plan import LoadPlan, loading_seconds, middle_context, resolved_model
from workbench.experiments.settings import BatchSettings
from workbench.hardware.machine import available_bytes, usable_cores
from workbench.models.model import KvKind, Model
from workbench.models.slices import larger_slice
from workbench.quantity import Quantity
from workbench.runs.measured_device import rough_rates

PASS_TOKENS = 2_048
"""Tokens of all sequences together that one pass of a batch's prefill takes, so that its activations stay small."""


@dataclass(frozen=True, order=True)
class Point:
    """One point of a batch sweep: the tokens each sequence holds, their mean where they differ, and the sequences."""

    context: int
    batch: int


@dataclass(frozen=True)
class BatchPlan(LoadPlan):
    """A batch sweep's plan; its `need` is that of one sequence of the shortest context: each point is checked apart."""

    settings: BatchSettings

    @property
    def points(self) -> tuple[Point, ...]:
        """Every point, in the order they are measured."""
        return points(self.settings)

    @property
    def most_needed(self) -> MemoryNeed:
        """What the point that needs most of those that fit needs."""
        fitting = (need for need in map(self.need_at, self.points) if need.total <= self.available)
        return max(fitting, key=lambda need: need.total, default=self.need)

    def need_at(self, point: Point) -> MemoryNeed:
        """The need of one point."""
        return need_at(self.settings, self.resident, point)

    def largest_batch(self, context: int, beside_loaded: int) -> int:
        """The most sequences of that context for which there are bytes beside the loaded model; 0 where none fits."""
        return most_sequences(lambda b: self.need_at(Point(context, b)), beside_loaded)

    def need_in(self, dtype: str) -> MemoryNeed:
        """The need of one sequence of the shortest context in another dtype."""
        settings = replace(self.settings, dtype=dtype)
        return need_at(settings, settings.held(self.model), least_point(settings))

    @property
    def cache_words(self) -> str:
        """One sequence."""
        return f"of one sequence at {min(self.settings.contexts) + self.settings.new_tokens:,} tokens"

    @property
    def shorter(self) -> str:
        """Nothing is shorter than that."""
        return ""


def plan_batch(settings: BatchSettings) -> BatchPlan:
    """Resolve and check a batch sweep; raises SettingsError or ModelError, and leaves memory to `check_memory`."""
    model, resident, weights = resolved_model(settings)
    B, C = rough_rates(settings.dtype, settings.threads or usable_cores())
    available = available_bytes()
    fitting = [point for point in points(settings) if need_at(settings, resident, point).total <= available]
    passes = [pass_seconds(settings, resident, point, B, C) for point in fitting]
    measuring = sum(most_passes(settings, seconds) * seconds for seconds in passes)
    return BatchPlan(
        settings=settings,
        model=model,
        resident=resident,
        weights=weights,
        need=need_at(settings, resident, least_point(settings)),
        available=available,
        seconds=loading_seconds(resident, weights) + measuring,
    )


def points(settings: BatchSettings) -> tuple[Point, ...]:
    """Every batch of one context, then of the next."""
    return tuple(Point(context, batch) for context in settings.contexts for batch in settings.batches)


def least_point(settings: BatchSettings) -> Point:
    """One sequence of the shortest context: without memory for it there is nothing to load for."""
    return Point(min(settings.contexts), 1)


def need_at(settings: BatchSettings, resident: Model, point: Point) -> MemoryNeed:
    """What one point needs: every sequence's cache is as long as the longest's, and prefilled in passes."""
    resident = larger_slice(resident, settings.layers)
    longest = settings.longest(point.context)
    return run_need(
        settings,
        resident,
        longest,
        settings.new_tokens,
        point.batch,
        pass_tokens=point.batch * pass_columns(resident, point.batch, longest),
    )


def pass_columns(model: Model, sequences: int, longest: int) -> int:
    """Tokens of each sequence that one pass of a prefill takes; all of them where a state can't be gone on from."""
    if any(layer.kind is KvKind.RECURRENT for layer in model.kv_layers):
        return longest
    return max(1, min(longest, PASS_TOKENS // sequences))


def most_passes(settings: BatchSettings, seconds: float) -> int:
    """The most passes of a point of which one takes so long; the steps of one may already be enough."""
    rule, steps = settings.rule, settings.steps
    if rule.fixed:
        return rule.least
    in_time = int(min(rule.most_s / seconds, rule.most)) if seconds else rule.most
    return max(ceil(rule.least / steps), min(ceil(rule.most / steps), in_time))


def pass_seconds(
    settings: BatchSettings, resident: Model, point: Point, B: Quantity, C: Quantity, step: Quantity | None = None
) -> float:
    """Seconds of one pass of a point: the least its sequences' prefill takes, and of its steps that or `step`'s."""
    t = middle_context(point.context, settings.new_tokens)
    least = decode.step_seconds(resident, t, settings.element_bytes, B, C, point.batch)
    return prefill.seconds(resident, point.context, B, C, point.batch).value + settings.steps * (step or least).value


def lengths(settings: BatchSettings, point: Point) -> tuple[int, ...]:
    """Tokens each sequence holds: all the same, or with `mixed` spread evenly about their mean by half of it."""
    t, b = point.context, point.batch
    if not settings.mixed or b == 1:
        return (t,) * b
    # Python rounds halves to even, so what is added to one half of them is taken from the other.
    return tuple(t + round((2 * i - (b - 1)) * (t // 2) / (b - 1)) for i in range(b))
