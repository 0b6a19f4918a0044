"""A model of which only slices are loaded: each pass of the larger is clocked at the end of the smaller as well."""

from collections.abc import Sequence
from dataclasses import replace

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
    """The larger slice, whose passes say what each layer takes: those of its second half are clocked in it.

    Both slices are of one pass, so that the box is the same for both. `model` is the whole model, of which the rows
    are.
    """

    def __init__(self, larger: TorchModel, whole: Model, slices: Slices) -> None:
        self.model = whole
        self.labels: EngineLabels = replace(larger.labels, extrapolated=str(slices))
        self._larger = larger
        self._slices = slices
        self._later_s = larger.clocked_layers(slices.layers, slices.more)

    def box_rates(self) -> BoxRates:
        """On the slice's own weights."""
        return self._larger.box_rates()

    def read_again(self) -> Quantity:
        """As `TorchModel.read_again`."""
        return self._larger.read_again()

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """As `TorchModel.prepare`."""
        self._larger.prepare(prompt_tokens, seed)

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """A request of the slice, and from it that of the whole."""
        self._later_s.clear()
        timing = self._larger.request(new_tokens, cancel)
        prefill_s, *steps_s = self._later_s
        return RequestTiming(
            self._slices.seconds(timing.ttft_s, prefill_s),
            self._slices.seconds(timing.decode_s, sum(steps_s)),
            timing.steps,
        )

    def free_bytes(self) -> int:
        """As `TorchModel.free_bytes`."""
        return self._larger.free_bytes()

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """A batch of the slice, and from it that of the whole."""
        self._later_s.clear()
        timing = self._larger.batch(lengths, steps, seed, cancel)
        # The prefill may have been in several passes; a pass after the steps only counts experts.
        prefills = len(self._later_s) - len(timing.step_s) - bool(timing.experts_touched)
        prefill_s, steps_s = sum(self._later_s[:prefills]), self._later_s[prefills : prefills + len(timing.step_s)]
        whole = self._slices.seconds
        step_s = tuple(whole(*both) for both in zip(timing.step_s, steps_s, strict=True))
        return BatchTiming(whole(timing.prefill_s, prefill_s), step_s, timing.experts_touched)

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
