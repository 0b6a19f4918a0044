"""The least each part of a pass can take: the bytes it must read and the operations it must do, at B and C."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.ceilings import decode, kv_cache, prefill, split
from workbench.experiments.gap.parts import Part
from workbench.models.model import DTYPE_BYTES, Model
from workbench.quantity import Origin, Quantity, Unit, arithmetic

B_RUN = "B_run"
"""The symbol of the B that parts are held against: the median of those read in the rounds of the run."""


@dataclass(frozen=True)
class Work:
    """Bytes a part must read, how many of them from a slower memory, and operations it must do."""

    bytes: float
    flop: float
    slow_bytes: float = 0.0


@dataclass(frozen=True)
class SlowMemory:
    """A slower memory, or a device's link to it: the share of each part's bytes that lies there, and its rate."""

    shares: Mapping[Part, float]
    rate: Quantity
    source: str


def over_two_memories(work: Mapping[Part, Work], slow: SlowMemory | None) -> Mapping[Part, Work]:
    """The same work where these shares of its bytes are read from the slower memory."""
    if slow is None:
        return work
    return {part: replace(each, slow_bytes=each.bytes * slow.shares.get(part, 0.0)) for part, each in work.items()}


def decode_work(model: Model, t: int, b: int, dtype: str) -> Mapping[Part, Work]:
    """The work of one decode step of b sequences that attend to t tokens each, by part."""
    W, F = decode.weights_read(model, b).value, decode.step_flop(model, t, b).value
    head = _head_bytes(model, dtype)
    attention = b * decode.attention_flop(model, t)
    return {
        Part.WEIGHTS: Work(W - head, F - attention - 2 * b * model.head_parameters),
        Part.HEAD: Work(head, 2 * b * model.head_parameters),
        Part.ATTENTION: Work(kv_cache.cache_bytes(model, t, DTYPE_BYTES[dtype], b), attention),
    }


def prefill_work(model: Model, n: int, b: int, dtype: str) -> Mapping[Part, Work]:
    """The work of a prefill of n tokens of each of b sequences, by part; the head runs for the last position only."""
    W, F = decode.weights_read(model, n * b).value, prefill.flop(model, n, b).value
    head = _head_bytes(model, dtype)
    attention = b * prefill.attention_flop(model, n)
    return {
        Part.WEIGHTS: Work(W - head, F - attention - 2 * b * model.head_parameters),
        Part.HEAD: Work(head, 2 * b * model.head_parameters),
        Part.ATTENTION: Work(0.0, attention),
    }


def _head_bytes(model: Model, dtype: str) -> float:
    return min(float(model.read_bytes_per_token), model.head_parameters * DTYPE_BYTES[dtype])


@dataclass(frozen=True)
class Floor:
    """The least seconds of a pass and of its parts, by the clock that binds the whole: its bytes or its maths.

    `rate` is that clock's, B in bytes/s or C in FLOP/s; `work` is what the parts do, and `B_slow` the rate at which
    their slow bytes are read, None where all are read at B.
    """

    parts_s: Mapping[Part, float]
    by_maths: bool
    rate: float
    work: Mapping[Part, Work]
    B_slow: Quantity | None = None

    @property
    def total_s(self) -> float:
        """The ceiling of the pass, as a time."""
        return sum(self.parts_s.values())

    def quantity(self, part: Part) -> Quantity | None:
        """The floor of a part with what it was computed from; None of a part that must neither read nor compute."""
        seconds = self.parts_s.get(part, 0.0)
        if not seconds:
            return None
        slow_bytes = self.work[part].slow_bytes
        if self.B_slow is not None and slow_bytes and not self.by_maths:
            fast_bytes = self.work[part].bytes - slow_bytes
            W_fast = arithmetic("bytes read from the fast memory", fast_bytes, Unit.BYTES, "W_fast")
            W_slow = arithmetic("bytes read from the slower memory", slow_bytes, Unit.BYTES, "W_slow")
            name = "median rate of this run's rounds"
            B_fast = Quantity(name, self.rate, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B_fast")
            return split.seconds(W_fast, B_fast, W_slow, self.B_slow, name="its floor", symbol="floor")
        unit, per_second = (Unit.FLOP, Unit.FLOP_PER_SECOND) if self.by_maths else (Unit.BYTES, Unit.BYTES_PER_SECOND)
        what, symbol, formula = (
            ("operations it must do", "C", "F / C")
            if self.by_maths
            else ("bytes it must read", B_RUN, f"bytes / {B_RUN}")
        )
        amount = arithmetic(what, seconds * self.rate, unit)
        whose = "median rate of this run" if self.by_maths else "median rate of this run's rounds"
        rate = Quantity(whose, self.rate, per_second, Origin.MEASURED, symbol)
        return arithmetic("its floor", seconds, Unit.SECONDS, "floor", formula, (amount, rate))


def floor(work: Mapping[Part, Work], B: float, C: float | None, B_slow: Quantity | None = None) -> Floor:
    """max(bytes/B, F/C) of the whole, and each part's share of the greater: their sum is the ceiling.

    With `B_slow` slow bytes are read at that rate, one memory after the other; without it, all at B.
    """

    def read_s(each: Work) -> float:
        if B_slow is None:
            return each.bytes / B
        return (each.bytes - each.slow_bytes) / B + each.slow_bytes / B_slow.value

    F = sum(each.flop for each in work.values())
    if C is not None and sum(map(read_s, work.values())) < F / C:
        return Floor({part: each.flop / C for part, each in work.items()}, True, C, work, B_slow)
    return Floor({part: read_s(each) for part, each in work.items()}, False, B, work, B_slow)


def ceiling(work: Mapping[Part, Work], B: Quantity, C: Quantity | None) -> Quantity:
    """The ceiling of the pass as a time that carries what it was computed from."""
    least = floor(work, B.value, None if C is None else C.value)
    moved = arithmetic("bytes the pass must read", sum(each.bytes for each in work.values()), Unit.BYTES, "W + b·k·t")
    F = arithmetic("operations of the pass", sum(each.flop for each in work.values()), Unit.FLOP, "F")
    inputs = (moved, B) if C is None else (moved, F, B, C)
    by_bytes = f"(W + b·k·t) / {B.symbol or 'B'}"
    formula = by_bytes if C is None else f"max({by_bytes}, F / C)"
    return arithmetic("least time of the pass", least.total_s, Unit.SECONDS, "ceiling", formula, inputs)
