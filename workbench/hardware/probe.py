"""The box's rates of this minute, on a loaded model's own weights: B, reading them once, and C, multiplying."""

import time
from collections.abc import Callable, Sequence

import torch

from workbench.quantity import Origin, Quantity, Unit

READ_PASSES = 4
PRODUCT_PASSES = 6
PRODUCT_ROWS = 1024
MOST_BYTES_READ = 4_000_000_000
"""A pass over more than this takes long and tells no more."""

Clock = Callable[[], float]
Synchronise = Callable[[], None]


def read_rate(weights: Sequence[torch.Tensor], synchronise: Synchronise, clock: Clock = time.perf_counter) -> Quantity:
    """B: the best rate in bytes/s at which read-only kernels read each byte of `weights` once."""
    flat = _up_to([w.detach().view(-1) for w in weights], MOST_BYTES_READ)
    W = sum(w.numel() * w.element_size() for w in flat)
    integers = [_as_integers(w) for w in flat]
    passes: dict[str, Callable[[], None]] = {"sum": lambda: _each(torch.sum, flat)}
    passes["largest integer"] = lambda: _each(torch.amax, integers)
    if flat[0].dtype == torch.float32:
        passes["dot product"] = lambda: _each(lambda w: torch.dot(w, w), flat)
    seconds = {name: _best_seconds(run, READ_PASSES, synchronise, clock) for name, run in passes.items()}
    kernel = min(seconds, key=lambda name: seconds[name])
    return Quantity(
        name="read rate",
        value=W / seconds[kernel],
        unit=Unit.BYTES_PER_SECOND,
        origin=Origin.MEASURED,
        symbol="B",
        source=f"{kernel} over the model's own weights, {torch.get_num_threads()} threads, best of {READ_PASSES}",
    )


def product_rate(weight: torch.Tensor, synchronise: Synchronise, clock: Clock = time.perf_counter) -> Quantity:
    """C: the best rate in FLOP/s of multiplying PRODUCT_ROWS rows by one of the model's matrices."""
    out_features, in_features = weight.shape
    rows = torch.ones(PRODUCT_ROWS, in_features, dtype=weight.dtype, device=weight.device)
    seconds = _best_seconds(
        lambda: _discard(torch.nn.functional.linear(rows, weight)), PRODUCT_PASSES, synchronise, clock
    )
    return Quantity(
        name="matrix product rate",
        value=2 * PRODUCT_ROWS * in_features * out_features / seconds,
        unit=Unit.FLOP_PER_SECOND,
        origin=Origin.MEASURED,
        symbol="C",
        source=f"{PRODUCT_ROWS} rows by a {in_features}×{out_features} matrix of the model, best of {PRODUCT_PASSES}",
    )


def _best_seconds(run: Callable[[], None], passes: int, synchronise: Synchronise, clock: Clock) -> float:
    """The shortest of `passes`, after one that is dropped; the clock is read only when the device has finished."""
    seconds = []
    for _ in range(passes + 1):
        synchronise()
        start = clock()
        run()
        synchronise()
        seconds.append(clock() - start)
    return min(seconds[1:])


def _up_to(tensors: list[torch.Tensor], most: int) -> list[torch.Tensor]:
    taken: list[torch.Tensor] = []
    total = 0
    for tensor in tensors:
        total += tensor.numel() * tensor.element_size()
        if taken and total > most:
            break
        taken.append(tensor)
    return taken


def _as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes as integers: a float sum of half-width numbers is bound by its arithmetic."""
    odd = (tensor.numel() * tensor.element_size()) % 4
    return tensor if odd else tensor.view(torch.int32)


def _each(kernel: Callable[[torch.Tensor], torch.Tensor], tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        kernel(tensor)


def _discard(_: torch.Tensor) -> None:
    pass
