"""The shapes of the matrices one token is multiplied by, as far as a model's widths and groups tell them."""

from workbench.errors import ModelError
from workbench.models.model import Model
from workbench.models.tensors import ROUTED

MATRICES_A_GATED_BLOCK = 3


def matrix_shapes(model: Model) -> tuple[tuple[int, int], ...]:
    """(rows, columns) of a layer's query, output, gate and down projections, and of the output head.

    A feed-forward width is what its group's parameters come to, three matrices a layer. Sizes the model does not
    tell are left out; at least the square of its hidden width is there. Raises ModelError where not even that is told.
    """
    h = model.hidden
    if h <= 0:
        raise ModelError(
            f"{model.name} does not tell its hidden width, so there are no matrices of its shape to multiply. "
            "Name another model."
        )
    shapes: list[tuple[int, int]] = []
    if model.attention_layers:
        q = model.attention_layers[0].heads * model.attention_layers[0].head_dim
        shapes += [(q, h), (h, q)]
    for f in _feed_forward_widths(model):
        shapes += [(f, h), (h, f)]
    if model.vocabulary:
        shapes.append((model.vocabulary, h))
    return tuple(shape for shape in shapes if min(shape) > 0) or ((h, h),)


def _feed_forward_widths(model: Model) -> list[int]:
    layers = max(1, len(model.kv_layers))
    found = []
    for group in model.groups:
        experts = model.experts if group.name == ROUTED else 1
        if group.name in ("feed-forward", ROUTED) and experts:
            found.append(round(group.parameters / (MATRICES_A_GATED_BLOCK * model.hidden * layers * experts)))
    return [width for width in found if width > 0]
