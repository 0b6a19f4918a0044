"""A transformers cache that is filled at once to a given length and can be put back to it as often as needed."""

from collections.abc import Callable
from typing import Any

import torch

from workbench.experiments.gap.gap_plan import FILLED_FROM


class KeptCache:
    """The cache as it is now; `put_back` makes it that again, without a copy of the tensors.

    Caches grow by making new tensors, so the old ones stay as they were; counters that are tensors are copied.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self._before = [(each, _state(each)) for each in _layers(cache)]

    def put_back(self) -> None:
        """Make the cache what it was."""
        for each, state in self._before:
            each.__dict__.clear()
            each.__dict__.update(_copied(state))

    def share(self) -> None:
        """Let the kept state live in the tensors that the cache has grown into, so that it is held once."""
        for each, state in self._before:
            for name in ("keys", "values"):
                kept, grown = state.get(name), each.__dict__.get(name)
                if torch.is_tensor(kept) and torch.is_tensor(grown) and grown.shape[-2] > kept.shape[-2]:
                    state[name] = grown[..., : kept.shape[-2], :]


def filled_cache(prefilled: Callable[[torch.Tensor], Any], prompt: torch.Tensor, tokens: int) -> Any:
    """A cache that grows and holds so many tokens of each sequence; its positions repeat: no time depends on a value.

    `prefilled` makes a new cache of tokens, sequences × length; the first FILLED_FROM of `prompt` are given to it, or
    as many copies of the first one as are wanted, where its positions can't be repeated.
    """
    cache = prefilled(prompt[:, : min(FILLED_FROM, tokens)])
    return cache if _fill_to(cache, tokens) else prefilled(prompt[:, :1].expand(-1, tokens))


def _fill_to(cache: Any, tokens: int) -> bool:
    """Lengthen a cache that holds a short prompt to `tokens` by repeating its positions; whether it then holds them."""
    held = cache.get_seq_length()
    if held < tokens:
        for layer in _layers(cache):
            keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
            if not (torch.is_tensor(keys) and torch.is_tensor(values) and keys.ndim == 4 and keys.shape[-2] == held):
                continue
            window = getattr(layer, "sliding_window", None)
            length = tokens if window is None else min(tokens, window - 1)
            layer.keys, layer.values = _repeated(keys, length), _repeated(values, length)
            if isinstance(getattr(layer, "cumulative_length", None), int):
                layer.cumulative_length = tokens
    return bool(cache.get_seq_length() == tokens)


def _repeated(tensor: torch.Tensor, length: int) -> torch.Tensor:
    """Its positions over and over up to `length`, in memory of its own."""
    times = -(-length // tensor.shape[-2])
    return tensor.repeat(1, 1, times, 1)[..., :length, :].contiguous()


def _layers(cache: Any) -> list[Any]:
    return list(getattr(cache, "layers", ()))


def _state(each: Any) -> dict[str, Any]:
    return _copied(each.__dict__)


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.clone() if torch.is_tensor(value) and value.numel() == 1 else value for name, value in state.items()
    }
