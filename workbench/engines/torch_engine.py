"""The torch engine: transformers models, each request timed in its two phases."""

import gc
import inspect
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
from workbench.engines.experts_touched import counted_experts
from workbench.engines.loading import is_out_of_memory, load_model
from workbench.engines.second_memory import is_elsewhere, slow_memory
from workbench.engines.variant_network import apply_variant, held_bytes, is_packed, packed_weights
from workbench.engines.variant_run import Plain, Sequences, TorchVariant, bytes_needed
from workbench.engines.variant_steps import VariantSteps
from workbench.errors import SettingsError
from workbench.experiments.batch_plan import pass_columns
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
CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""What transformers calls the cache: since 5.24, before it, and in state-space models."""
MOST_HELD_BACK = 256_000_000
"""Bytes the C library may keep between requests: giving back less than this would cost the next one page faults."""
COMPILING_PASSES, COMPILING_STEPS = 2, 3
"""Requests that are not timed, and steps of each, so that what is compiled for a new cache and an emptied one is."""
MOST_OFF = 0.01
"""By which the bytes of packed weights may differ from those that were planned."""
SHORT_TOKENS = 2
"""Tokens of a prefill so short that next to nothing of it grows with them."""

Timing = TypeVar("Timing")


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
    """A transformers model in memory; every method is called in the thread that loaded it.

    The clock is read only after `synchronise` has returned, so that queued work is inside the timing. With `drawn` the
    tokens that decode steps are given are drawn beforehand and not those that the step before chose: synthetic weights
    choose the same few over and over, whose experts would still be in a cache.
    """

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
        self._drawn = drawn
        self._cancel = CancelToken()
        self._ids: torch.Tensor | None = None
        self._weight_reader: WeightReader | None = None
        self._slow: tuple[SlowMemory | None] | None = None
        self._steps = VariantSteps(network, variant)
        arguments = inspect.signature(network.forward).parameters
        self._cache_name = next((name for name in CACHE_NAMES if name in arguments), CACHE_NAMES[0])
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in arguments else {}
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

        def timed() -> RequestTiming:
            room = ids.shape[1] + max(new_tokens, COMPILING_STEPS + 1)
            if self._steps.begin(1, room):
                for _ in range(COMPILING_PASSES):
                    self._timed(ids, COMPILING_STEPS, cancel)
                    self._steps.begin(1, room)
            return self._timed(ids, new_tokens - 1, cancel)

        return self._explained(timed)

    def free_bytes(self) -> int:
        """Bytes a point may still take where the model lives, what is held back for reuse among them."""
        free = free_bytes(self._device)
        if free is None:
            return available_bytes() + max(0, resident_bytes() - self._resident_when_loaded)
        return free + held_back_bytes(self._device)

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Prefill sequences of these lengths on a fresh cache, then time each of `steps` decode steps of them all."""
        self._cancel = cancel
        sequences, room = len(lengths), max(lengths) + steps + 1

        def timed() -> BatchTiming:
            if self._steps.begin(sequences, room):
                for _ in range(COMPILING_PASSES):
                    self._timed_batch(lengths, min(steps, COMPILING_STEPS), seed, cancel)
                    self._steps.begin(sequences, room)
            return self._timed_batch(lengths, steps, seed, cancel)

        try:
            return self._explained(timed)
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
            held = {} if cache is None else {self._cache_name: cache}
            return network(input_ids=tokens, use_cache=True, **self._last_only, **held)

        run = Pass(network, forward, self._cache_of, ids, context, clocks_in_place=self._device.type == "cpu")
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
            self._cache_name,
            self._last_only,
            self.labels.threads,
            cancel,
            self._explained,
            self._synchronise,
            self._clock,
        )

    def _explained(self, timed: Callable[[], Timing]) -> Timing:
        """What `timed` returns; PointError where it fails, once the memory it took has been given back."""
        try:
            with torch.inference_mode():
                return timed()
        except (RuntimeError, MemoryError, ValueError, IndexError) as error:
            reason = _reason(error)
        self._steps.close()
        gc.collect()
        free_cached(self._device)
        raise PointError(reason)

    def _timed_batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """As `batch`; a prefill runs the head for the last position only, each step for every sequence."""
        network, clock, synchronise = self._network, self._clock, self._synchronise
        longest = max(lengths)
        ids = self._tokens(len(lengths), longest, seed)
        padding = None if min(lengths) == longest else _padding(lengths, self._device)
        columns = pass_columns(self.model, len(lengths), longest)
        # By index, which gathers the rows: for a slice of several sequences torch's half-width product on a CPU lays
        # the head out once for each of them (2.13: 16 rows by the Qwen3-0.6B head took 10 GB and a minute).
        last_only = {name: torch.tensor([-1], device=self._device) for name in self._last_only}
        cache = self._steps.cache
        given = self._given(len(lengths), steps, seed)
        start = clock()
        for first in range(0, longest, columns):
            cancel.check()
            chunk = slice(first, min(first + columns, longest))
            held = {} if cache is None else {self._cache_name: cache}
            out = network(input_ids=ids[:, chunk], use_cache=True, **last_only, **held, **_places(padding, chunk))
            cache = self._cache_of(out)
        token = given(out)
        synchronise()
        prefill_s = clock() - start
        held = {self._cache_name: cache}
        places = [_places(padding, slice(at, at + 1)) for at in range(longest, longest + steps + 1)]
        step_s = []
        for place in places[:steps]:
            cancel.check()
            synchronise()
            start = clock()
            out = self._steps.step(input_ids=token, use_cache=True, **held, **place)
            token = given(out)
            synchronise()
            step_s.append(clock() - start)
        _check_length(cache, longest + steps)
        if not self.model.routed_expert_bytes:
            return BatchTiming(prefill_s, tuple(step_s))
        with counted_experts(network, self.model.experts, self.model.experts_used) as touched:
            network(input_ids=token, use_cache=True, **held, **places[steps])
        return BatchTiming(prefill_s, tuple(step_s), tuple(touched))

    def _given(self, sequences: int, steps: int, seed: int) -> Callable[[Any], torch.Tensor]:
        """What makes of a pass's output the tokens of the next: those it chose, or with `drawn` others in their place.

        Choosing is part of a pass either way.
        """

        def chosen(out: Any) -> torch.Tensor:
            token: torch.Tensor = out.logits[:, -1:].argmax(-1)
            return token

        if not self._drawn:
            return chosen
        others = iter(self._tokens(sequences, steps + 1, seed).split(1, dim=1))

        def drawn(out: Any) -> torch.Tensor:
            chosen(out)
            return next(others)

        return drawn

    def _cache_of(self, out: Any) -> Any:
        cache = next((out[name] for name in CACHE_NAMES if out.get(name) is not None), None)
        if cache is None:
            raise PointError("the model gives back no cache to decode from")
        return cache

    def _timed(self, ids: torch.Tensor, steps: int, cancel: CancelToken) -> RequestTiming:
        network, clock, synchronise = self._network, self._clock, self._synchronise
        held = {} if self._steps.cache is None else {self._cache_name: self._steps.cache}
        given = self._given(1, steps, ids.shape[1])
        start = clock()
        out = network(input_ids=ids, use_cache=True, **self._last_only, **held)
        token = given(out)
        synchronise()
        ttft_s = clock() - start
        cache = self._cache_of(out)
        start = clock()
        for _ in range(steps):
            cancel.check()
            out = self._steps.step(input_ids=token, use_cache=True, **{self._cache_name: cache})
            token = given(out)
        synchronise()
        decode_s = clock() - start
        _check_length(cache, ids.shape[1] + steps)
        return RequestTiming(ttft_s, decode_s, steps)

    def close(self) -> None:
        """Free the model."""
        self._steps.close()
        self._steps = VariantSteps(None)
        self._network = self._weight_reader = None
        gc.collect()
        free_cached(self._device)


