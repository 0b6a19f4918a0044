"""The same network in a variant: what is unchanged is shared with it, what is changed is its own."""

import copy
from typing import Any

import torch

from workbench.engines.huge_pages import empty_int8
from workbench.engines.int8_linear import Int8Linear, fits_int8, int8_bytes
from workbench.experiments.gap.variant import Stored, Variant


def weight_bytes_needed(network: Any, variant: Variant) -> int:
    """Memory that the variant's own weights take."""
    packed = _packed(network) if variant.stored is Stored.INT8 else {}
    dtype = _dtype(network, variant)
    inside = {id(parameter) for each in packed.values() for parameter in each.parameters()}
    kept = {id(p): p for p in network.parameters() if id(p) not in inside or _is_table(network, p)}
    copied = sum(p.numel() * dtype.itemsize for p in kept.values() if p.is_floating_point() and p.dtype != dtype)
    return int(copied) + int8_bytes(packed.values())


def variant_network(network: Any, variant: Variant) -> Any:
    """A network of its own modules, hooks left out, on the tensors of `network` where they are not changed."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    own = copy.deepcopy(network, shared)
    for module in own.modules():
        module._forward_pre_hooks.clear()
    apply_variant(own, variant)
    return own.eval()


def apply_variant(network: Any, variant: Variant) -> None:
    """Change the network itself; each layer that is packed frees what it was packed from, where nobody else holds it.

    Buffers keep their dtype: rotary frequencies lose too much in half width.
    Raises ValueError or ImportError for an attention implementation that the model doesn't have.
    """
    dtype = _dtype(network, variant)
    if variant.stored is Stored.INT8:
        _pack(network)
    _cast(network, dtype)
    network.config.dtype = dtype
    if variant.attention is not None:
        network.set_attn_implementation(variant.attention)


def held_bytes(network: Any) -> int:
    """What its weights take, packed ones and other buffers among them."""
    return sum(each.numel() * each.element_size() for each in (*network.parameters(), *network.buffers()))


def packed_weights(network: Any) -> list[torch.Tensor]:
    """The matrices of its layers that are packed."""
    return [module.packed for module in network.modules() if is_packed(module)]


def is_packed(module: Any) -> bool:
    """Whether it is a linear layer held in another form than it was loaded in."""
    return isinstance(module, Int8Linear)


def _dtype(network: Any, variant: Variant) -> torch.dtype:
    found: torch.dtype = next(network.parameters()).dtype if variant.dtype is None else getattr(torch, variant.dtype)
    return found


def _packed(network: Any) -> dict[str, torch.nn.Linear]:
    return {name: module for name, module in network.named_modules() if fits_int8(module)}


def _is_table(network: Any, parameter: torch.nn.Parameter) -> bool:
    """Whether it is the embedding table, of which single rows are read, packed head or not."""
    table = network.get_input_embeddings()
    return table is not None and parameter is table.weight


def _pack(network: Any) -> None:
    linears = _packed(network)
    here = [name for name, linear in linears.items() if linear.weight.device.type == "cpu"]
    rooms = dict(zip(here, empty_int8([linears[name].weight.shape for name in here]), strict=True))
    for name, linear in linears.items():
        owner = network.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], Int8Linear(linear, rooms.get(name)))


def _cast(network: Any, dtype: torch.dtype) -> None:
    """Give the network parameters of its own where they are of another dtype; a tied one stays tied."""
    cast: dict[int, torch.nn.Parameter] = {}
    for module in network.modules():
        for name, parameter in module._parameters.items():
            if parameter is None or not parameter.is_floating_point() or parameter.dtype == dtype:
                continue
            if id(parameter) not in cast:
                cast[id(parameter)] = torch.nn.Parameter(parameter.detach().to(dtype))
            module._parameters[name] = cast[id(parameter)]
