"""What raises a decode ceiling and by how much, for one model on one box, and what does not."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.ceilings.batch import Ceiling, Limit, ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.decode import step_flop, weights_read
from workbench.ceilings.kv_cache import cache_bytes, cache_read
from workbench.ceilings.memory_fit import largest_batch
from workbench.models.cache_types import CACHE_TYPE_BYTES
from workbench.models.model import Model, Read
from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_number
from workbench.record import headed

BITS = 8
# Bits a parameter of what people quantise to, block scales counted. Source: ggml's block structures.
QUANTISATIONS = {"Q8_0": 8.5, "Q4_K": 4.5, "Q3_K": 3.4375}
MOST_QUANTISATIONS = 2
ACCEPTANCE = Quantity(
    "share of drafted tokens accepted, each independently", 0.7, Unit.SHARE, Origin.ASSUMED, "a", source="stated"
)
DRAFTED = 4
BATCH_FACTOR = 4


@dataclass(frozen=True)
class Lever:
    """One change, and the ceiling with it against the ceiling without; `factor` 1 is no help.

    The rate is each sequence's, but of all together for a larger batch.
    """

    lever: str = headed("lever")
    tokens_per_second: Quantity = headed("tok/s")
    factor: Quantity = headed("times")
    why: str = headed("why")


@dataclass(frozen=True)
class _Place:
    """The model, context, batch, cache and box that levers are pulled at."""

    model: Model
    t: int
    b: int
    element_bytes: float
    box: Box

    def ceiling(self) -> Ceiling:
        return ceiling(self.model, self.t, self.b, self.element_bytes, self.box)

    def rate(self) -> Quantity:
        return self.ceiling().tokens_per_second_each


def levers(model: Model, t: int, b: int, element_bytes: float, box: Box) -> tuple[Lever, ...]:
    """Every lever at t tokens and b sequences on `box`: those that help first, the strongest foremost."""
    here = _Place(model, t, b, element_bytes, box)
    return tuple(sorted(_all(here), key=lambda lever: -lever.factor.value))


def expected_tokens(a: float, d: int) -> float:
    """(1 − a^(d+1)) / (1 − a): tokens a pass yields with d drafted, each accepted with probability a.

    Source: Leviathan, Kalman and Matias, Fast Inference from Transformers via Speculative Decoding (2023).
    """
    return d + 1 if a == 1 else (1 - a ** (d + 1)) / (1 - a)


def _all(here: _Place) -> Iterator[Lever]:
    yield from _fewer_bytes_per_weight(here)
    yield from _smaller_cache_elements(here)
    yield _fewer_parameters(here)
    if here.t > 1:
        yield _against(
            here, f"half the context, {here.t // 2:,} tokens", replace(here, t=here.t // 2), "less cache to read"
        )
    yield _against(
        here,
        "twice the bandwidth",
        replace(here, box=replace(here.box, B=_times(here.box.B, 2))),
        "every byte of the step arrives in half the time",
    )
    yield _larger_batch(here)
    yield _several_tokens_a_pass(here)
    yield _two_devices(here)
    yield from _more_arithmetic(here)


def _fewer_bytes_per_weight(here: _Place) -> Iterator[Lever]:
    N = here.model.read_parameters
    if not N:
        return
    now = BITS * here.model.read_bytes_per_token / N
    coarser = [(name, bits) for name, bits in QUANTISATIONS.items() if bits < now * 0.9]
    for name, bits in coarser[:MOST_QUANTISATIONS]:
        smaller = replace(here, model=_scaled(here.model, bits / now))
        yield _against(here, f"weights in {name}", smaller, f"{bits:.3g} bits a parameter instead of {now:.3g}")


def _smaller_cache_elements(here: _Place) -> Iterator[Lever]:
    if not cache_bytes(here.model, here.t, here.element_bytes):
        return
    for name in ("q8_0", "q4_0"):
        if CACHE_TYPE_BYTES[name] < here.element_bytes:
            yield _against(
                here,
                f"cache in {name}",
                replace(here, element_bytes=CACHE_TYPE_BYTES[name]),
                f"{BITS * CACHE_TYPE_BYTES[name]:.3g} bits an element instead of {BITS * here.element_bytes:.3g}",
            )


def _fewer_parameters(here: _Place) -> Lever:
    half = _scaled(here.model, 0.5, parameters=0.5)
    return _against(
        here,
        f"half the active parameters, {format_number(half.read_parameters / 1e9)} billion",
        replace(here, model=half),
        "a model with fewer or smaller experts a token" if here.model.experts else "a smaller model, or one of experts",
    )


def _larger_batch(here: _Place) -> Lever:
    b, M = here.b * BATCH_FACTOR, here.box.M
    most = None if M is None else largest_batch(here.model, here.t, here.element_bytes, M.value)
    if most is not None and most <= here.b:
        held = f"a batch of {most:,}" if most else "no sequence of this context beside the weights"
        return _against(here, "a larger batch", here, f"memory holds {held}, and no more")
    b = b if most is None else min(b, most)
    unfit = "; memory holds no more" if b == most else ""
    before, after = here.ceiling(), replace(here, b=b).ceiling()
    return Lever(
        f"batch of {b:,}, all sequences together",
        after.tokens_per_second_total,
        _factor(after.tokens_per_second_total, before.tokens_per_second_total),
        "one fetch of the weights serves all; each sequence falls to "
        f"{format_number(after.tokens_per_second_each.value)} tok/s{unfit}",
    )


def _several_tokens_a_pass(here: _Place) -> Lever:
    """A pass that checks d drafted tokens reads the cache once and the weights of d + 1 tokens."""
    model, d, a = here.model, DRAFTED, ACCEPTANCE
    W, kt = weights_read(model, here.b * (d + 1)), cache_read(model, here.t, here.element_bytes, here.b)
    B, C, F = here.box.B, here.box.C, step_flop(model, here.t, here.b * (d + 1))
    name, bytes_seconds = "least time of the pass", (W.value + kt.value) / B.value
    if C is None:
        least = arithmetic(name, bytes_seconds, Unit.SECONDS, "pass", "(W + b·k·t) / B", (W, kt, B))
    else:
        slower = max(bytes_seconds, F.value / C.value)
        least = arithmetic(name, slower, Unit.SECONDS, "pass", "max((W + b·k·t) / B, F / C)", (W, kt, B, F, C))
    rate = arithmetic(
        "most tokens a second of one sequence",
        expected_tokens(a.value, d) / least.value,
        Unit.TOKENS_PER_SECOND,
        formula="(1 − a^(d+1)) / (1 − a) / pass",
        inputs=(
            a,
            arithmetic("tokens drafted a pass", d, Unit.TOKENS, "d"),
            least,
        ),
    )
    cost = "; more tokens touch more experts" if model.routed_expert_bytes else ""
    return Lever(
        f"{d} drafted tokens a pass, {a.value:.0%} accepted ({a.origin})",
        rate,
        _factor(rate, here.rate()),
        f"{expected_tokens(a.value, d):.2f} tokens a pass; drafting not counted{cost}",
    )


def _two_devices(here: _Place) -> Lever:
    C, M = here.box.C, here.box.M
    both = Box(_times(here.box.B, 2), C and _times(C, 2), M and _times(M, 2))
    return _against(
        here,
        "each layer split over two such devices",
        replace(here, box=both),
        "their bandwidths add; links not counted. Whole layers on each would take turns and gain nothing",
    )


def _more_arithmetic(here: _Place) -> Iterator[Lever]:
    C = here.box.C
    if C is None:
        return
    now = here.ceiling()
    work = step_flop(here.model, here.t, here.b).value / C.value
    if now.bound is Limit.ARITHMETIC or work >= now.seconds_per_step.value:
        why = "the step waits for its arithmetic here"
    else:
        why = (
            f"arithmetic takes {format_number(work * 1e3)} of the step's "
            f"{format_number(now.seconds_per_step.value * 1e3)} ms and waits for the bytes; prefill gains"
        )
    yield _against(
        here, "twice the arithmetic: clock, units or kernel", replace(here, box=replace(here.box, C=_times(C, 2))), why
    )


def _against(here: _Place, lever: str, changed: _Place, why: str) -> Lever:
    after = changed.rate()
    return Lever(lever, after, _factor(after, here.rate()), why)


def _factor(after: Quantity, before: Quantity) -> Quantity:
    return arithmetic(
        "ceiling with the lever over the ceiling without",
        after.value / before.value,
        Unit.TIMES,
        formula="with / without",
        inputs=(
            replace(after, symbol="with", name=f"the lever, {after.name}"),
            replace(before, symbol="without", name=f"the lever, {before.name}"),
        ),
    )


def _times(rate: Quantity, factor: float) -> Quantity:
    return replace(
        rate,
        name=f"{factor:g} times the {rate.name}",
        value=rate.value * factor,
        origin=Origin.ARITHMETIC,
        formula=f"{factor:g}·{rate.symbol}",
        inputs=(rate,),
        source="",
    )


def _scaled(model: Model, size: float, parameters: float = 1.0) -> Model:
    """The model with what a token reads taking `size` times its bytes, and holding `parameters` times as many."""
    return replace(
        model,
        groups=tuple(
            g
            if g.read is Read.NONE
            else replace(g, bytes=round(g.bytes * size), parameters=round(g.parameters * parameters))
            for g in model.groups
        ),
        file_bytes=None,
    )
