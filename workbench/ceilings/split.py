"""Weights split over two memories: each part is read at its own memory's rate, so the times add."""

from dataclasses import dataclass

from workbench.ceilings.decode import bytes_per_step
from workbench.ceilings.memory_fit import needed
from workbench.errors import SettingsError
from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed


def slowdown(f: float, r: float) -> float:
    """(1 − f) + f·r: time against all in the fast memory, with a share f of the bytes in one r times slower."""
    return (1 - f) + f * r


def seconds(
    W_fast: Quantity,
    B_fast: Quantity,
    W_slow: Quantity,
    B_slow: Quantity,
    name: str = "least time of one step over two memories",
    symbol: str = "step",
) -> Quantity:
    """W_fast/B_fast + W_slow/B_slow: the least time of a step, or a part of one, whose bytes lie in two memories."""
    return arithmetic(
        name,
        W_fast.value / B_fast.value + W_slow.value / B_slow.value,
        Unit.SECONDS,
        symbol,
        "W_fast / B_fast + W_slow / B_slow",
        (W_fast, B_fast, W_slow, B_slow),
    )


@dataclass(frozen=True)
class SlowShare:
    """What lies on a slower memory: its share of the bytes a pass reads, and the rate they are read at from there."""

    share: Quantity
    rate: Quantity


def slow_share(f: float, gb_per_s: float) -> SlowShare:
    """What a person says of a second memory: the share of the bytes in it, and its rate in GB/s."""
    return SlowShare(
        Quantity("share of the bytes read that is on the slower memory", f, Unit.SHARE, Origin.ASSUMED, "f"),
        Quantity("rate of the slower memory", gb_per_s * 1e9, Unit.BYTES_PER_SECOND, Origin.ASSUMED, "B_slow"),
    )


def split_cost(slow: SlowShare, moved: Quantity, B_fast: Quantity) -> Quantity:
    """f·W / B_slow − f·W / B_fast: what a pass that reads W bytes takes longer than were all in the fast memory."""
    f = slow.share
    W_slow = arithmetic(
        "bytes read from the slower memory", moved.value * f.value, Unit.BYTES, "W_slow", "f·W", (f, moved)
    )
    return slower_memory_adds(W_slow, slow.rate, B_fast)


def slower_memory_adds(W_slow: Quantity, B_slow: Quantity, B_fast: Quantity) -> Quantity:
    """W_slow / B_slow − W_slow / B_fast: what bytes take longer from the slower memory than from the fast one."""
    return arithmetic(
        "what the slower memory adds",
        W_slow.value / B_slow.value - W_slow.value / B_fast.value,
        Unit.SECONDS,
        "split",
        "W_slow / B_slow − W_slow / B_fast",
        (W_slow, B_slow, B_fast),
    )


@dataclass(frozen=True)
class Split:
    """A decode step with a share of the bytes it reads on the slower memory."""

    model: str = headed("model")
    context: int = headed("context")
    slow_share: Quantity = headed("on slow")
    fast_bytes: Quantity = headed("fast bytes")
    slow_bytes: Quantity = headed("slow bytes")
    ratio: Quantity = headed("slow by")
    seconds_per_step: Quantity = headed("least step")
    tokens_per_second: Quantity = headed("tok/s")
    slowdown: Quantity = headed("slower")


def share_that_must_be_slow(model: Model, t: int, element_bytes: float, M: Quantity) -> Quantity:
    """1 − M/need, at least 0: the share of weights and cache that M bytes of fast memory don't hold.

    Of the bytes read it is the same share where what is read lies spread evenly over both.
    """
    need = needed(model, t, element_bytes)
    return arithmetic(
        "share that doesn't fit in the fast memory",
        max(0.0, 1 - M.value / need.value) if need.value else 0.0,
        Unit.SHARE,
        "f",
        "1 − M / need",
        (M, need),
    )


def split(model: Model, t: int, element_bytes: float, B_fast: Quantity, B_slow: Quantity, f: float) -> Split:
    """A step with share `f` of its bytes (weights, experts that are read, cache) on the memory of rate B_slow.

    Raises SettingsError for a share below 0 or above 1.
    """
    if not 0 <= f <= 1:
        raise SettingsError(f"The share on the slower memory is {f:g}; it must be between 0 and 1.")
    moved = bytes_per_step(model, t, element_bytes)
    share = arithmetic("share of the bytes read that is on the slower memory", f, Unit.SHARE, "f")
    ratio = arithmetic(
        "times the slower memory is slower",
        B_fast.value / B_slow.value,
        Unit.TIMES,
        "r",
        "B_fast / B_slow",
        (B_fast, B_slow),
    )
    fast = arithmetic(
        "bytes read from the fast memory",
        moved.value * (1 - f),
        Unit.BYTES,
        "W_fast",
        "(1 − f)·(W + b·k·t)",
        (share, moved),
    )
    slow = arithmetic(
        "bytes read from the slower memory", moved.value * f, Unit.BYTES, "W_slow", "f·(W + b·k·t)", (share, moved)
    )
    step = seconds(fast, B_fast, slow, B_slow)
    return Split(
        model=model.name,
        context=t,
        slow_share=share,
        fast_bytes=fast,
        slow_bytes=slow,
        ratio=ratio,
        seconds_per_step=step,
        tokens_per_second=arithmetic(
            "most tokens a second", 1 / step.value, Unit.TOKENS_PER_SECOND, formula="1 / step", inputs=(step,)
        ),
        slowdown=arithmetic(
            "times slower than all in the fast memory",
            slowdown(f, ratio.value),
            Unit.TIMES,
            formula="(1 − f) + f·r",
            inputs=(share, ratio),
        ),
    )
