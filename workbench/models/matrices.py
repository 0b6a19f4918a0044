"""The shapes of the matrices one token is multiplied by, as far as a model's widths and groups tell them."""

from workbench.errors import ModelError
from workbench.models.model import Model
from workbench.models.tensors import ROUTED, SHARED

FEED_FORWARD = "feed-forward"
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
    for f in filter(None, (feed_forward_width(model), routed_width(model))):
        shapes += [(f, h), (h, f)]
    if model.vocabulary:
        shapes.append((model.vocabulary, h))
    return tuple(shape for shape in shapes if min(shape) > 0) or ((h, h),)


def feed_forward_width(model: Model) -> int:
    """f of a dense layer's gate, up and down projections; 0 where the model has none."""
    return _width(model, FEED_FORWARD, 1)


def routed_width(model: Model) -> int:
    """f of one routed expert's; 0 where the model has none."""
    return _width(model, ROUTED, model.experts)


def shared_width(model: Model) -> int:
    """f of a routed layer's shared experts, all together; 0 where the model has none."""
    return _width(model, SHARED, 1) * len(model.kv_layers) // routed_layers(model) if routed_layers(model) else 0


def routed_layers(model: Model) -> int:
    """How many of the layers have routed experts: all that are not dense, by the width its settings give an expert."""
    f, layers = routed_width(model), len(model.kv_layers)
    config = model.config or {}
    told = config.get("moe_intermediate_size") or (config.get("text_config") or {}).get("moe_intermediate_size")
    return min(layers, round(layers * f / told)) if f and isinstance(told, int) and told > 0 else layers if f else 0


def _width(model: Model, name: str, experts: int) -> int:
    parameters = sum(group.parameters for group in model.groups if group.name == name)
    blocks = max(1, len(model.kv_layers)) * max(1, experts)
    return round(parameters / (MATRICES_A_GATED_BLOCK * model.hidden * blocks))
