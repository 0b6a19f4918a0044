"""Matrices side by side on huge pages: reading many small ones, a core waits for addresses nearly as long as for bytes.

On two cores of a server under Linux products of one row with 2 to 3 MB each read a quarter more a second from them.
"""

import mmap
from collections.abc import Sequence
from itertools import accumulate

import torch


def empty_int8(shapes: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
    """Matrices of int8 in the host's memory, rows × columns, not filled; on ordinary pages where there are no huge ones.

    Each has a storage of its own in the one region, which is freed with the last of them.
    """
    sizes = [rows * columns for rows, columns in shapes]
    if not sizes or not hasattr(mmap, "MADV_HUGEPAGE"):
        return [torch.empty(shape, dtype=torch.int8) for shape in shapes]
    region = mmap.mmap(-1, sum(sizes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        region.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        pass  # A kernel built without them has the same memory on ordinary pages.
    firsts = accumulate(sizes[:-1], initial=0)
    return [
        torch.frombuffer(region, dtype=torch.int8, count=size, offset=first).view(shape)
        for shape, size, first in zip(shapes, sizes, firsts, strict=True)
    ]
