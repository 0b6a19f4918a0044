"""The box's rates of this minute, on a loaded model's own weights: B, reading them once, and C, multiplying."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from workbench.hardware.machine import usable_cores
from workbench.quantity import Origin, Quantity, Unit

READ_PASSES = 4
PRODUCT_PASSES = 6
SHORT_READ_S = 0.25
MOST_SHORT_PASSES = 50
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


class WeightReader:
    """Reads a model's own weights: with every kernel at first, and then again with the one that was best.

    Every kernel is tried with the threads the model has, with all there may be, and with one, since a busy neighbour
    stalls the first.
    """

    def __init__(
        self, weights: Sequence[torch.Tensor], synchronise: Synchronise, clock: Clock = time.perf_counter
    ) -> None:
        self._flat = _up_to([w.detach().view(-1) for w in weights], MOST_BYTES_READ)
        self._bytes = sum(w.numel() * w.element_size() for w in self._flat)
        self._synchronise = synchronise
        self._clock = clock
        self._trials: tuple[tuple[_Kernel, int], ...] = ()

    def rate(self) -> Quantity:
        """B: the best rate in bytes/s at which read-only kernels read each byte of the weights once."""
        threads = {torch.get_num_threads(), usable_cores(), 1}
        first = {(kernel, n): self._seconds((kernel, n), 1)[0] for kernel in _kernels(self._flat) for n in threads}
        quickest = sorted(first, key=lambda trial: first[trial])
        best = quickest[0]
        # A thread count that one busy moment made look slow stays in the running.
        other = next((trial for trial in quickest if trial[1] != best[1]), None)
        self._trials = (best,) if other is None else (best, other)
        return self._best_of({trial: [first[trial], *self._seconds(trial, READ_PASSES)] for trial in self._trials})

    def rate_again(self) -> Quantity:
        """B of this moment, in about SHORT_READ_S and at least two passes."""
        if not self._trials:
            return self.rate()
        once = {trial: self._seconds(trial, 1) for trial in self._trials}
        best = min(once, key=lambda trial: once[trial][0])
        passes = max(1, min(MOST_SHORT_PASSES, int(SHORT_READ_S / max(once[best][0], 1e-9)) - 2))
        return self._best_of({best: [*once[best], *self._seconds(best, passes)]})

    def _seconds(self, trial: tuple[_Kernel, int], passes: int) -> list[float]:
        kernel, threads = trial
        all_threads = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return _seconds(kernel.run, passes, self._synchronise, self._clock)
        finally:
            torch.set_num_threads(all_threads)

    def _best_of(self, seconds: Mapping[tuple[_Kernel, int], Sequence[float]]) -> Quantity:
        trial = min(seconds, key=lambda trial: min(seconds[trial]))
        kernel, threads = trial
        return Quantity(
            name="read rate",
            value=self._bytes / min(seconds[trial]),
            unit=Unit.BYTES_PER_SECOND,
            origin=Origin.MEASURED,
            symbol="B",
            source=f"{kernel.name} over the model's own weights, threads: {threads}, best of {len(seconds[trial])}",
        )


def matrix_rate(weight: torch.Tensor, synchronise: Synchronise, clock: Clock = time.perf_counter) -> Quantity:
    """C: the best rate in FLOP/s of multiplying PRODUCT_ROWS rows by one of the model's matrices."""

    def product(rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(rows, weight)

    out_features, in_features = weight.shape
    return product_rate(product, (out_features, in_features), weight.dtype, weight.device, synchronise, clock)


def product_rate(
    product: Callable[[torch.Tensor], torch.Tensor],
    shape: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
    synchronise: Synchronise,
    clock: Clock = time.perf_counter,
) -> Quantity:
    """C: the best rate in FLOP/s of a product of PRODUCT_ROWS rows with a matrix of this shape, outputs × inputs."""
    out_features, in_features = shape
    rows = torch.ones(PRODUCT_ROWS, in_features, dtype=dtype, device=device)
    seconds = min(_seconds(lambda: product(rows), PRODUCT_PASSES, synchronise, clock))
    return Quantity(
        name="matrix product rate",
        value=2 * PRODUCT_ROWS * in_features * out_features / seconds,
        unit=Unit.FLOP_PER_SECOND,
        origin=Origin.MEASURED,
        symbol="C",
        source=f"{PRODUCT_ROWS} rows by a {in_features}×{out_features} matrix of the model, best of {PRODUCT_PASSES}",
    )


def _seconds(run: Callable[[], object], passes: int, synchronise: Synchronise, clock: Clock) -> list[float]:
    """Of each of `passes`, after one that is dropped; the clock is read only when the device has finished."""
    seconds = []
    for _ in range(passes + 1):
        synchronise()
        start = clock()
        run()
        synchronise()
        seconds.append(clock() - start)
    return seconds[1:]


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
