"""The decode clock: bytes one step must read and operations it must do, for one sequence or b together."""

from workbench.ceilings.experts import bytes_touched
from workbench.ceilings.kv_cache import cache_read
from workbench.errors import ModelError
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic


def attention_flop(model: Model, t: int) -> int:
    """Operations one token's attention does over t cached tokens: 4·heads·head_dim·min(t, window) a layer."""
    return sum(
        4 * layer.heads * layer.head_dim * (t if layer.window is None else min(t, layer.window))
        for layer in model.attention_layers
    )


def step_flop(model: Model, t: int, b: int = 1) -> Quantity:
    """F = b·(2·N + attention): operations of one decode step of b sequences with t tokens in each."""
    N, attention = model.read_parameters, attention_flop(model, t)
    return arithmetic(
        "operations of one step",
        b * (2 * N + attention),
        Unit.FLOP,
        "F",
        "b·(2·N + attention)",
        (
            arithmetic("parameters a token is multiplied by", N, Unit.PARAMETERS, "N", source=model.source),
            arithmetic("attention, 4·heads·head_dim·t a layer", attention, Unit.FLOP, "attention", source=model.source),
            arithmetic("sequences", b, Unit.COUNT, "b"),
        ),
    )


def weights_read(model: Model, b: int = 1) -> Quantity:
    """W: bytes of weights one pass over b tokens reads, of routed experts those it touches.

    Raises ModelError for a model of which nothing is read: nothing then bounds its rate.
    """
    if not (model.read_bytes_per_token and model.read_parameters):
        raise ModelError(
            f"{model.name} has no weights that a token reads, so there is no ceiling. Check {model.source}."
        )
    rows = b * model.embedding_row_bytes
    shared = model.shared_read_bytes
    routed = bytes_touched(model, b)
    if routed is None:
        return arithmetic("weights one step reads", shared + rows, Unit.BYTES, "W", source=model.source)
    return arithmetic(
        "weights one step reads",
        shared + rows + int(routed.value),
        Unit.BYTES,
        "W",
        "shared + experts",
        (
            arithmetic("weights every token reads", shared + rows, Unit.BYTES, "shared", source=model.source),
            routed,
        ),
    )


def bytes_per_step(model: Model, t: int, element_bytes: float, b: int = 1) -> Quantity:
    """W + b·k·t: bytes one decode step must read with t tokens in each of b caches."""
    W, kt = weights_read(model, b), cache_read(model, t, element_bytes, b)
    return arithmetic(
        "bytes one decode step must read", W.value + kt.value, Unit.BYTES, formula="W + b·k·t", inputs=(W, kt)
    )


def step_seconds(model: Model, t: int, element_bytes: float, B: Quantity, C: Quantity | None, b: int = 1) -> Quantity:
    """max((W + b·k·t)/B, F/C): the least a decode step can take; its bytes alone decide where C isn't known."""
    moved = bytes_per_step(model, t, element_bytes, b)
    name = "least time of one decode step"
    if C is None:
        return arithmetic(name, moved.value / B.value, Unit.SECONDS, "step", "(W + b·k·t) / B", (moved, B))
    F = step_flop(model, t, b)
    return arithmetic(
        name,
        max(moved.value / B.value, F.value / C.value),
        Unit.SECONDS,
        "step",
        "max((W + b·k·t) / B, F / C)",
        (moved, F, B, C),
    )
