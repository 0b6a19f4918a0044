"""Matrices in one region: where they lie, that none overlaps another, and ordinary ones without huge pages."""

import mmap

import pytest
import torch

from workbench.engines.huge_pages import empty_int8

SHAPES = [torch.Size(shape) for shape in ((32, 64), (96, 32), (64, 64))]


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="no huge pages can be asked for here")
def test_matrices_lie_side_by_side_in_storages_of_their_own() -> None:
    first, *others = tensors = empty_int8(SHAPES)
    ends = [each.data_ptr() + each.numel() for each in tensors]
    assert [each.data_ptr() for each in others] == ends[:-1]
    assert [each.untyped_storage().nbytes() for each in tensors] == [shape.numel() for shape in SHAPES]
    for value, each in enumerate(tensors):
        each.fill_(value)
    assert [set(each.flatten().tolist()) for each in tensors] == [{0}, {1}, {2}]
    del others, tensors
    assert first.shape == SHAPES[0]
    assert first.sum() == 0


def test_without_huge_pages_they_are_ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert [(each.shape, each.dtype) for each in empty_int8(SHAPES)] == [(shape, torch.int8) for shape in SHAPES]
    assert empty_int8([]) == []
