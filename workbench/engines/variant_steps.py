"""How a loaded network's passes run in a variant: the cache they are given, and what runs a decode step."""

from typing import Any

import torch
from transformers import StaticCache

from workbench.engines.variant_network import variant_network
from workbench.experiments.gap.variant import AS_LOADED, Cache, Variant


class VariantSteps:
    """The cache of a request's or a batch's sequences, and the network as its decode steps are to be run.

    A preallocated cache is kept while sequences and length stay the same, and so is the graph compiled for it.
    """

    def __init__(self, network: Any, variant: Variant = AS_LOADED) -> None:
        self._network, self._variant = network, variant
        self._room = (0, 0)
        self._kept: Any = None
        self.step: Any = network

    def begin(self, sequences: int, tokens: int) -> bool:
        """Have an empty cache for so many tokens of each sequence; whether its steps are yet to be compiled."""
        if self._variant.cache is Cache.GROWING:
            return False
        if (sequences, tokens) == self._room:
            self._kept.reset()
            return False
        self.close()
        self._kept = StaticCache(config=self._network.config, max_cache_len=tokens)
        self._room = (sequences, tokens)
        if not self._variant.compiled:
            return False
        # Hooks, by which a pass is stopped, are no part of a graph.
        self.step = torch.compile(variant_network(self._network, AS_LOADED), dynamic=False)
        return True

    @property
    def cache(self) -> Any:
        """The empty cache; None where the model makes its own, which grows."""
        return self._kept

    def close(self) -> None:
        """Free the cache and what is compiled for it: torch would compile no more than a few graphs beside it."""
        if self._variant.compiled:
            torch._dynamo.reset()
        self._kept, self.step, self._room = None, self._network, (0, 0)
