"""Requests and batches, timed in their two phases on a cache that began empty."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from workbench.engines.device import Synchronise
from workbench.engines.engine import BatchTiming, PointError, RequestTiming
from workbench.engines.experts_touched import counted_experts
from workbench.engines.variant_steps import VariantSteps
from workbench.experiments.batch_plan import pass_columns
from workbench.experiments.gap.variant import Variant
from workbench.models.model import Model
from workbench.runner import CancelToken

CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""What transformers calls the cache: since 5.24, before it, and in state-space models."""
COMPILING_PASSES, COMPILING_STEPS = 2, 3
"""Requests that are not timed, and steps of each, so that what is compiled for a new cache and an emptied one is."""


class TimedPasses:
    """Prefills and decode steps of a network.

    The clock is read only after `synchronise` has returned, so that queued work is inside the timing. With `drawn` the
    tokens that decode steps are given are drawn beforehand and not those that the step before chose: synthetic weights
    choose the same few over and over, whose experts would still be in a cache.
    """

    def __init__(
        self,
        network: Any,
        model: Model,
        device: torch.device,
        synchronise: Synchronise,
        clock: Callable[[], float],
        tokens: Callable[[int, int, int], torch.Tensor],
        variant: Variant,
        drawn: bool,
    ) -> None:
        self._network = network
        self._model = model
        self._device = device
        self._synchronise = synchronise
        self._clock = clock
        self._tokens = tokens
        self._drawn = drawn
        self._steps = VariantSteps(network, variant)
        arguments = inspect.signature(network.forward).parameters
        self.cache_name = next((name for name in CACHE_NAMES if name in arguments), CACHE_NAMES[0])
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in arguments else {}

    def request(self, ids: torch.Tensor, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill a prompt, 1 × n, then decode `new_tokens - 1` steps; what is compiled for them is compiled before."""
        room = ids.shape[1] + max(new_tokens, COMPILING_STEPS + 1)
        if self._steps.begin(1, room):
            for _ in range(COMPILING_PASSES):
                self._timed(ids, COMPILING_STEPS, cancel)
                self._steps.begin(1, room)
        return self._timed(ids, new_tokens - 1, cancel)

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Prefill sequences of these lengths, then time each of `steps` decode steps of them all, as of a request."""
        sequences, room = len(lengths), max(lengths) + steps + 1
        if self._steps.begin(sequences, room):
            for _ in range(COMPILING_PASSES):
                self._timed_batch(lengths, min(steps, COMPILING_STEPS), seed, cancel)
                self._steps.begin(sequences, room)
        return self._timed_batch(lengths, steps, seed, cancel)

    def end(self) -> None:
        """Free what the last request or batch held."""
        self._steps.close()

    def close(self) -> None:
        """Free the network."""
        self._steps.close()
        self._steps = VariantSteps(None)
        self._network = None

    def _timed(self, ids: torch.Tensor, steps: int, cancel: CancelToken) -> RequestTiming:
        network, clock, synchronise = self._network, self._clock, self._synchronise
        held = {} if self._steps.cache is None else {self.cache_name: self._steps.cache}
        given = self._given(1, steps, ids.shape[1])
        start = clock()
        out = network(input_ids=ids, use_cache=True, **self.last_only, **held)
        token = given(out)
        synchronise()
        ttft_s = clock() - start
        cache = cache_of(out)
        start = clock()
        for _ in range(steps):
            cancel.check()
            out = self._steps.step(input_ids=token, use_cache=True, **{self.cache_name: cache})
            token = given(out)
        synchronise()
        decode_s = clock() - start
        _check_length(cache, ids.shape[1] + steps)
        return RequestTiming(ttft_s, decode_s, steps)

    def _timed_batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """A prefill runs the head for the last position only, each step for every sequence."""
        network, clock, synchronise = self._network, self._clock, self._synchronise
        longest = max(lengths)
        ids = self._tokens(len(lengths), longest, seed)
        padding = None if min(lengths) == longest else _padding(lengths, self._device)
        columns = pass_columns(self._model, len(lengths), longest)
        # By index, which gathers the rows: for a slice of several sequences torch's half-width product on a CPU lays
        # the head out once for each of them (2.13: 16 rows by the Qwen3-0.6B head took 10 GB and a minute).
        last_only = {name: torch.tensor([-1], device=self._device) for name in self.last_only}
        cache = self._steps.cache
        given = self._given(len(lengths), steps, seed)
        start = clock()
        for first in range(0, longest, columns):
            cancel.check()
            chunk = slice(first, min(first + columns, longest))
            held = {} if cache is None else {self.cache_name: cache}
            out = network(input_ids=ids[:, chunk], use_cache=True, **last_only, **held, **_places(padding, chunk))
            cache = cache_of(out)
        token = given(out)
        synchronise()
        prefill_s = clock() - start
        held = {self.cache_name: cache}
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
        if not self._model.routed_expert_bytes:
            return BatchTiming(prefill_s, tuple(step_s))
        with counted_experts(network, self._model.experts, self._model.experts_used) as touched:
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
        others = iter(torch.split(self._tokens(sequences, steps + 1, seed), 1, dim=1))

        def drawn(out: Any) -> torch.Tensor:
            chosen(out)
            return next(others)

        return drawn


def cache_of(out: Any) -> Any:
    """The cache that a pass gives back; raises PointError where there is none."""
    cache = next((out[name] for name in CACHE_NAMES if out.get(name) is not None), None)
    if cache is None:
        raise PointError("the model gives back no cache to decode from")
    return cache


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
