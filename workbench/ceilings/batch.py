"""One decode step of b sequences: its rates, its memory, and which limit binds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

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

    explained_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "bound": ("seconds_per_step", "kv_share", "memory_needed_bytes"),
        "fits": ("memory_needed_bytes", "memory_bytes"),
    }

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
    memory_bytes: Quantity | None = headed("of")
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
        bound=limit(
            W.value, kt.value, step_flop(model, t, b).value, box.B.value, None if box.C is None else box.C.value, fits
        ),
        memory_needed_bytes=needed,
        memory_bytes=box.M,
        fits=fits,
    )


def limit(W: float, cache: float, F: float, B: float, C: float | None, fits: bool | None = None) -> Limit:
    """What binds a step that reads W and cache bytes at B bytes/s and does F operations at C, unknown where None."""
    if fits is False:
        return Limit.MEMORY
    if C is not None and (W + cache) / B < F / C:
        return Limit.ARITHMETIC
    return Limit.CACHE if cache > W else Limit.WEIGHTS
