"""The decode clock: bytes one step must read and operations it must do."""

from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit


def attention_flop(model: Model, t: int) -> int:
    """Operations one token's attention does over t cached tokens: 4·heads·head_dim·min(t, window) a layer."""
    return sum(
        4 * layer.heads * layer.head_dim * (t if layer.window is None else min(t, layer.window))
        for layer in model.attention_layers
    )


def step_flop(model: Model, t: int) -> int:
    """Operations of one decode step with t tokens in the cache: 2·N and its attention."""
    return 2 * model.read_parameters + attention_flop(model, t)


def cache_bytes(model: Model, t: int, element_bytes: int) -> int:
    """k·t, the cache bytes one step reads with t tokens in it; elements of `element_bytes` bytes."""
    return model.kv_elements_read(t) * element_bytes


def bytes_per_step(model: Model, t: int, element_bytes: int) -> Quantity:
    """W + k·t: bytes one decode step must read with t tokens in the cache."""
    W = model.read_bytes_per_token
    kt = cache_bytes(model, t, element_bytes)
    return Quantity(
        name="bytes one decode step must read",
        value=W + kt,
        unit=Unit.BYTES,
        origin=Origin.ARITHMETIC,
        formula="W + k·t",
        inputs=(
            Quantity("weights one token reads", W, Unit.BYTES, Origin.ARITHMETIC, "W", source=model.source),
            Quantity(f"cache read at t = {t:,} tokens", kt, Unit.BYTES, Origin.ARITHMETIC, "k·t"),
        ),
    )


def step_seconds(model: Model, t: int, element_bytes: int, B: Quantity, C: Quantity) -> Quantity:
    """max((W + k·t)/B, FLOP/C): the least a decode step can take with t tokens in the cache."""
    moved = bytes_per_step(model, t, element_bytes)
    work = Quantity("operations of one step", step_flop(model, t), Unit.FLOP, Origin.ARITHMETIC, "F")
    return Quantity(
        name="least time of one decode step",
        value=max(moved.value / B.value, work.value / C.value),
        unit=Unit.SECONDS,
        origin=Origin.ARITHMETIC,
        formula="max((W + k·t) / B, F / C)",
        inputs=(moved, work, B, C),
    )
