"""A model whose linear layers are held in 8 bits, as an engine that packs them on loading has it."""

from dataclasses import replace

from workbench.models.model import Model, Read, TensorGroup
from workbench.models.tensors import EMBEDDING, HEAD, SHARED

INT8 = "int8"
SCALE_BYTES = 2
"""Of each output of a layer."""
UNPACKED_BYTES = 2
"""Of a weight that is unpacked to bfloat16 for a product of many rows."""
LINEAR = ("attention projections", "feed-forward", SHARED, HEAD)
"""Groups that are linear layers; routed experts are stacks of matrices, and a router is no layer of its own."""


def in_int8(model: Model) -> Model:
    """The model with a byte for each weight of its linear layers, and a scale for each of their outputs.

    Outputs are counted as if every matrix had the hidden width, which is most of them. A table that is the output head
    too stays as it is for its rows to be looked up, and is packed once more as the head.
    """
    groups: list[TensorGroup] = []
    for group in model.groups:
        if group.name in LINEAR:
            groups.append(_packed(group, model.hidden))
        elif group.name == EMBEDDING and group.read is Read.ALL:
            groups.append(_packed(replace(group, name=HEAD), model.hidden))
            groups.append(replace(group, read=Read.ONE_ROW, rows=model.vocabulary))
        else:
            groups.append(group)
    return replace(model, groups=tuple(groups))


def unpacked_beside(model: Model, element_bytes: int) -> int:
    """Bytes that such a model takes before its layers are packed one by one, beyond those it takes afterwards."""
    packed = [group for group in model.groups if INT8 in group.types]
    tied = element_bytes * model.head_parameters if model.tied_embeddings else 0
    return max(0, sum(element_bytes * group.parameters - group.bytes for group in packed) - tied)


def _packed(group: TensorGroup, hidden: int) -> TensorGroup:
    n = group.parameters
    return replace(group, types=(INT8,), bytes=n + SCALE_BYTES * n // hidden)
