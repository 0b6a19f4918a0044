"""The torch engine: transformers models, each request timed in its two phases."""

import gc
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
import transformers

from workbench.engines import narrow
from workbench.engines.device import (
    Synchronise,
    choose_device,
    device_name,
    free_bytes,
    free_cached,
    held_back_bytes,
    synchroniser,
)
from workbench.engines.dissection import Pass, PassDissection
from workbench.engines.engine import BatchTiming, BoxRates, EngineLabels, PointError, RequestTiming
from workbench.engines.loading import is_out_of_memory, load_model
from workbench.engines.second_memory import is_elsewhere, slow_memory
from workbench.engines.timed_passes import TimedPasses, cache_of
from workbench.engines.variant_network import apply_variant, held_bytes, is_packed, packed_weights
from workbench.engines.variant_run import Plain, Sequences, TorchVariant, bytes_needed
from workbench.errors import SettingsError, first_line
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.levers import without_compiler
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import AS_LOADED, Stored, Variant, VariantRun
from workbench.experiments.plan import LoadPlan, check_memory
from workbench.experiments.settings import Weights
from workbench.hardware.machine import available_bytes, resident_bytes, usable_cores
from workbench.hardware.probe.model_rates import WeightReader, matrix_rate, product_rate
from workbench.models.model import Model, ModelKind
from workbench.quantity import Quantity
from workbench.runner import CancelToken

log = logging.getLogger(__name__)
ENGINE = "transformers"
MOST_HELD_BACK = 256_000_000
"""Bytes the C library may keep between requests: giving back less than this would cost the next one page faults."""
MOST_OFF = 0.01
"""By which the bytes of packed weights may differ from those that were planned."""
SHORT_TOKENS = 2
"""Tokens of a prefill so short that next to nothing of it grows with them."""

Result = TypeVar("Result")


def load(planned: LoadPlan, cancel: CancelToken) -> "TorchModel":
    """Load the plan's model in this thread, which is then the one that runs it."""
    threads = planned.settings.threads or usable_cores()
    torch.set_num_threads(threads)
    device = choose_device(planned.settings.device)
    cancel.check()
    free = free_bytes(device)
    check_memory(planned if free is None else replace(planned, available=free))
    network = load_model(planned, device)
    variant = planned.settings.variant
    _apply(variant, network, planned)
    labels = EngineLabels(
        engine=f"{ENGINE} ({variant.run_words})" if variant.run_words else ENGINE,
        engine_version=f"{transformers.__version__}, torch {torch.__version__}",
        quantisation=_quantisation(planned),
        dtype=planned.settings.dtype,
        device=device_name(device),
        threads=threads,
    )
    is_drawn = planned.weights is Weights.SYNTHETIC and bool(planned.resident.routed_expert_bytes)
    return TorchModel(network, planned.resident, labels, device, synchroniser(device), variant=variant, drawn=is_drawn)


def _apply(variant: Variant, network: Any, planned: LoadPlan) -> None:
    """Change a loaded network; raises SettingsError where it can't be run so, or would not hold what was planned."""
    if variant == AS_LOADED:
        return
    if variant.compiled and (reason := without_compiler()):
        raise SettingsError(reason)
    try:
        apply_variant(network, variant)
    except (RuntimeError, ValueError, ImportError) as error:
        raise SettingsError(f"{planned.model.name} can't be run with {variant}: {_reason(error)}") from error
    held, expected = held_bytes(network), planned.resident.resident_bytes
    if variant.stored is not Stored.AS_LOADED and abs(held - expected) > MOST_OFF * expected:
        raise SettingsError(
            f"{planned.model.name} would hold {held / 1e9:.2f} GB with {variant} and not the {expected / 1e9:.2f} GB "
            "that its ceiling counts: not all of its layers are linear ones that can be packed. Leave that out."
        )


def _quantisation(planned: LoadPlan) -> str:
    """How the weights are stored, where they are the model's own; this engine computes in the plan's dtype."""
    stored = planned.model.quantisation
    if planned.weights is Weights.SYNTHETIC:
        stored = "none"
    elif planned.model.kind is ModelKind.GGUF:
        stored = f"{stored}, dequantised"
    return ", ".join(filter(None, (stored, planned.settings.variant.stored_words)))