def _layers(network: Any) -> list[torch.nn.Module]:
    """The decoder layers: a list of as many modules as the settings say, else the longest there is."""
    lists = [list(module) for module in network.modules() if isinstance(module, torch.nn.ModuleList)]
    settings = getattr(network, "config", None)
    count = None if settings is None else getattr(settings.get_text_config(), "num_hidden_layers", None)
    return next((each for each in lists if len(each) == count), max(lists, key=len, default=[]))


def _padding(lengths: Sequence[int], device: torch.device) -> torch.Tensor:
    """Columns before the first token of each sequence, b × 1, where all end in the same column."""
    return torch.tensor([[max(lengths) - length] for length in lengths], device=device)


def _places(padding: torch.Tensor | None, columns: slice) -> dict[str, torch.Tensor]:
    """Which columns up to the last of `columns` hold tokens, and the positions of those in it; none without padding."""
    if padding is None:
        return {}
    positions = torch.arange(columns.stop, device=padding.device) - padding
    return {"attention_mask": (positions >= 0).long(), "position_ids": positions[:, columns].clamp(min=0)}


def _check_length(cache: Any, expected: int) -> None:
    """Prove that the timed steps ran on a cache that began empty: it holds the request's tokens and no others."""
    try:
        length = cache.get_seq_length()
    except (AttributeError, ValueError):
        # A cache without attention layers keeps a state of one size and counts no tokens.
        return
    if length != expected:
        raise PointError(f"the cache holds {length} tokens where the request had {expected}: the timing is void")


def _reason(error: BaseException) -> str:
    if is_out_of_memory(error):
        return "out of memory"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
