"""Weights that take the place of a model's own: the same shapes and bytes, filled as fast as memory allows."""

from collections.abc import Iterator

import torch

BLOCK_ELEMENTS = (1 << 22) - 3
"""Odd, so that no two pages of memory hold the same values until 2^22 pages later."""

SEED = 20
SMALLEST, LARGEST = 0.5, 1.5
EXPERTS = ("experts.", "_moe.")
"""What is in the names of routed experts' parameters in transformers, one or the other."""


def fill(model: torch.nn.Module, scale: float) -> None:
    """Fill every parameter: norm scales with one, the rest with ±`scale`·[0.5, 1.5).

    The magnitudes keep clear of zero and of denormal numbers in every dtype, which would time differently.
    Every parameter's memory is written, so that none of it is a shared page. Where tokens are routed to experts, the
    embedding is ±[0.5, 1.5): were it drowned by what layers add, all tokens would become alike and go to the same
    few experts, while those of a trained model go to all of them.
    """
    tokens = _embedding_of_routed(model)
    blocks: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}
    offset = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if _is_norm_scale(name, parameter):
                parameter.fill_(1.0)
                continue
            key = (parameter.device, parameter.dtype)
            if key not in blocks:
                blocks[key] = _block(*key)
            offset = _fill_from(parameter.view(-1), blocks[key], offset, 1.0 if parameter is tokens else scale)


def _embedding_of_routed(model: torch.nn.Module) -> torch.Tensor | None:
    """The embedding of a network with routed experts; None of any other."""
    if not any(each in name for name, _ in model.named_parameters() for each in EXPERTS):
        return None
    embedding = getattr(model, "get_input_embeddings", lambda: None)()
    return getattr(embedding, "weight", None)


def _is_norm_scale(name: str, parameter: torch.nn.Parameter) -> bool:
    return parameter.ndim == 1 and "norm" in name and name.endswith("weight")


def _block(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(SEED)
    block = torch.empty(BLOCK_ELEMENTS).uniform_(SMALLEST, LARGEST, generator=generator)
    signs = torch.randint(0, 2, (BLOCK_ELEMENTS,), generator=generator, dtype=torch.int8)
    return block.mul_(signs.mul_(2).sub_(1)).to(device, dtype)


def _fill_from(target: torch.Tensor, block: torch.Tensor, offset: int, scale: float) -> int:
    """Write `block` from `offset` on, around its end, into `target`; the offset to go on from."""
    for start, count in _spans(target.numel(), offset):
        position = (offset + start) % BLOCK_ELEMENTS
        # A multiplication is spread over torch's threads, where a copy of the same bytes is not.
        torch.mul(block[position : position + count], scale, out=target[start : start + count])
    return (offset + target.numel()) % BLOCK_ELEMENTS


def _spans(total: int, offset: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < total:
        count = min(total - start, BLOCK_ELEMENTS - (offset + start) % BLOCK_ELEMENTS)
        yield start, count
        start += count
