"""The prefill clock: one pass over n tokens, which fetches the weights once and does n tokens' operations."""

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

from workbench.ceilings.box import Box
from workbench.ceilings.decode import weights_read
from workbench.ceilings.kv_cache import cache_bytes
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import headed


class Clock(StrEnum):
    """Which of the two clocks sets the time of a pass."""

    BYTES = "bytes"
    BOTH = "both"
    MATHS = "maths"


def multiplied_parameters(model: Model) -> int:
    """N of prefill: parameters each prompt token is multiplied by; the head runs for the last one only."""
    return model.read_parameters - _head(model)


def _head(model: Model) -> int:
    """Parameters of the head, of which a model that stores none reads no more than it reads in all."""
    return min(model.head_parameters, model.read_parameters)


def attention_flop(model: Model, n: int) -> int:
    """Operations of causal attention over a prompt of n tokens: the sum of every token's over those up to it."""
    total = 0
    for layer in model.attention_layers:
        w = n if layer.window is None else min(n, layer.window)
        seen = w * (w + 1) // 2 + (n - w) * w
        total += 4 * layer.heads * layer.head_dim * seen
    return total


def flop(model: Model, n: int, b: int = 1) -> Quantity:
    """2·N·n, the head once, and attention's n² term: operations of a prefill of n tokens, for each of b sequences."""
    N = multiplied_parameters(model)
    head, attention = 2 * _head(model), attention_flop(model, n)
    return arithmetic(
        "operations of the prefill",
        b * (2 * N * n + head + attention),
        Unit.FLOP,
        "F",
        "2·N·n + head + attention" if b == 1 else "b·(2·N·n + head + attention)",
        (
            arithmetic(
                "parameters each token is multiplied by, without the head",
                N,
                Unit.PARAMETERS,
                "N",
                source=model.source,
            ),
            arithmetic("prompt", n, Unit.TOKENS, "n"),
            arithmetic("output head, last position only", head, Unit.FLOP, "head", source=model.source),
            arithmetic(
                "attention's n² term, 4·heads·head_dim a pair",
                attention,
                Unit.FLOP,
                "attention",
                source=model.source,
            ),
            *([arithmetic("sequences", b, Unit.COUNT, "b")] if b > 1 else ()),
        ),
    )


def seconds(model: Model, n: int, B: Quantity, C: Quantity | None, b: int = 1) -> Quantity:
    """max(F/C, W/B): the least a prefill of n tokens of each of b sequences can take; bytes alone where C isn't known.

    It is one pass: each further one, where memory does not hold it, fetches the weights again.
    """
    W = weights_read(model, n * b)
    name = "least time of the prefill"
    if C is None:
        return arithmetic(name, W.value / B.value, Unit.SECONDS, "TTFT", "W / B", (W, B))
    F = flop(model, n, b)
    return arithmetic(
        name,
        max(F.value / C.value, W.value / B.value),
        Unit.SECONDS,
        "TTFT",
        "max(F / C, W / B)",
        (F, W, B, C),
    )


def binding_clock(model: Model, n: int, B: float, C: float) -> Clock:
    """The clock that sets a prefill's time; `both` while neither term is twice the other."""
    ratio = (flop(model, n).value / C) / (weights_read(model, n).value / B)
    if ratio > 2:
        return Clock.MATHS
    return Clock.BOTH if ratio >= 0.5 else Clock.BYTES


def crossover_tokens(W: Quantity, N: Quantity, B: Quantity, C: Quantity) -> Quantity:
    """n* = W·C / (2·N·B): the prompt length at which arithmetic takes over from bytes."""
    return arithmetic(
        "prompt length where prefill turns compute-bound",
        W.value * C.value / (2 * N.value * B.value),
        Unit.TOKENS,
        "n*",
        "W·C / (2·N·B)",
        (W, C, N, B),
    )


LONGEST_PROMPT = 1 << 40
"""Where the search for n* ends."""


def crossover(model: Model, B: Quantity, C: Quantity) -> Quantity | None:
    """n* for a model, with W as a prompt of n* tokens reads it: more tokens touch more experts.

    None for a model whose tokens are multiplied by nothing but the head, and where none up to LONGEST_PROMPT turns
    compute-bound: each token's embedding row takes longer to read than its arithmetic.
    """
    N = arithmetic(
        "parameters each prompt token is multiplied by, without the head",
        multiplied_parameters(model),
        Unit.PARAMETERS,
        "N",
        source=model.source,
    )

    def turned(n: int) -> bool:
        return 2 * N.value * n / C.value >= weights_read(model, n).value / B.value

    if not turned(LONGEST_PROMPT):
        return None
    n = 1 + bisect_left(range(1, LONGEST_PROMPT), True, key=turned)
    return crossover_tokens(weights_read(model, n), N, B, C)


def _written(model: Model, n: int, element_bytes: float) -> int:
    """Bytes the pass writes: sliding layers write every token too, and keep their window's."""
    state = cache_bytes(model, 0, element_bytes)
    return state + n * (cache_bytes(model, 1, element_bytes) - state)


@dataclass(frozen=True)
class PrefillCeiling:
    """The least a prefill of n tokens can take on a box; what needs C is None where that isn't known."""

    model: str = headed("model")
    prompt_tokens: int = headed("prompt")
    flop: Quantity = headed("FLOP")
    attention_flop: Quantity = headed("of it attention")
    weight_bytes: Quantity = headed("weights")
    kv_bytes_written: Quantity = headed("cache written")
    arithmetic_seconds: Quantity | None = headed("F / C")
    bytes_seconds: Quantity = headed("W / B")
    seconds: Quantity = headed("least TTFT")
    tokens_per_second: Quantity = headed("tok/s")
    bound: Clock = headed("bound by")
    crossover_tokens: Quantity | None = headed("n*")


def prefill_ceiling(model: Model, n: int, element_bytes: float, box: Box) -> PrefillCeiling:
    """The prefill clock of `model` on `box` for a prompt of n tokens."""
    F, W, least = flop(model, n), weights_read(model, n), seconds(model, n, box.B, box.C)
    C = box.C
    prompt = F.inputs[1]
    return PrefillCeiling(
        model=model.name,
        prompt_tokens=n,
        flop=F,
        attention_flop=F.inputs[3],
        weight_bytes=W,
        kv_bytes_written=arithmetic(
            "cache the prompt writes, every layer's",
            _written(model, n, element_bytes),
            Unit.BYTES,
            "k·n",
            source=model.source,
        ),
        arithmetic_seconds=None
        if C is None
        else arithmetic("time of its operations", F.value / C.value, Unit.SECONDS, formula="F / C", inputs=(F, C)),
        bytes_seconds=arithmetic(
            "time of its bytes", W.value / box.B.value, Unit.SECONDS, formula="W / B", inputs=(W, box.B)
        ),
        seconds=least,
        tokens_per_second=arithmetic(
            "most prompt tokens a second",
            n / least.value,
            Unit.TOKENS_PER_SECOND,
            formula="n / TTFT",
            inputs=(prompt, least),
        ),
        bound=Clock.BYTES if C is None else binding_clock(model, n, box.B.value, C.value),
        crossover_tokens=None if C is None else crossover(model, box.B, C),
    )
