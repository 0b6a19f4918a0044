"""How many routed experts a pass really touches, counted from what its routers choose."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

ROUTER_NAMES = frozenset({"gate", "router"})
"""What transformers calls the module of a layer that chooses its experts."""


@contextmanager
def counted_experts(network: torch.nn.Module, experts: int, used: int) -> Iterator[list[int]]:
    """Count the experts that passes run meanwhile choose; yields a list that gets one count a layer and pass."""
    counts: list[int] = []

    def count(_module: Any, _given: Any, chosen: Any) -> None:
        indices = _indices(chosen, experts, used)
        if indices is not None:
            counts.append(int(torch.unique(indices).numel()))

    hooks = [router.register_forward_hook(count) for router in routers(network)]
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def routers(network: torch.nn.Module) -> list[torch.nn.Module]:
    """The modules that choose experts, without those inside another."""
    found: dict[str, torch.nn.Module] = {}
    for name, module in network.named_modules():
        parts = name.split(".")
        inside_one = any(".".join(parts[:i]) in found for i in range(1, len(parts)))
        if parts[-1] in ROUTER_NAMES and not inside_one:
            found[name] = module
    return list(found.values())


def _indices(chosen: Any, experts: int, used: int) -> torch.Tensor | None:
    """The experts chosen: indices where a router gives them, else the largest of its scores for each expert.

    None where it gives neither, as a gate that chooses no experts does.
    """
    tensors = [each for each in (chosen if isinstance(chosen, tuple | list) else (chosen,)) if torch.is_tensor(each)]
    for tensor in tensors:
        if not tensor.is_floating_point() and tensor.dtype is not torch.bool and tensor.shape[-1:] == (used,):
            return tensor
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.shape[-1:] == (experts,):
            return tensor.topk(used, dim=-1).indices
    return None
