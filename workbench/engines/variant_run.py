"""Decode steps and prefills of a network in a variant, and its logits beside those of the plain network."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import StaticCache

from workbench.ceilings.memory_fit import memory_need
from workbench.engines.device import Synchronise, free_cached
from workbench.engines.kept_cache import KeptCache, filled_cache
from workbench.engines.timed_passes import cache_of
from workbench.engines.variant_network import held_bytes, variant_network, weight_bytes_needed
from workbench.experiments.gap.gap_plan import FILLED_FROM
from workbench.experiments.gap.variant import AS_LOADED, Agreement, Cache, Variant, VariantRun
from workbench.models.model import DTYPE_BYTES, Model
from workbench.runner import CancelToken

PROMPTS, PROMPT_TOKENS, FORCED = 4, 16, 4
"""The prompts that outputs are compared on, and the tokens given after each, whatever is chosen."""
LOGIT_BYTES = DTYPE_BYTES["float32"]
SEED = 11


@dataclass(frozen=True)
class Sequences:
    """What a variant is run on: `batch` sequences that hold `tokens` each, and prompts of `prompt_tokens`."""

    tokens: int
    batch: int
    prompt_tokens: int
    vocabulary: int
    device: torch.device

    def ids(self, length: int, seed: int) -> torch.Tensor:
        """Varied tokens, sequences × length."""
        generator = torch.Generator().manual_seed(seed)
        # A graph is compiled for the kind of tensor as well, and inference's is another than autograd's.
        with torch.inference_mode():
            return torch.randint(0, self.vocabulary, (self.batch, length), generator=generator).to(self.device)


@dataclass(frozen=True)
class Plain:
    """The loaded model: its network, how it is called, and what turns an error of torch's into a PointError."""

    network: Any
    cache_name: str
    last_only: Mapping[str, Any]
    threads: int
    cancel: CancelToken
    explained: Callable[[Callable[[], Any]], Any]
    synchronise: Synchronise
    clock: Callable[[], float] = time.perf_counter


def bytes_needed(network: Any, model: Model, variant: Variant, on: Sequences) -> int:
    """Memory a variant takes beside the loaded model: weights of its own, its caches, a pass, and both's logits."""
    dtype = variant.dtype or str(next(network.parameters()).dtype).removeprefix("torch.")
    need = memory_need(model.in_dtype(dtype), on.tokens, 2, DTYPE_BYTES[dtype], on.batch, pass_tokens=on.prompt_tokens)
    logits = 2 * LOGIT_BYTES * on.vocabulary * max(PROMPTS, on.batch) * (1 + FORCED)
    return int(weight_bytes_needed(network, variant) + 2 * need.cache + need.working + logits)


