"""A model of which only slices are loaded: every timing is of two slices, and says what the whole would take."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from workbench.engines.engine import BatchTiming, BoxRates, EngineLabels, PointError, RequestTiming
from workbench.engines.torch_engine import TorchModel, load
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import Variant, VariantRun
from workbench.experiments.plan import LoadPlan
from workbench.models.model import Model
from workbench.models.slices import larger_slice
from workbench.predictions.slices import Slices
from workbench.quantity import Quantity
from workbench.runner import CancelToken


def load_slices(planned: LoadPlan, cancel: CancelToken) -> "SlicedModel":
    """Load the larger of the plan's two slices, which holds the smaller."""
    settings = planned.settings
    assert settings.layers is not None, "a plan without layers is loaded whole"
    larger = replace(
        planned,
        settings=replace(settings, layers=None),
        model=larger_slice(planned.model, settings.layers),
        resident=larger_slice(planned.resident, settings.layers),
    )
    slices = Slices(settings.layers, len(planned.model.kv_layers))
    return SlicedModel(load(larger, cancel), planned.resident, slices)


class SlicedModel:
    """The larger slice, run with all its layers and with the first half of them in turn.

    `model` is the whole model, of which the rows are.
    """

    def __init__(self, larger: TorchModel, whole: Model, slices: Slices) -> None:
        self.model = whole
        self.labels: EngineLabels = replace(larger.labels, extrapolated=str(slices))
        self._larger = larger
        self._slices = slices
        self._prepared = (1, 0)

    def box_rates(self) -> BoxRates:
        """On the slice's own weights."""
        return self._larger.box_rates()

    def read_again(self) -> Quantity:
        """As `TorchModel.read_again`."""
        return self._larger.read_again()

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Both slices are given the same tokens."""
        self._prepared = (prompt_tokens, seed)

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """One request of each slice, the smaller first, and from both that of the whole."""

        def run() -> RequestTiming:
            self._larger.prepare(*self._prepared)
            return self._larger.request(new_tokens, cancel)

        few, more = self._both(run)
        whole = self._slices.seconds
        return RequestTiming(whole(few.ttft_s, more.ttft_s), whole(few.decode_s, more.decode_s), more.steps)

    def free_bytes(self) -> int:
        """As `TorchModel.free_bytes`."""
        return self._larger.free_bytes()

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """One batch of each slice, and from both that of the whole."""
        few, more = self._both(lambda: self._larger.batch(lengths, steps, seed, cancel))
        whole = self._slices.seconds
        step_s = tuple(whole(a, b) for a, b in zip(few.step_s, more.step_s, strict=True))
        return BatchTiming(whole(few.prefill_s, more.prefill_s), step_s, more.experts_touched)

    def _both(self, run: Callable[[], Any]) -> tuple[Any, Any]:
        try:
            self._larger.run_layers(self._slices.layers)
            few = run()
        finally:
            self._larger.run_layers(self._slices.more)
        return few, run()

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        """A slice isn't taken apart."""
        raise PointError("slices can't be taken apart: run the model whole")

    def slow_memory(self) -> SlowMemory | None:
        """As `TorchModel.slow_memory`."""
        return self._larger.slow_memory()

    def variant(self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken) -> VariantRun:
        """A slice has no variants."""
        raise PointError("slices have no variants: run the model whole")

    def close(self) -> None:
        """Free the slice."""
        self._larger.close()
