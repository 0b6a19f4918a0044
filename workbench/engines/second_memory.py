"""Weights on another memory than the one a network runs from: which parts' they are, and how fast they come."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from workbench.engines.device import Synchronise
from workbench.engines.recorded_pass import modules_by_part
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Part
from workbench.hardware.probe.model_rates import WeightReader
from workbench.quantity import Origin, Quantity, Unit

COPIES = 5
MOST_BYTES_COPIED = 512_000_000

Clock = Callable[[], float]


def is_elsewhere(tensor: torch.Tensor, device: torch.device) -> bool:
    """Whether a tensor lies on another device; what accelerate keeps on the host until it is used is on "meta"."""
    return tensor.device.type != device.type or (tensor.device.index or 0) != (device.index or 0)


def shares_elsewhere(network: torch.nn.Module, device: torch.device) -> Mapping[Part, float]:
    """Of each part with weights the share of their bytes that lies elsewhere; empty where all lie on `device`."""
    held: dict[Part, list[int]] = {}
    for module, part in modules_by_part(network).items():
        if part not in (Part.WEIGHTS, Part.HEAD):
            continue
        counted = held.setdefault(part, [0, 0])
        for weight in _weights(module):
            size = weight.numel() * weight.element_size()
            counted[0] += size if is_elsewhere(weight, device) else 0
            counted[1] += size
    return {part: elsewhere / total for part, (elsewhere, total) in held.items() if elsewhere}


def slow_memory(
    network: torch.nn.Module, device: torch.device, synchronise: Synchronise, clock: Clock = time.perf_counter
) -> SlowMemory | None:
    """What lies elsewhere and the rate it comes at; None where all weights lie on `device`.

    What accelerate offloads is copied to the device in every pass, so its rate is that of the copy; what lives on
    another device is read there.
    """
    shares = shares_elsewhere(network, device)
    if not shares:
        return None
    if offloaded := _host_copies(network):
        rate = copy_rate(offloaded, device, synchronise, clock)
        return SlowMemory(shares, rate, "weights on the host, copied to the device in every pass")
    others = [weight for weight in _weights(network) if is_elsewhere(weight, device) and weight.device.type != "meta"]
    if not others:
        return None
    return SlowMemory(shares, WeightReader(others, synchronise, clock).rate(), f"weights on {others[0].device}")


def copy_rate(
    weights: Sequence[torch.Tensor], device: torch.device, synchronise: Synchronise, clock: Clock = time.perf_counter
) -> Quantity:
    """Bytes a second at which these tensors come to the device; the best of COPIES."""
    chosen: list[torch.Tensor] = []
    for weight in sorted(weights, key=torch.Tensor.numel, reverse=True):
        if chosen and sum(map(_bytes, [*chosen, weight])) > MOST_BYTES_COPIED:
            break
        chosen.append(weight)

    def seconds() -> float:
        start = clock()
        for weight in chosen:
            weight.to(device, copy=True)
        synchronise()
        return clock() - start

    best = min(seconds() for _ in range(COPIES))
    name = "rate at which offloaded weights come to the device"
    return Quantity(
        name,
        sum(map(_bytes, chosen)) / best,
        Unit.BYTES_PER_SECOND,
        Origin.MEASURED,
        "B_slow",
        source=f"the best of {COPIES} copies of the model's own weights",
    )


def _bytes(weight: torch.Tensor) -> int:
    return weight.numel() * weight.element_size()


def _weights(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Parameters, and the buffers that hold packed weights: those with rows and columns."""
    yield from module.parameters()
    yield from (buffer for buffer in module.buffers() if buffer.ndim > 1)


def _host_copies(network: torch.nn.Module) -> list[torch.Tensor]:
    """The tensors that accelerate's hooks keep in the place of those on "meta"."""
    found = []
    for module in network.modules():
        hook = getattr(module, "_hf_hook", None)
        for each in getattr(hook, "hooks", (hook,)):
            kept = getattr(each, "weights_map", None)
            if kept is not None:
                own = module.named_parameters(recurse=False)
                found += [kept[name] for name, weight in own if weight.device.type == "meta"]
    return found
