"""What the probe reads: arrays several times the last cache, filled with varied values by their readers."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import torch

from workbench.hardware.caches import ROOF_CACHES

CACHES = 4
LEAST_BYTES, MOST_BYTES = 512_000_000, 8_000_000_000
ACCELERATOR_BYTES = 4_000_000_000
"""What an accelerator reads at least: of less, the start of a kernel would be a share of its time."""
FREE_SHARE = 0.4
BLOCK_ELEMENTS = (1 << 20) - 3
"""Odd, so that no two pages hold the same values until 2^20 pages later."""
SEED = 21


def array_bytes(cache_bytes: int | None, free_bytes: int, quick: bool, least: int = LEAST_BYTES) -> int:
    """CACHES times the last-level cache (ROOF_CACHES in a quick probe), within FREE_SHARE of what is free."""
    wanted = max(least, (ROOF_CACHES if quick else CACHES) * (cache_bytes or 0))
    return max(1 << 20, int(min(wanted, MOST_BYTES, FREE_SHARE * free_bytes)))


def slices(total: int, parts: int, align: int = 4096) -> list[tuple[int, int]]:
    """Start and end of `parts` slices of `total` elements, each a multiple of `align` but the last."""
    each = max(align, total // parts // align * align)
    bounds = [min(total, i * each) for i in range(parts)] + [total]
    return [(start, end) for start, end in pairwise(bounds) if end > start]


def filled(count: int, dtype: torch.dtype, device: torch.device, threads: int) -> torch.Tensor:
    """`count` values of ±[0.5, 1.5): clear of zero, of denormal numbers and of pages that are shared.

    On the host each of `threads` threads writes a slice of its own first, so that the memory lies near it.
    """
    array = torch.empty(count, dtype=dtype, device=device)
    block = _block(dtype, device)

    def write(bounds: tuple[int, int]) -> None:
        start = bounds[0]
        while start < bounds[1]:
            place = start % BLOCK_ELEMENTS
            end = min(bounds[1], start + BLOCK_ELEMENTS - place)
            array[start:end].copy_(block[place : place + end - start])
            start = end

    if device.type == "cpu":
        in_own_threads([partial(write, bounds) for bounds in slices(count, threads)])
    else:
        write((0, count))
    return array


def in_own_threads(tasks: Sequence[Callable[[], object]]) -> None:
    """Run each task in a thread of its own, torch in each of them with one thread."""
    if len(tasks) == 1:
        tasks[0]()
        return
    with ThreadPoolExecutor(len(tasks), initializer=lambda: torch.set_num_threads(1)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


def _block(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(SEED)
    values = torch.empty(BLOCK_ELEMENTS).uniform_(0.5, 1.5, generator=generator)
    signs = torch.randint(0, 2, (BLOCK_ELEMENTS,), generator=generator, dtype=torch.int8)
    return values.mul_(signs.mul_(2).sub_(1)).to(device, dtype)
