"""Blocks of the same decode steps: each of those that are compared stands between two bare ones."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import mean, median

from workbench.engines.engine import BatchTiming, BoxRates, EngineLabels, LoadedModel, RequestTiming
from workbench.experiments.events import Event
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import Variant, VariantRun
from workbench.models.model import Model
from workbench.quantity import Quantity
from workbench.runner import CancelToken, Experiment

CONTEXT, STEPS = 64, 12
"""Tokens each block holds before its steps, and its steps: about half a second of a 135M shape on two cores."""
REQUESTS = 6
"""Blocks of a condition in a round, of which each lies between two bare ones."""

Hold = Callable[[], AbstractContextManager[None]]
"""Keeps what stands beside the steps still for as long as the context is open; called in the measuring thread."""


class SteppedModel:
    """One loaded model for all conditions: every request is the same block of steps, after a bare one.

    `blocks` are those of the requests, `bare` those before each. The first of a condition are its warm-up and not kept.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.rates = loaded.box_rates()
        self.bare: list[tuple[float, ...]] = []
        self.blocks: list[tuple[float, ...]] = []
        self.hold: Hold = nullcontext

    @property
    def model(self) -> Model:
        """As it is resident."""
        return self.loaded.model

    @property
    def labels(self) -> EngineLabels:
        """The engine's."""
        return self.loaded.labels

    def begin(self) -> None:
        """Forget the steps of the last condition."""
        self.bare, self.blocks, self.hold = [], [], nullcontext

    def hold_with(self, hold: Hold) -> None:
        """What keeps the rest of this condition still during its bare blocks."""
        self.hold = hold

    @property
    def taken(self) -> tuple["Block", ...]:
        """The blocks kept, each with the bare ones before and after it."""
        return tuple(Block(self.blocks[i], tuple(self.bare[i : i + 2])) for i in range(1, len(self.blocks)))

    def box_rates(self) -> BoxRates:
        """Those of the beginning: reading memory between steps would only take time."""
        return self.rates

    def read_again(self) -> Quantity:
        """As `box_rates`."""
        return self.rates.read

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """The bare block before the next request, outside of any window."""
        with self.hold():
            self.bare.append(self._block(CancelToken()).step_s)

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill and steps of one sequence of CONTEXT tokens, whatever was prepared."""
        timing = self._block(cancel)
        self.blocks.append(timing.step_s)
        return RequestTiming(timing.prefill_s, sum(timing.step_s), STEPS)

    def _block(self, cancel: CancelToken) -> BatchTiming:
        return self.loaded.batch((CONTEXT,), STEPS, seed=len(self.blocks), cancel=cancel)

    def free_bytes(self) -> int:
        """As the engine has it."""
        return self.loaded.free_bytes()

    def slow_memory(self) -> SlowMemory | None:
        """As the engine has it."""
        return self.loaded.slow_memory()

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """As the engine has it."""
        return self.loaded.batch(lengths, steps, seed, cancel)

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        """As the engine has it."""
        return self.loaded.dissect(tokens, batch, seed, prefill=prefill, cancel=cancel)

    def variant(self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken) -> VariantRun:
        """As the engine has it."""
        return self.loaded.variant(variant, tokens, batch, prompt_tokens, cancel)

    def close(self) -> None:
        """Stay loaded for the next condition."""


@dataclass(frozen=True)
class Block:
    """Seconds of one block's steps, and of those of the bare blocks before and, if there was one more, after it."""

    step_s: tuple[float, ...]
    around: tuple[tuple[float, ...], ...]

    @property
    def ratio(self) -> float:
        """Its median step over that of the bare ones around it."""
        return median(self.step_s) / mean(median(bare) for bare in self.around)


def steps_alone(model: SteppedModel) -> Experiment:
    """The blocks with nothing around them: no window, no events, no store."""

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        for _ in range(1 + REQUESTS):
            cancel.check()
            model.prepare(CONTEXT, 0)
            model.request(STEPS + 1, cancel)
        yield from ()

    return experiment
