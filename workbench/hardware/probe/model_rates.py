"""The box's rates of this minute, on a loaded model's own weights: B, reading them once, and C, multiplying."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from workbench.quantity import Origin, Quantity, Unit

READ_PASSES = 4
PRODUCT_PASSES = 6
PRODUCT_ROWS = 1024
MOST_BYTES_READ = 4_000_000_000
"""A pass over more than this takes long and tells no more."""

Clock = Callable[[], float]
Synchronise = Callable[[], None]


@dataclass(frozen=True)
class _Kernel:
    """A pass that reads every byte once."""

    name: str
    run: Callable[[], None]


def read_rate(weights: Sequence[torch.Tensor], synchronise: Synchronise, clock: Clock = time.perf_counter) -> Quantity:
    """B: the best rate in bytes/s at which read-only kernels read each byte of `weights` once.

    Every kernel is tried with all threads and with one, since a busy neighbour stalls the first; the best goes on.
    """
    flat = _up_to([w.detach().view(-1) for w in weights], MOST_BYTES_READ)
    W = sum(w.numel() * w.element_size() for w in flat)
    all_threads = torch.get_num_threads()
    trials = [(kernel, threads) for kernel in _kernels(flat) for threads in {all_threads, 1}]

    def seconds(trial: tuple[_Kernel, int], passes: int) -> float:
        kernel, threads = trial
        torch.set_num_threads(threads)
        try:
            return _best_seconds(kernel.run, passes, synchronise, clock)
        finally:
            torch.set_num_threads(all_threads)

    first = {trial: seconds(trial, 1) for trial in trials}
    best = min(trials, key=lambda trial: first[trial])
    shortest = min(first[best], seconds(best, READ_PASSES))
    kernel, threads = best
    return Quantity(
        name="read rate",
        value=W / shortest,
        unit=Unit.BYTES_PER_SECOND,
        origin=Origin.MEASURED,
        symbol="B",
        source=f"{kernel.name} over the model's own weights, threads: {threads}, best of {READ_PASSES + 1}",
    )


def product_rate(weight: torch.Tensor, synchronise: Synchronise, clock: Clock = time.perf_counter) -> Quantity:
    """C: the best rate in FLOP/s of multiplying PRODUCT_ROWS rows by one of the model's matrices."""
    out_features, in_features = weight.shape
    rows = torch.ones(PRODUCT_ROWS, in_features, dtype=weight.dtype, device=weight.device)
    seconds = _best_seconds(
        lambda: _each(lambda w: torch.nn.functional.linear(rows, w), [weight]), PRODUCT_PASSES, synchronise, clock
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
    """The same bytes as integers, where they fill whole ones."""
    odd = (tensor.numel() * tensor.element_size()) % 4
    return tensor if odd else tensor.view(torch.int32)


def _kernels(flat: list[torch.Tensor]) -> list[_Kernel]:
    """Read-only passes over the same bytes; a float sum of half-width numbers is bound by its arithmetic."""
    integers = [_as_integers(w) for w in flat]
    kernels = [
        _Kernel("sum", lambda: _each(torch.sum, flat)),
        _Kernel("largest integer", lambda: _each(torch.amax, integers)),
    ]
    if flat[0].dtype == torch.float32:
        kernels.append(_Kernel("dot product", lambda: _each(lambda w: torch.dot(w, w), flat)))
    return kernels


def _each(kernel: Callable[[torch.Tensor], torch.Tensor], tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        kernel(tensor)
