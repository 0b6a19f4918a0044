"""Decode steps and prefills of a network in a variant, and its logits beside those of the plain network."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import StaticCache

from workbench.engines.device import Synchronise, free_cached
from workbench.engines.engine import PointError
from workbench.engines.kept_cache import FILLED_FROM, KeptCache, fill_to
from workbench.engines.variant_network import variant_network
from workbench.experiments.gap.variant import AS_LOADED, Agreement, Cache, Variant, VariantRun
from workbench.runner import CancelToken

MOST_PROMPT = 256
"""Tokens of the prefill timed: a longer one takes long, and its time grows with its tokens."""
PROMPTS, PROMPT_TOKENS, FORCED = 4, 16, 4
"""The prompts that outputs are compared on, and the tokens given after each, whatever is chosen."""
SEED = 11


@dataclass(frozen=True)
class Sequences:
    """What a variant is run on: `batch` sequences that hold `tokens` each."""

    tokens: int
    batch: int
    vocabulary: int
    device: torch.device

    def ids(self, length: int, seed: int) -> torch.Tensor:
        """Varied tokens, sequences × length."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, self.vocabulary, (self.batch, length), generator=generator).to(self.device)


class TorchVariant:
    """A variant made ready; every method runs in the thread that loaded the model."""

    def __init__(
        self,
        network: Any,
        variant: Variant,
        sequences: Sequences,
        cache_name: str,
        last_only: dict[str, Any],
        threads: int,
        cancel: CancelToken,
        synchronise: Synchronise,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._threads_before = threads
        self._threads = variant.threads or threads
        self._variant, self._on, self._cancel = variant, sequences, cancel
        self._cache_name, self._last_only = cache_name, last_only
        self._synchronise, self._clock = synchronise, clock
        loaded = {id(parameter) for parameter in network.parameters()}
        loaded.update(id(buffer) for buffer in network.buffers())
        self._network = network if variant == AS_LOADED else variant_network(network, variant)
        self.bytes_held = sum(
            each.numel() * each.element_size()
            for each in (*self._network.parameters(), *self._network.buffers())
            if id(each) not in loaded
        )
        self._stepping = torch.compile(self._network, dynamic=False) if variant.compiled else self._network
        self._ids = sequences.ids(max(self.prompt_tokens, FILLED_FROM), SEED)
        with torch.inference_mode():
            self._cache = self._filled()
            self._kept = KeptCache(self._cache) if variant.cache is Cache.GROWING else None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prefill timed."""
        return min(self._on.tokens, MOST_PROMPT)

    def step(self) -> float:
        """Seconds of a decode step."""
        self._cancel.check()
        return self._timed(self._step)

    def prefill(self) -> float:
        """Seconds of a prefill on a fresh cache; a preallocated one is allocated inside it."""
        self._cancel.check()
        ids = self._ids[:, : self.prompt_tokens]
        return self._timed(lambda: self._forward(self._network, ids, self._fresh()))

    def agreement(self, plain: VariantRun) -> Agreement:
        """How the logits compare after PROMPTS prompts and each of FORCED tokens after them."""
        assert isinstance(plain, TorchVariant)
        rms, choice, same = [], [], []
        for ours, theirs in zip(self._all_logits(), plain._all_logits(), strict=True):
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
        torch.set_num_threads(self._threads_before)
        gc.collect()
        free_cached(self._on.device)

    def _all_logits(self) -> Sequence[torch.Tensor]:
        """Logits in float32, sequences × vocabulary, of every position compared."""
        found = []
        with torch.inference_mode():
            for round_ in range(-(-PROMPTS // self._on.batch)):
                self._cancel.check()
                ids = self._on.ids(PROMPT_TOKENS + FORCED, SEED + 1 + round_)
                cache = self._fresh() if self._kept is not None else self._emptied()
                out = self._forward(self._network, ids[:, :PROMPT_TOKENS], cache)
                found.append(out.logits[:, -1].float())
                for at in range(PROMPT_TOKENS, PROMPT_TOKENS + FORCED):
                    out = self._forward(self._stepping, ids[:, at : at + 1], self._cache_of(out))
                    found.append(out.logits[:, -1].float())
            self._put_back()
        return found

    def _timed(self, run: Callable[[], Any]) -> float:
        torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                self._put_back()
                self._synchronise()
                start = self._clock()
                run()
                self._synchronise()
                seconds = self._clock() - start
                self._put_back()
                return seconds
        finally:
            torch.set_num_threads(self._threads_before)

    def _step(self) -> torch.Tensor:
        out = self._forward(self._stepping, self._ids[:, -1:], self._cache)
        token: torch.Tensor = out.logits[:, -1:].argmax(-1)
        return token

    def _forward(self, network: Any, ids: torch.Tensor, cache: Any) -> Any:
        held = {} if cache is None else {self._cache_name: cache}
        return network(input_ids=ids, use_cache=True, **self._last_only, **held)

    def _cache_of(self, out: Any) -> Any:
        cache = out.get(self._cache_name)
        if cache is None:
            raise PointError("the model gives back no cache to decode from")
        return cache

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
        """A cache that holds the context of every sequence; its positions repeat, since the time depends on no value."""
        tokens = self._on.tokens
        prompt = self._ids[:, : min(FILLED_FROM, tokens)]
        cache = self._cache_of(self._forward(self._network, prompt, self._fresh()))
        if self._variant.cache is Cache.GROWING:
            if not fill_to(cache, tokens):
                repeated = self._ids[:, :1].expand(-1, tokens)
                cache = self._cache_of(self._forward(self._network, repeated, None))
            return cache
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
        for layer, counters in getattr(self, "_counted", ()):
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
