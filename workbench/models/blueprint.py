"""What a model's class says of it before it has weights: its tensors, its settings in full, its cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.models.tensors import Tensor


@dataclass(frozen=True)
class CacheLayer:
    """One layer of the cache an engine makes: whether it keeps tokens, within which window, and a fixed state.

    `elements_per_token` is None where the engine's class would have to run to tell.
    """

    keeps_tokens: bool
    keeps_state: bool
    window: int | None
    elements_per_token: int | None


@dataclass(frozen=True)
class Blueprint:
    """Tensors in the dtype stated, settings with the class's defaults, the cache if known, and what is left out."""

    tensors: tuple[Tensor, ...]
    settings: Mapping[str, Any]
    cache: tuple[CacheLayer, ...] | None
    notes: tuple[str, ...] = ()
