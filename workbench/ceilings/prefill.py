"""The prefill clock: one pass over n tokens, which fetches the weights once and does n tokens' operations."""

from enum import StrEnum

from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit


class Clock(StrEnum):
    """Which of the two clocks sets the time of a pass."""

    BYTES = "bytes"
    BOTH = "both"
    MATHS = "maths"


def multiplied_parameters(model: Model) -> int:
    """N of prefill: parameters each prompt token is multiplied by; the head runs for the last one only."""
    return model.read_parameters - model.head_parameters


def attention_flop(model: Model, n: int) -> int:
    """Operations of causal attention over a prompt of n tokens: the sum of every token's over those up to it."""
    total = 0
    for layer in model.attention_layers:
        w = n if layer.window is None else min(n, layer.window)
        seen = w * (w + 1) // 2 + (n - w) * w
        total += 4 * layer.heads * layer.head_dim * seen
    return total


def flop(model: Model, n: int) -> Quantity:
    """2·N·n, the head once, and attention's n² term: operations of a prefill of n tokens."""
    N = multiplied_parameters(model)
    head, attention = 2 * model.head_parameters, attention_flop(model, n)
    return Quantity(
        name="operations of the prefill",
        value=2 * N * n + head + attention,
        unit=Unit.FLOP,
        origin=Origin.ARITHMETIC,
        symbol="F",
        formula="2·N·n + head + attention",
        inputs=(
            Quantity(
                "parameters each token is multiplied by, without the head", N, Unit.PARAMETERS, Origin.ARITHMETIC, "N"
            ),
            Quantity("prompt", n, Unit.TOKENS, Origin.ARITHMETIC, "n"),
            Quantity("output head, last position only", head, Unit.FLOP, Origin.ARITHMETIC),
            Quantity("attention, 4·heads·head_dim a pair", attention, Unit.FLOP, Origin.ARITHMETIC),
        ),
    )


def seconds(model: Model, n: int, B: Quantity, C: Quantity) -> Quantity:
    """max(F/C, W/B): the least a prefill of n tokens can take."""
    F = flop(model, n)
    W = Quantity("weights read", weight_bytes(model), Unit.BYTES, Origin.ARITHMETIC, "W", source=model.source)
    return Quantity(
        name="least time of the prefill",
        value=max(F.value / C.value, W.value / B.value),
        unit=Unit.SECONDS,
        origin=Origin.ARITHMETIC,
        formula="max(F / C, W / B)",
        inputs=(F, W, B, C),
    )


def weight_bytes(model: Model) -> int:
    """W: bytes of weights one pass reads at least, whatever its tokens."""
    return model.read_bytes_per_token


def binding_clock(model: Model, n: int, B: float, C: float) -> Clock:
    """The clock that sets a prefill's time; `both` while neither term is twice the other."""
    ratio = (flop(model, n).value / C) / (weight_bytes(model) / B)
    if ratio > 2:
        return Clock.MATHS
    return Clock.BOTH if ratio >= 0.5 else Clock.BYTES


def crossover_tokens(W: Quantity, N: Quantity, B: Quantity, C: Quantity) -> Quantity:
    """n* = W·C / (2·N·B): the prompt length at which arithmetic takes over from bytes."""
    return Quantity(
        name="prompt length where prefill turns compute-bound",
        value=W.value * C.value / (2 * N.value * B.value),
        unit=Unit.TOKENS,
        origin=Origin.ARITHMETIC,
        symbol="n*",
        formula="W·C / (2·N·B)",
        inputs=(W, C, N, B),
    )
