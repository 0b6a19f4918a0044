"""The protocol every engine keeps: load a model, then time one request at a time in its two phases."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.engines.endpoint.key import Key
from workbench.errors import MemoryRefused
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import Variant, VariantRun
from workbench.experiments.plan import LoadPlan
from workbench.hardware.machine import address_space_left
from workbench.models.model import Model
from workbench.quantity import Quantity
from workbench.runner import CancelToken
from workbench.runs.basis import Basis

TORCH_ADDRESS_BYTES = 1_000_000_000
"""Address space that torch and transformers take with two threads: 0.86 GB measured, and what a first pass asks for."""


@dataclass(frozen=True)
class Host:
    """Where an engine runs: in this process, unless it says otherwise.

    `machine` is the label of another machine, `process` another process of this one, `basis` what the engine's rates
    rest on, None where they are stand-ins. `is_here` is false where its memory and its load can't be told from here.
    """

    machine: str = ""
    process: int | None = None
    basis: Basis | None = Basis.MINUTE
    is_here: bool = True


@dataclass(frozen=True)
class EngineLabels:
    """What an engine says of itself for a row's labels; `model` is empty where it runs the plan's.

    `extrapolated` says from what its timings follow, where it ran a part of the model.
    """

    engine: str
    engine_version: str
    quantisation: str
    dtype: str
    device: str
    threads: int
    extrapolated: str = ""
    model: str = ""
    host: Host = field(default_factory=Host)


@dataclass(frozen=True)
class SeenByClient:
    """A request as its client saw it, in seconds from sending it, and what the server told besides, None where untold.

    An answer that was not streamed has neither TTFT nor TPOT by the client, and no `chunks`. Its TPOT is over the
    tokens after the `first_tokens` that came at once; `tpot_between_s` bounds it where nothing tells how many came so.
    `by_server` says whether the request's phases are by the server's own clock; `notes` are for the row's reader.
    """

    ttft_s: float | None
    tpot_s: float | None
    end_s: float
    tokens: int
    queue_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    by_server: bool = False
    notes: tuple[str, ...] = ()
    chunks: int = 0
    first_tokens: int = 1
    tpot_between_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class RequestTiming:
    """One request's two phases in seconds; decode covers `steps` passes after the first output token.

    `seen` is what a client saw of it, where the engine is a server.
    """

    ttft_s: float
    decode_s: float
    steps: int
    seen: SeenByClient | None = None

    @property
    def tpot_s(self) -> float:
        """Seconds for each output token after the first."""
        return self.decode_s / self.steps


@dataclass(frozen=True)
class Streams:
    """Requests sent to a server together: when each was sent after the first, and how long all took.

    `lag_s` is how late the client ran, its 99th percentile; `slots` the requests the server runs at once, where told.
    """

    timings: tuple[RequestTiming, ...]
    sent_s: tuple[float, ...]
    span_s: float
    lag_s: float
    slots: int | None = None


@dataclass(frozen=True)
class BatchTiming:
    """Seconds of one batch's prefill and of each decode step after it.

    `experts_touched` are the routed experts that one more step, not timed, read of each layer; empty without any.
    With `streams`, of a server, the steps are those of each stream alone.
    """

    prefill_s: float
    step_s: tuple[float, ...]
    experts_touched: tuple[int, ...] = ()
    streams: Streams | None = None


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


def check_room_for_torch() -> None:
    """Raise MemoryRefused where `ulimit -v` leaves too little to start torch, whose libraries then end the process."""
    left = address_space_left()
    if "torch" not in sys.modules and left is not None and left < TORCH_ADDRESS_BYTES:
        raise MemoryRefused(
            f"`ulimit -v` leaves this process {left / 1e9:.1f} GB of address space, and torch needs "
            f"{TORCH_ADDRESS_BYTES / 1e9:.1f} GB for its libraries and threads alone. Raise the limit, or take it away "
            "with `ulimit -v unlimited`."
        )


def load_transformers(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
    """Load the plan's model with transformers, in the thread that measures: torch takes seconds to import."""
    check_room_for_torch()
    if planned.settings.layers is not None:
        from workbench.engines.sliced_model import load_slices

        return load_slices(planned, cancel)
    from workbench.engines.torch_engine import load

    return load(planned, cancel)


def load_engine(planned: LoadPlan, cancel: CancelToken, key: Key | None = None) -> LoadedModel:
    """Make the plan's engine ready, in the thread that measures; each is imported when it is asked for.

    `key` is an endpoint's, None for that of the environment.
    """
    match planned.settings.engine:
        case "endpoint":
            from workbench.engines.endpoint.endpoint_model import load_endpoint

            return load_endpoint(planned, cancel, key)
        case "llama.cpp":
            check_room_for_torch()
            from workbench.engines.llama_cpp.embedded import load_llama_cpp

            return load_llama_cpp(planned, cancel)
        case "llama-bench":
            check_room_for_torch()
            from workbench.engines.llama_cpp.bench import load_llama_bench

            return load_llama_bench(planned, cancel)
        case _:
            return load_transformers(planned, cancel)


class PointError(Exception):
    """One request that could not be run; its message is the reason, the next may still run."""
