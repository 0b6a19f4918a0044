"""The protocol every engine keeps: load a model, then time one request at a time in its two phases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import Variant, VariantRun
from workbench.experiments.plan import LoadPlan
from workbench.models.model import Model
from workbench.quantity import Quantity
from workbench.runner import CancelToken


@dataclass(frozen=True)
class EngineLabels:
    """What an engine says of itself for a row's labels; `extrapolated` says from what, where it ran a part of the model."""

    engine: str
    engine_version: str
    quantisation: str
    dtype: str
    device: str
    threads: int
    extrapolated: str = ""


@dataclass(frozen=True)
class RequestTiming:
    """One request's two phases in seconds; decode covers `steps` passes after the first output token."""

    ttft_s: float
    decode_s: float
    steps: int

    @property
    def tpot_s(self) -> float:
        """Seconds for each output token after the first."""
        return self.decode_s / self.steps


@dataclass(frozen=True)
class BatchTiming:
    """Seconds of one batch's prefill and of each decode step after it.

    `experts_touched` are the routed experts that one more step, not timed, read of each layer; empty without any.
    """

    prefill_s: float
    step_s: tuple[float, ...]
    experts_touched: tuple[int, ...] = ()


@dataclass(frozen=True)
class BoxRates:
    """B and C as the box shows them right now, on the loaded model's own weights."""

    read: Quantity
    product: Quantity


class LoadedModel(Protocol):
    """A model ready to run."""

    @property
    def model(self) -> Model:
        """The model as it is resident, in the engine's own types."""

    @property
    def labels(self) -> EngineLabels:
        """The engine's labels for rows."""

    def box_rates(self) -> BoxRates:
        """Measure B and C in under a second or two."""

    def read_again(self) -> Quantity:
        """B of this moment, measured in about a quarter of a second."""

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Make the next request's tokens, outside any timed window."""

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill the prepared prompt on a fresh cache, then decode `new_tokens - 1` steps on that cache.

        Raises Cancelled at a step or layer, and PointError where this request could not be run.
        """

    def free_bytes(self) -> int:
        """Bytes a point may still take where the model lives, what is held back for reuse among them."""

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Prefill sequences of these lengths on a fresh cache, then time each of `steps` decode steps of them all.

        Raises Cancelled at a step or layer, and PointError where this batch could not be run.
        """

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        """Record a decode step of sequences that hold `tokens` each, or a prefill of as many, for taking it apart.

        Raises Cancelled at a layer, and PointError where the pass could not be run.
        """

    def slow_memory(self) -> SlowMemory | None:
        """The second memory or device that weights lie on, with its rate; None where all lie where the model runs."""

    def variant(self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken) -> VariantRun:
        """The model made ready in a variant, for decode steps of sequences that hold `tokens` and prefills of a prompt.

        Raises Cancelled at a layer, and PointError where it could not be made ready or memory is short.
        """

    def close(self) -> None:
        """Free the model."""


def load_transformers(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
    """Load the plan's model with transformers, in the thread that measures: torch takes seconds to import."""
    if planned.settings.layers is not None:
        from workbench.engines.sliced_model import load_slices

        return load_slices(planned, cancel)
    from workbench.engines.torch_engine import load

    return load(planned, cancel)


class PointError(Exception):
    """One request that could not be run; its message is the reason, the next may still run."""
