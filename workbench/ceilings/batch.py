"""One decode step of b sequences: its rates, its memory, and which limit binds it."""

from dataclasses import dataclass
from enum import StrEnum

from workbench.ceilings import experts, memory_fit
from workbench.ceilings.box import Box
from workbench.ceilings.decode import bytes_per_step, step_flop, step_seconds, weights_read
from workbench.ceilings.kv_cache import cache_read
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import headed


class Limit(StrEnum):
    """What keeps a step from being faster, or from being run at all."""

    WEIGHTS = "weight reads"
    CACHE = "cache reads"
    ARITHMETIC = "arithmetic"
    MEMORY = "memory"


@dataclass(frozen=True)
class Ceiling:
    """The most a box could decode with b sequences of t tokens each; `fits` is None where M isn't known."""

    model: str = headed("model")
    context: int = headed("context")
    batch: int = headed("batch")
    bytes_per_step: Quantity = headed("read/step")
    weight_bytes: Quantity = headed("weights")
    kv_bytes: Quantity = headed("cache")
    kv_share: Quantity = headed("% cache")
    experts_touched: Quantity | None = headed("experts")
    seconds_per_step: Quantity = headed("least step")
    tokens_per_second_each: Quantity = headed("tok/s each")
    tokens_per_second_total: Quantity = headed("tok/s total")
    bound: Limit = headed("bound by")
    memory_needed_bytes: Quantity = headed("memory")
    fits: bool | None = headed("fits")


def ceiling(model: Model, t: int, b: int, element_bytes: float, box: Box) -> Ceiling:
    """The decode ceiling of `model` on `box`, its cache in elements of `element_bytes` bytes."""
    moved = bytes_per_step(model, t, element_bytes, b)
    W, kt = weights_read(model, b), cache_read(model, t, element_bytes, b)
    seconds = step_seconds(model, t, element_bytes, box.B, box.C, b)
    needed = memory_fit.needed(model, t, element_bytes, b)
    fits = None if box.M is None else needed.value <= box.M.value
    each = arithmetic(
        "most tokens a second of one sequence", 1 / seconds.value, Unit.TOKENS_PER_SECOND, "", "1 / step", (seconds,)
    )
    return Ceiling(
        model=model.name,
        context=t,
        batch=b,
        bytes_per_step=moved,
        weight_bytes=W,
        kv_bytes=kt,
        kv_share=arithmetic(
            "share of the bytes that is cache",
            kt.value / moved.value,
            Unit.SHARE,
            formula="b·k·t / (W + b·k·t)",
            inputs=(kt, W),
        ),
        experts_touched=experts.touched(model, b),
        seconds_per_step=seconds,
        tokens_per_second_each=each,
        tokens_per_second_total=arithmetic(
            "most tokens a second of all sequences",
            b / seconds.value,
            Unit.TOKENS_PER_SECOND,
            formula="b / step",
            inputs=(arithmetic("sequences", b, Unit.COUNT, "b"), seconds),
        ),
        bound=_limit(model, t, b, moved, kt, W, box, fits),
        memory_needed_bytes=needed,
        fits=fits,
    )


def _limit(
    model: Model, t: int, b: int, moved: Quantity, kt: Quantity, W: Quantity, box: Box, fits: bool | None
) -> Limit:
    if fits is False:
        return Limit.MEMORY
    if box.C is not None and step_flop(model, t, b).value / box.C.value > moved.value / box.B.value:
        return Limit.ARITHMETIC
    return Limit.CACHE if kt.value > W.value else Limit.WEIGHTS
