"""The torch engine: transformers models, each request timed in its two phases."""

import gc
import inspect
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

# Read when transformers is imported: no hub is asked, and no progress bar is drawn over a table or a screen.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
import transformers

from workbench.engines.device import (
    Synchronise,
    choose_device,
    device_name,
    free_bytes,
    free_cached,
    synchroniser,
)
from workbench.engines.engine import BoxRates, EngineLabels, PointError, RequestTiming
from workbench.engines.loading import is_out_of_memory, load_model
from workbench.experiments.plan import Plan, check_memory
from workbench.experiments.settings import Weights
from workbench.hardware.machine import resident_bytes, usable_cores
from workbench.hardware.probe.model_rates import WeightReader, product_rate
from workbench.models.model import Model, ModelKind
from workbench.quantity import Quantity
from workbench.runner import CancelToken

ENGINE = "transformers"
CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""What transformers calls the cache: since 5.24, before it, and in state-space models."""
MOST_HELD_BACK = 256_000_000
"""Bytes the C library may keep between requests: giving back less than this would cost the next one page faults."""


def load(planned: Plan, cancel: CancelToken) -> "TorchModel":
    """Load the plan's model in this thread, which is then the one that runs it."""
    threads = planned.settings.threads or usable_cores()
    torch.set_num_threads(threads)
    device = choose_device(planned.settings.device)
    cancel.check()
    free = free_bytes(device)
    check_memory(planned if free is None else replace(planned, available=free))
    network = load_model(planned, device)
    labels = EngineLabels(
        engine=ENGINE,
        engine_version=f"{transformers.__version__}, torch {torch.__version__}",
        quantisation=_quantisation(planned),
        dtype=planned.settings.dtype,
        device=device_name(device),
        threads=threads,
    )
    return TorchModel(network, planned.resident, labels, device, synchroniser(device))


def _quantisation(planned: Plan) -> str:
    """How the weights are stored, where they are the model's own; this engine computes in the plan's dtype."""
    stored = planned.model.quantisation
    if planned.weights is Weights.SYNTHETIC:
        return "none"
    return f"{stored}, dequantised" if planned.model.kind is ModelKind.GGUF else stored


class TorchModel:
    """A transformers model in memory; every method is called in the thread that loaded it.

    The clock is read only after `synchronise` has returned, so that queued work is inside the timing.
    """

    def __init__(
        self,
        network: Any,
        model: Model,
        labels: EngineLabels,
        device: torch.device,
        synchronise: Synchronise,
        clock: Callable[[], float] = time.perf_counter,
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
        arguments = inspect.signature(network.forward).parameters
        self._cache_name = next((name for name in CACHE_NAMES if name in arguments), CACHE_NAMES[0])
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in arguments else {}
        self._resident_when_loaded = resident_bytes()
        for layer in _layers(network):
            layer.register_forward_pre_hook(lambda *_: self._cancel.check())

    def box_rates(self) -> BoxRates:
        """Measure B by reading the model's own weights, C by multiplying with the widest of its matrices."""
        head = self._network.get_output_embeddings()
        embedding = self._network.get_input_embeddings()
        weights = list(self._network.parameters())
        tables = {id(module.weight) for module in (head, embedding) if module is not None}
        matrices = [w for w in weights if w.ndim == 2 and id(w) not in tables] or [w for w in weights if w.ndim == 2]
        with torch.inference_mode():
            return BoxRates(
                read=self._reader().rate(),
                product=product_rate(max(matrices, key=lambda w: w.numel()), self._synchronise, self._clock),
            )

    def read_again(self) -> Quantity:
        """B of this moment, in about a quarter of a second."""
        with torch.inference_mode():
            return self._reader().rate_again()

    def _reader(self) -> WeightReader:
        if self._weight_reader is None:
            weights = list(self._network.parameters())
            self._weight_reader = WeightReader(weights, self._synchronise, self._clock)
        return self._weight_reader

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Draw the next request's tokens; varied, since a router sends equal tokens to the same few experts."""
        if resident_bytes() - self._resident_when_loaded > MOST_HELD_BACK:
            free_cached(self._device)
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(0, self.model.vocabulary, (1, prompt_tokens), generator=generator)
        self._ids = ids.to(self._device)
        self._synchronise()

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill the prepared prompt on a fresh cache, then decode `new_tokens - 1` steps on that cache."""
        ids = self._ids
        assert ids is not None, "prepare comes before request"
        self._cancel = cancel
        try:
            with torch.inference_mode():
                return self._timed(ids, new_tokens - 1, cancel)
        except (RuntimeError, MemoryError, ValueError, IndexError) as error:
            reason = _reason(error)
        finally:
            self._ids = None
        gc.collect()
        free_cached(self._device)
        raise PointError(reason)

    def _timed(self, ids: torch.Tensor, steps: int, cancel: CancelToken) -> RequestTiming:
        network, clock, synchronise = self._network, self._clock, self._synchronise
        start = clock()
        out = network(input_ids=ids, use_cache=True, **self._last_only)
        token = out.logits[:, -1:].argmax(-1)
        synchronise()
        ttft_s = clock() - start
        cache = next((out[name] for name in CACHE_NAMES if out.get(name) is not None), None)
        if cache is None:
            raise PointError("the model gives back no cache to decode from")
        start = clock()
        for _ in range(steps):
            cancel.check()
            out = network(input_ids=token, use_cache=True, **{self._cache_name: cache})
            token = out.logits[:, -1:].argmax(-1)
        synchronise()
        decode_s = clock() - start
        _check_length(cache, ids.shape[1] + steps)
        return RequestTiming(ttft_s, decode_s, steps)

    def close(self) -> None:
        """Free the model."""
        self._network = self._weight_reader = None
        gc.collect()
        free_cached(self._device)


def _layers(network: Any) -> list[torch.nn.Module]:
    """The decoder layers: the longest list of modules there is."""
    lists = [module for module in network.modules() if isinstance(module, torch.nn.ModuleList)]
    return max((list(modules) for modules in lists), key=len, default=[])


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