class TorchVariant:
    """A variant; every method runs in the thread that loaded the model, and raises PointError where it can't be run."""

    def __init__(self, plain: Plain, variant: Variant, sequences: Sequences) -> None:
        self._plain, self._variant, self._on = plain, variant, sequences
        self._threads = variant.threads or plain.threads
        self._ids = sequences.ids(max(sequences.prompt_tokens, FILLED_FROM), SEED)
        self._logits: Sequence[torch.Tensor] = ()
        self._counted: list[tuple[Any, dict[str, Any]]] = []
        self._kept: KeptCache | None = None
        self._network = self._stepping = plain.network
        self._cache: Any = None

    def make_ready(self) -> None:
        """Make the network of its own and the cache that holds the context."""
        if self._variant != AS_LOADED:
            self._network = variant_network(self._plain.network, self._variant)
        self._stepping = torch.compile(self._network, dynamic=False) if self._variant.compiled else self._network
        self._cache = self._filled()
        if self._variant.cache is Cache.GROWING:
            self._kept = KeptCache(self._cache)

    @property
    def weight_bytes(self) -> int:
        """What its weights take."""
        return held_bytes(self._network)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prefill timed."""
        return self._on.prompt_tokens

    def step(self) -> float:
        """Seconds of a decode step."""
        return self._timed(self._step)

    def prefill(self) -> float:
        """Seconds of a prefill on a fresh cache; a preallocated one is allocated inside it."""
        ids = self._ids[:, : self.prompt_tokens]
        return self._timed(lambda: self._forward(self._network, ids, self._fresh()))

    def agreement(self, plain: VariantRun) -> Agreement:
        """How the logits compare after PROMPTS prompts and each of FORCED tokens after them."""
        assert isinstance(plain, TorchVariant)
        rms, choice, same = [], [], []
        for ours, theirs in zip(self._outputs(), plain._outputs(), strict=True):
            spread = theirs.std(-1)
            rms.append(((ours - theirs).pow(2).mean(-1).sqrt() / spread).max().item())
            chosen = ours.argmax(-1, keepdim=True)
            below = theirs.amax(-1) - theirs.gather(-1, chosen)[..., 0]
            choice.append((below / spread).max().item())
            same.append((chosen[..., 0] == theirs.argmax(-1)).float().mean().item())
        # NaN compares with nothing: what is not a number is as far off as can be.
        worst = max(each if each == each else float("inf") for each in rms)
        return Agreement(worst, max(choice), sum(same) / len(same), len(same) * self._on.batch)

    def close(self) -> None:
        """Free the variant's own weights and cache."""
        if self._variant.compiled:
            torch._dynamo.reset()
        self._network = self._stepping = self._cache = self._kept = None
        gc.collect()
        free_cached(self._on.device)

    def _outputs(self) -> Sequence[torch.Tensor]:
        """Logits in float32, sequences × vocabulary, of every position compared; the plain model's are kept."""
        if self._logits:
            return self._logits
        found: Sequence[torch.Tensor] = self._on_its_threads(self._all_logits)
        if self._variant == AS_LOADED:
            self._logits = found
        return found

    def _all_logits(self) -> Sequence[torch.Tensor]:
        found = []
        for at in range(-(-PROMPTS // self._on.batch)):
            ids = self._on.ids(PROMPT_TOKENS + FORCED, SEED + 1 + at)
            cache = self._fresh() if self._kept is not None else self._emptied()
            out = self._forward(self._network, ids[:, :PROMPT_TOKENS], cache)
            found.append(out.logits[:, -1].float())
            for place in range(PROMPT_TOKENS, PROMPT_TOKENS + FORCED):
                out = self._forward(self._stepping, ids[:, place : place + 1], cache_of(out))
                found.append(out.logits[:, -1].float())
        self._put_back()
        return found

    def _timed(self, run: Callable[[], Any]) -> float:
        plain = self._plain

        def timing() -> float:
            self._put_back()
            plain.synchronise()
            start = plain.clock()
            run()
            plain.synchronise()
            seconds = plain.clock() - start
            self._put_back()
            return seconds

        return float(self._on_its_threads(timing))

    def _on_its_threads(self, run: Callable[[], Any]) -> Any:
        """What `run` gives; always on the same number of threads, for which a graph is compiled."""
        torch.set_num_threads(self._threads)
        try:
            return self._plain.explained(run)
        finally:
            torch.set_num_threads(self._plain.threads)

    def _step(self) -> torch.Tensor:
        out = self._forward(self._stepping, self._ids[:, -1:], self._cache)
        token: torch.Tensor = out.logits[:, -1:].argmax(-1)
        return token

    def _forward(self, network: Any, ids: torch.Tensor, cache: Any) -> Any:
        self._plain.cancel.check()
        held = {} if cache is None else {self._plain.cache_name: cache}
        # Of strides of its own: a graph is compiled for those as well.
        ids = ids.clone(memory_format=torch.contiguous_format)
        return network(input_ids=ids, use_cache=True, **self._plain.last_only, **held)

    def _fresh(self) -> Any:
        """A new cache: None lets the model make its own, which grows."""
        if self._variant.cache is Cache.GROWING:
            return None
        return StaticCache(config=self._network.config, max_cache_len=self._length)

    @property
    def _length(self) -> int:
        """Tokens a preallocated cache has room for."""
        return max(self._on.tokens, PROMPT_TOKENS + FORCED) + 1

    def _filled(self) -> Any:
        """A cache that holds the context of every sequence."""
        tokens = self._on.tokens
        if self._variant.cache is Cache.GROWING:
            return filled_cache(lambda ids: cache_of(self._forward(self._network, ids, None)), self._ids, tokens)
        prompt = self._ids[:, : min(FILLED_FROM, tokens)]
        cache = cache_of(self._forward(self._network, prompt, self._fresh()))
        if any(getattr(layer, "is_sliding", True) for layer in cache.layers):
            cache = self._fresh()
            self._forward(self._network, self._ids[:, :1].expand(-1, tokens), cache)
        else:
            for layer in cache.layers:
                for tensor in (layer.keys, layer.values):
                    for first in range(FILLED_FROM, tokens, FILLED_FROM):
                        last = min(first + FILLED_FROM, tokens)
                        tensor[:, :, first:last].copy_(tensor[:, :, : last - first])
                layer.cumulative_length.fill_(tokens)
        self._counted = [(layer, _counters(layer)) for layer in cache.layers]
        return cache

    def _put_back(self) -> None:
        """Have the cache hold the context again: in place where a compiled graph knows its tensors."""
        if self._kept is not None:
            self._kept.put_back()
            return
        for layer, counters in self._counted:
            for name, value in counters.items():
                if torch.is_tensor(value):
                    getattr(layer, name).copy_(value)
                else:
                    setattr(layer, name, value)

    def _emptied(self) -> Any:
        """The same preallocated cache without tokens, so that what is compiled for it need not be again."""
        self._cache.reset()
        return self._cache


def _counters(layer: Any) -> dict[str, Any]:
    return {
        name: value.clone() if torch.is_tensor(value) else value
        for name, value in vars(layer).items()
        if "length" in name and (isinstance(value, int) or (torch.is_tensor(value) and value.numel() == 1))
    }