class TorchModel:
    """A transformers model in memory; every method is called in the thread that loaded it."""

    def __init__(
        self,
        network: Any,
        model: Model,
        labels: EngineLabels,
        device: torch.device,
        synchronise: Synchronise,
        clock: Callable[[], float] = time.perf_counter,
        variant: Variant = AS_LOADED,
        drawn: bool = False,
    ) -> None:
        self.model = model
        self.labels = labels
        self._network = network
        self._device = device
        self._synchronise = synchronise
        self._clock = clock
        self._cancel = CancelToken()
        self._ids: torch.Tensor | None = None
        self._weight_reader: WeightReader | None = None
        self._slow: tuple[SlowMemory | None] | None = None
        self._passes = TimedPasses(network, model, device, synchronise, clock, self._tokens, variant, drawn)
        self._resident_when_loaded = resident_bytes()
        for layer in _layers(network):
            layer.register_forward_pre_hook(lambda *_: self._cancel.check())

    def box_rates(self) -> BoxRates:
        """Measure B by reading the model's own weights, C by multiplying with the widest of its matrices."""
        with torch.inference_mode():
            return BoxRates(read=self._reader().rate(), product=self._product_rate())

    def _product_rate(self) -> Quantity:
        head = self._network.get_output_embeddings()
        embedding = self._network.get_input_embeddings()
        packed = [module for module in self._network.modules() if is_packed(module) and module is not head]
        if packed:
            widest = max(packed, key=lambda module: module.in_features * module.out_features)
            shape, dtype = (widest.out_features, widest.in_features), self._network.dtype
            return product_rate(widest, shape, dtype, self._device, self._synchronise, self._clock)
        weights = self._weights_here()
        tables = {id(getattr(module, "weight", None)) for module in (head, embedding)}
        matrices = [w for w in weights if w.ndim == 2 and id(w) not in tables] or [w for w in weights if w.ndim == 2]
        return matrix_rate(max(matrices, key=lambda w: w.numel()), self._synchronise, self._clock)

    def read_again(self) -> Quantity:
        """B of this moment, in about a quarter of a second."""
        with torch.inference_mode():
            return self._reader().rate_again()

    def _reader(self) -> WeightReader:
        if self._weight_reader is None:
            self._weight_reader = WeightReader(self._weights_here(), self._synchronise, self._clock)
        return self._weight_reader

    def _weights_here(self) -> list[torch.Tensor]:
        """The weights that lie where the model runs; of one whose layers are packed those."""
        weights = packed_weights(self._network) or self._network.parameters()
        return [weight for weight in weights if not is_elsewhere(weight, self._device)]

    def slow_memory(self) -> SlowMemory | None:
        """What lies on another device or is kept on the host, with its rate as it was first measured."""
        if self._slow is None:
            with torch.inference_mode():
                self._slow = (slow_memory(self._network, self._device, self._synchronise, self._clock),)
        return self._slow[0]

    def clocked_layers(self, first: int, end: int) -> list[float]:
        """From now on the seconds that layers from `first` to before `end` take, of each pass; the list that grows."""
        layers, found, begun = _layers(self._network), list[float](), 0.0

        def begin(*_: object) -> None:
            nonlocal begun
            self._synchronise()
            begun = self._clock()

        def finish(*_: object) -> None:
            self._synchronise()
            found.append(self._clock() - begun)

        layers[first].register_forward_pre_hook(begin)
        layers[end - 1].register_forward_hook(finish)
        return found

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Draw the next request's tokens."""
        self._ids = self._tokens(1, prompt_tokens, seed)

    def _tokens(self, sequences: int, length: int, seed: int) -> torch.Tensor:
        """Tokens on the device; varied, since a router sends equal tokens to the same few experts."""
        if resident_bytes() - self._resident_when_loaded > MOST_HELD_BACK:
            free_cached(self._device)
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, self.model.vocabulary, (sequences, length), generator=generator).to(self._device)
        self._synchronise()
        return ids

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill the prepared prompt on a fresh cache, then decode `new_tokens - 1` steps on that cache."""
        ids = self._ids
        assert ids is not None, "prepare comes before request"
        self._cancel, self._ids = cancel, None
        return self._explained(lambda: self._passes.request(ids, new_tokens, cancel))

    def free_bytes(self) -> int:
        """Bytes a point may still take where the model lives, what is held back for reuse among them."""
        free = free_bytes(self._device)
        if free is None:
            return available_bytes() + max(0, resident_bytes() - self._resident_when_loaded)
        return free + held_back_bytes(self._device)

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Prefill sequences of these lengths on a fresh cache, then time each of `steps` decode steps of them all."""
        self._cancel = cancel
        try:
            return self._explained(lambda: self._passes.batch(lengths, steps, seed, cancel))
        finally:
            # What one batch held is none of the next one's peak, and the next may need all of it.
            free_cached(self._device)

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        """Record a decode step of sequences that hold `tokens` each, or a prefill of as many, for taking it apart."""
        self._cancel = cancel
        return self._explained(lambda: self._dissection(tokens, batch, seed, prefill))

    def _dissection(self, tokens: int, batch: int, seed: int, prefill: bool) -> Dissection:
        ids = self._tokens(batch, tokens if prefill else 1, seed)
        full = self._dissected(self._network, ids, 0 if prefill else tokens)
        short = None
        if batch > 1 or (prefill and tokens > SHORT_TOKENS):
            few = ids[:1, :SHORT_TOKENS]
            short = self._dissected(self._network, few, 0 if prefill else min(tokens, narrow.CONTEXT))
        return Dissection(full, short, self._narrow_dissection(prefill))

    def _narrow_dissection(self, prefill: bool) -> PassDissection | None:
        network = narrow.narrow_network(self._network)
        if network is None:
            return None
        ids = torch.zeros((1, SHORT_TOKENS if prefill else 1), dtype=torch.long, device=self._device)
        try:
            return self._dissected(network, ids, 0 if prefill else narrow.CONTEXT)
        except Exception:
            # What a class refuses to build narrow it may also refuse to run.
            log.info("the narrow %s does not run", type(network).__name__, exc_info=True)
            return None

    def _dissected(self, network: Any, ids: torch.Tensor, context: int) -> PassDissection:
        """One pass of a network of this model's class."""

        def forward(tokens: torch.Tensor, cache: Any) -> Any:
            held = {} if cache is None else {self._passes.cache_name: cache}
            return network(input_ids=tokens, use_cache=True, **self._passes.last_only, **held)

        run = Pass(network, forward, cache_of, ids, context, clocks_in_place=self._device.type == "cpu")
        return PassDissection(run, self._synchronise, self._clock)

    def variant(self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken) -> VariantRun:
        """The model made ready in a variant; what it does not change it shares with the loaded one."""
        self._cancel = cancel
        on = Sequences(tokens, batch, prompt_tokens, self.model.vocabulary, self._device)
        need, free = bytes_needed(self._network, self.model, variant, on), self.free_bytes()
        if need > free:
            raise PointError(f"it needs {need / 1e9:.1f} GB beside the loaded model, and {free / 1e9:.1f} GB are free")
        run = TorchVariant(self._runs(cancel), variant, on)
        self._explained(run.make_ready)
        return run

    def _runs(self, cancel: CancelToken) -> Plain:
        return Plain(
            self._network,
            self._passes.cache_name,
            self._passes.last_only,
            self.labels.threads,
            cancel,
            self._explained,
            self._synchronise,
            self._clock,
        )

    def _explained(self, run: Callable[[], Result]) -> Result:
        """What `run` returns; PointError where it fails, once the memory it took has been given back."""
        try:
            with torch.inference_mode():
                return run()
        except (RuntimeError, MemoryError, ValueError, IndexError) as error:
            reason = _reason(error)
        self._passes.end()
        gc.collect()
        free_cached(self._device)
        raise PointError(reason)

    def close(self) -> None:
        """Free the model."""
        self._passes.close()
        self._network = self._weight_reader = None
        gc.collect()
        free_cached(self._device)


def _layers(network: Any) -> list[torch.nn.Module]:
    """The decoder layers: a list of as many modules as the settings say, else the longest there is."""
    lists = [list(module) for module in network.modules() if isinstance(module, torch.nn.ModuleList)]
    settings = getattr(network, "config", None)
    count = None if settings is None else getattr(settings.get_text_config(), "num_hidden_layers", None)
    return next((each for each in lists if len(each) == count), max(lists, key=len, default=[]))


def _reason(error: BaseException) -> str:
    return "out of memory" if is_out_of_memory(error) else first_line(error)
