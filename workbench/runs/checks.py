"""What decides each symptom: the figure, where it lies, and the verdict of the readings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isinf

from workbench.ceilings.batch import Limit
from workbench.experiments.statistics import Interval
from workbench.hardware.load import BUSY_SHARE, STOLEN_SHARE
from workbench.quantity import Origin, Quantity, Unit, format_number, format_value
from workbench.runs.doubling import doublings
from workbench.runs.judgement import UNSTEADY, Judgement
from workbench.runs.readings import (
    Fit,
    Reading,
    Times,
    fit,
    over_batches,
    over_contexts,
    over_prefills,
    over_prompts,
    range_words,
    times,
)
from workbench.runs.row import BATCH, Row

SWAPPED_SHARE = 0.01
"""Of the weights: what swap carries of them makes it a second memory."""


class Verdict(StrEnum):
    """What the rows say of a symptom."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "can't tell"


@dataclass(frozen=True)
class Found:
    """What the rows say: the figure it was decided by, where that lies, why, and what run would tell more."""

    verdict: Verdict
    why: str
    times: Quantity | None = None
    interval: Interval | None = None
    would_tell: str = ""


SPANS = "the same points when the box is quiet, or with more repeats: the interval spans both answers"

Check = Callable[[float, Sequence[Reading]], Found]
"""What the readings say of a symptom that is present from so many times on."""


# How a figure decides


def judged(least: float, ratio: Times) -> Verdict:
    """Present where the figure is as much and its growth resolved from none; absent where it can't be as much."""
    if ratio.value >= least:
        return Verdict.PRESENT if ratio.interval.low > 1 else Verdict.UNKNOWN
    return Verdict.ABSENT if ratio.interval.high < least else Verdict.UNKNOWN


def judged_flat(least: float, ratio: Times) -> Verdict:
    """Present where a figure can't have grown by as much, absent where it can't have grown by less."""
    if ratio.interval.high < least:
        return Verdict.PRESENT
    return Verdict.ABSENT if ratio.interval.low >= least else Verdict.UNKNOWN


Judge = Callable[[float, Times], Verdict]


def _told(least: float, ratio: Times, figure: Quantity, why: str, would_tell: str = "", judge: Judge = judged) -> Found:
    verdict = judge(least, ratio)
    if verdict is Verdict.UNKNOWN:
        would_tell = SPANS
    return Found(verdict, f"{why}: {_times_words(ratio)}", figure, ratio.interval, would_tell)


def _unknown(why: str, would_tell: str) -> Found:
    return Found(Verdict.UNKNOWN, why, would_tell=would_tell)


def _times_words(ratio: Times) -> str:
    low, high = ratio.interval.low, ratio.interval.high
    if low == high:
        return f"{format_number(ratio.value)} times"
    where = "not bounded by its repeats" if low <= 0 and isinf(high) else range_words(ratio.interval)
    return f"{format_number(ratio.value)} times ({where})"


def _ratio(name: str, ratio: Times, formula: str, *inputs: Quantity) -> Quantity:
    return Quantity(name, ratio.value, Unit.TIMES, Origin.MEASURED, "", formula, inputs)


def _ttft(reading: Reading) -> Quantity:
    name = f"TTFT of a prompt of {_tokens(reading.prompt_tokens)}"
    return Quantity(name, reading.ttft_s or 0.0, Unit.SECONDS, Origin.MEASURED, f"TTFT({reading.prompt_tokens:,})")


def _tpot(reading: Reading) -> Quantity:
    t, b = reading.context_tokens, reading.batch
    name = f"step of {b:,} {'sequence' if b == 1 else 'sequences'} with {_tokens(t)} in each"
    return Quantity(name, reading.tpot_s or 0.0, Unit.SECONDS, Origin.MEASURED, f"TPOT({t:,}, {b:,})")


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count:,} tokens"


def _ms(seconds: float | None) -> str:
    return format_value(seconds or 0.0, Unit.SECONDS)


def _read_rate(found: Sequence[Reading]) -> Quantity | None:
    """B: the best read rate beside the rows, else what the quickest decode step itself shows."""
    known = [r.row.read_gb_per_s for r in found if r.row is not None and r.row.read_gb_per_s]
    if known:
        name = "read rate of the model's own weights beside these rows, the best"
        return Quantity(name, max(known) * 1e9, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B")
    shown = [r.row.bytes_per_step / r.tpot_s for r in found if r.row and r.row.bytes_per_step and r.tpot_s]
    if not shown:
        return None
    return Quantity("bandwidth the quickest step shows", max(shown), Unit.BYTES_PER_SECOND, Origin.MEASURED, "B")


# Prefill


def prompt_growth(least: float, found: Sequence[Reading]) -> Found:
    requests = over_prefills(found)
    if len(requests) < 2:
        return _unknown(
            "TTFT is known of fewer than two prompt lengths", "workbench sweep MODEL --prompts 1,64,256,1024"
        )
    short, long = requests[0], requests[-1]
    ratio = times(long.ttft_s or 0.0, long.ttft_interval, short.ttft_s or 1.0, short.ttft_interval)
    why = (
        f"TTFT is {_ms(short.ttft_s)} for {_tokens(short.prompt_tokens)} and {_ms(long.ttft_s)} for "
        f"{_tokens(long.prompt_tokens)}{_parts_words(requests)}"
    )
    figure = _ratio(
        "TTFT of the longest prompt over that of the shortest",
        ratio,
        f"{_ttft(long).symbol} / {_ttft(short).symbol}",
        _ttft(long),
        _ttft(short),
        *_prefill_terms(requests),
    )
    longer = "prompts several times n*" if ratio.value < least else ""
    return _told(least, ratio, figure, why, longer)


def _prefill_fit(requests: Sequence[Reading]) -> Fit | None:
    return fit([(r.prompt_tokens, r.ttft_s or 0.0) for r in requests], 2)


def _prefill_terms(requests: Sequence[Reading]) -> tuple[Quantity, ...]:
    """Intercept, slope and n² term of TTFT, where there are points for them and none comes out below zero."""
    fitted = _prefill_fit(requests)
    # Without a point to spare the curve goes through the noise as well; no part of a time is negative.
    if fitted is None or fitted.coefficients[2].interval is None or any(c.value < 0 for c in fitted.coefficients):
        return ()
    n = requests[-1].prompt_tokens
    names = ("TTFT that no prompt length changes", "TTFT in proportion to the prompt", "TTFT with the prompt squared")
    values = [c.value * n**power for power, c in enumerate(fitted.coefficients)]
    formulas = ("c0", "c1·n", "c2·n²")
    terms = zip(names, values, formulas, strict=True)
    return tuple(
        Quantity(f"{name}, at {_tokens(n)}", value, Unit.SECONDS, Origin.MEASURED, formula=formula)
        for name, value, formula in terms
    )


def _parts_words(requests: Sequence[Reading]) -> str:
    terms = _prefill_terms(requests)
    if not terms:
        return ""
    fixed, linear, square = (_ms(term.value) for term in terms)
    return f" (there {fixed} whatever the prompt, {linear} in proportion to it, {square} with its square)"


def fetch_bound(least: float, found: Sequence[Reading]) -> Found:
    requests = over_prompts(found)
    if not requests:
        return _unknown("no request's TTFT and TPOT are known", "workbench sweep MODEL --prompts 1,64")
    short = requests[0]
    ratio = times(short.ttft_s or 0.0, short.ttft_interval, short.tpot_s or 1.0, short.tpot_interval)
    why = (
        f"a prefill of {_tokens(short.prompt_tokens)} takes {_ms(short.ttft_s)}, a decode step {_ms(short.tpot_s)}: "
        f"{_times_words(ratio)}"
    )
    figure = _ratio("TTFT of the shortest prompt over a step", ratio, "TTFT / TPOT", _ttft(short), _tpot(short))
    verdict = judged_flat(least, ratio)
    if verdict is Verdict.UNKNOWN:
        return Found(verdict, why, figure, ratio.interval, SPANS)
    if verdict is Verdict.ABSENT and short.prompt_tokens > 1:
        shorter = "a prompt of 1 token, whose prefill is a fetch alone: workbench sweep MODEL --prompts 1"
        return Found(Verdict.UNKNOWN, why, figure, ratio.interval, shorter)
    return Found(verdict, why, figure, ratio.interval)


def square(least: float, found: Sequence[Reading]) -> Found:
    requests = over_prefills(found)
    fitted = _prefill_fit(requests)
    if fitted is None or fitted.coefficients[2].interval is None:
        return _unknown(
            "the n² term needs TTFT of four prompt lengths at least",
            "workbench sweep MODEL --prompts 64,256,1024,4096",
        )
    n = requests[-1].prompt_tokens
    c0, c1, c2 = fitted.coefficients
    straight = c0.value + c1.value * n
    if straight <= 0:
        return _unknown("no straight line lies through these prefills", "more prompt lengths, and more repeats")
    assert c2.interval is not None
    low, high = (1 + end * n * n / straight for end in (c2.interval.low, c2.interval.high))
    ratio = Times(fitted.at(n) / straight, Interval(low, high))
    figure = _ratio(
        "TTFT of the longest prompt over a straight line's",
        ratio,
        "(c0 + c1·n + c2·n²) / (c0 + c1·n)",
        *_prefill_terms(requests),
    )
    why = f"at {_tokens(n)} TTFT beside the straight line of the shorter prompts"
    longer = f"prompts longer than {_tokens(n)}" if ratio.value < least else ""
    return _told(least, ratio, figure, why, longer)


# Decode


def _context_growth(found: Sequence[Reading]) -> tuple[Times, Quantity, str] | None:
    steps = over_contexts(found)
    if len(steps) < 2:
        return None
    short, long = steps[0], steps[-1]
    ratio = times(long.tpot_s or 0.0, long.tpot_interval, short.tpot_s or 1.0, short.tpot_interval)
    figure = _ratio(
        "TPOT of the longest context over that of the shortest",
        ratio,
        f"{_tpot(long).symbol} / {_tpot(short).symbol}",
        _tpot(long),
        _tpot(short),
        *_cache_share(long),
    )
    why = (
        f"TPOT is {_ms(short.tpot_s)} with {_tokens(short.context_tokens)} in the cache and {_ms(long.tpot_s)} with "
        f"{_tokens(long.context_tokens)}"
    )
    return ratio, figure, why


def _cache_share(reading: Reading) -> tuple[Quantity, ...]:
    row = reading.row
    if row is None or not row.cache_bytes or not row.bytes_per_step:
        return ()
    share = row.cache_bytes / row.bytes_per_step
    kt = Quantity("cache one step reads", row.cache_bytes, Unit.BYTES, Origin.ARITHMETIC, "k·t")
    moved = Quantity("bytes one step must read", row.bytes_per_step, Unit.BYTES, Origin.ARITHMETIC, "W + k·t")
    name = "share of the step's bytes that is cache"
    return (Quantity(name, share, Unit.SHARE, Origin.ARITHMETIC, "", "k·t / (W + k·t)", (kt, moved)),)


FEW_CONTEXTS = "workbench sweep MODEL --prompts 16,1024,4096"


def slows_with_context(least: float, found: Sequence[Reading]) -> Found:
    growth = _context_growth(found)
    if growth is None:
        return _unknown("TPOT is known with fewer than two contexts", FEW_CONTEXTS)
    ratio, figure, why = growth
    longer = _telling_context(over_contexts(found)[-1]) if ratio.value < least else ""
    return _told(least, ratio, figure, why, longer)


def _telling_context(longest: Reading) -> str:
    """A context that the cache would be felt at: where it is half of the weights, a third of the bytes."""
    row = longest.row
    if row is None or not row.cache_bytes or not row.weight_bytes:
        return "a context at which the cache is a third of the bytes"
    t = row.weight_bytes / 2 / (row.cache_bytes / (longest.batch * longest.context_tokens))
    return f"a context of about {format_number(t)} tokens, at which the cache is a third of the bytes"


def same_at_any_context(least: float, found: Sequence[Reading]) -> Found:
    growth = _context_growth(found)
    if growth is None:
        return _unknown("TPOT is known with fewer than two contexts", FEW_CONTEXTS)
    ratio, figure, why = growth
    return _told(least, ratio, figure, why, judge=judged_flat)


def cache_passes(least: float, found: Sequence[Reading]) -> Found:
    steps = [r for r in over_contexts(found) if r.row is not None and r.row.cache_bytes]
    B = _read_rate(steps)
    fitted = fit([(r.row.cache_bytes or 0, r.tpot_s or 0.0) for r in steps if r.row is not None], 1)
    if B is None or fitted is None or fitted.coefficients[1].interval is None:
        return _unknown("the slope over context needs steps with three contexts, and what they read", FEW_CONTEXTS)
    slope = fitted.coefficients[1]
    assert slope.interval is not None
    ratio = Times(slope.value * B.value, Interval(slope.interval.low * B.value, slope.interval.high * B.value))
    figure = _ratio(
        "what the step grows by, over what the caches' bytes take at B",
        ratio,
        "ΔTPOT / (Δ(k·t) / B)",
        Quantity("growth of TPOT for each GB of cache", slope.value * 1e9, Unit.SECONDS, Origin.MEASURED, "ΔTPOT/ΔGB"),
        B,
        *_cache_share(steps[-1]),
    )
    why = "TPOT grows with the cache, measured by the time that the cache's bytes take at B"
    return _told(least, ratio, figure, why)


def above_bytes(least: float, found: Sequence[Reading]) -> Found:
    steps = [r for r in over_contexts(found) if r.row is not None and r.row.bytes_per_step and _ceiling_rate(r.row)]
    if not steps:
        return _unknown("what a step reads, and B beside it, are not known", "workbench sweep MODEL")
    short = steps[0]
    assert short.row is not None
    B = _ceiling_rate(short.row)
    assert B is not None
    moved = Quantity(
        "bytes one step must read", short.row.bytes_per_step or 0, Unit.BYTES, Origin.ARITHMETIC, "W + k·t"
    )
    least_s = moved.value / B.value
    ratio = times(short.tpot_s or 0.0, short.tpot_interval, least_s, None)
    figure = _ratio("the step over the time of its bytes", ratio, "TPOT / ((W + k·t) / B)", _tpot(short), moved, B)
    at = "B" if B.origin is Origin.MEASURED else f"the {B.origin}'s {B}"
    why = f"with {_tokens(short.context_tokens)} a step takes {_ms(short.tpot_s)}, its bytes at {at} {_ms(least_s)}"
    which = "workbench gap MODEL takes the step apart; the same sweep in another dtype says whether this one is slow"
    return _told(least, ratio, figure, why, which if ratio.value >= least else "")


def _ceiling_rate(row: Row) -> Quantity | None:
    """B as it was read beside a row; of a row that nothing was read beside, as another tool's, that of its ceiling."""
    if row.read_gb_per_s:
        return Quantity("read rate beside it", row.read_gb_per_s * 1e9, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B")
    if not row.ceiling_read_gb_per_s:
        return None
    origin = Origin.VENDOR if row.ceiling_read_gb_per_s == row.vendor_gb_per_s else Origin.MEASURED
    return Quantity("bandwidth of its ceiling", row.ceiling_read_gb_per_s * 1e9, Unit.BYTES_PER_SECOND, origin, "B")


def below_vendor(least: float, found: Sequence[Reading]) -> Found:
    B = _read_rate([r for r in found if r.row is not None and r.row.read_gb_per_s])
    vendor = max((r.row.vendor_gb_per_s or 0.0 for r in found if r.row is not None), default=0.0)
    if B is None or not vendor:
        return _unknown(
            "no vendor's bandwidth stands beside B in these rows",
            "a run on the track whose device this is: Setup's track, or workbench gap MODEL --track NAME",
        )
    printed = Quantity("bandwidth the vendor prints", vendor * 1e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "vendor's")
    ratio = times(printed.value, None, B.value, None)
    figure = _ratio("the vendor's bandwidth over B", ratio, "vendor's / B", printed, B)
    return _told(least, ratio, figure, f"the vendor prints {printed}, the box reads {B}")


def second_memory(least: float, found: Sequence[Reading]) -> Found:
    rows = [r.row for r in found if r.row is not None and r.row.swapped_bytes is not None and r.row.weight_bytes]
    if not rows:
        return _unknown(
            "these rows don't say where the weights lay",
            "the engine's own log of what it offloaded; workbench split MODEL says what a share of it costs",
        )
    worst = max(rows, key=lambda row: (row.swapped_bytes or 0) / (row.weight_bytes or 1))
    share = (worst.swapped_bytes or 0) / (worst.weight_bytes or 1)
    swapped, weights = (format_value(count or 0, Unit.BYTES) for count in (worst.swapped_bytes, worst.weight_bytes))
    why = f"{swapped} went to or from swap, beside {weights} of weights that a step reads"
    if share >= SWAPPED_SHARE:
        return Found(Verdict.PRESENT, why)
    return Found(Verdict.ABSENT, f"{why}, and the engine held all of them in one memory")


def other_work(least: float, found: Sequence[Reading]) -> Found:
    rows = [
        r.row for r in found if r.row is not None and (r.row.other_load is not None or r.row.stolen_share is not None)
    ]
    if not rows:
        return _unknown("what else ran on the box is not known", "workbench sweep MODEL, which counts it")
    other, stolen = (max(getattr(row, name) or 0.0 for row in rows) for name in ("other_load", "stolen_share"))
    lost = min(max(other, stolen), 0.99)
    ratio = times(1.0, None, 1 - lost, None)
    shares = (
        Quantity("share of all cores others had, the most of a row", other, Unit.SHARE, Origin.MEASURED, "other load"),
        Quantity("share the hypervisor took, the most of a row", stolen, Unit.SHARE, Origin.MEASURED, "stolen"),
    )
    figure = _ratio("how much longer it can have made a row", ratio, "1 / (1 − max(other load, stolen))", *shares)
    noisy = sum(row.judgement in (*UNSTEADY, Judgement.DISTURBED) for row in rows)
    varying = f"{noisy} of {len(rows)} rows vary or drift"
    why = f"others had up to {shares[0]} of the cores, the hypervisor {shares[1]}; {varying}"
    present = other >= BUSY_SHARE or stolen >= STOLEN_SHARE
    return Found(Verdict.PRESENT if present else Verdict.ABSENT, why, figure, ratio.interval)


# Batching

FEW_BATCHES = "workbench batch MODEL --contexts 2,256 --batches 1,2,4,8,16,32"


def slows_with_batch(least: float, found: Sequence[Reading]) -> Found:
    contexts = over_batches(found)
    if not contexts:
        return _unknown("no context's steps are known with two batches", FEW_BATCHES)

    def growth(steps: Sequence[Reading]) -> Times:
        few, many = steps[0], steps[-1]
        return times(many.tpot_s or 0.0, many.tpot_interval, few.tpot_s or 1.0, few.tpot_interval)

    steps = max(contexts.values(), key=lambda steps: growth(steps).value)
    ratio, few, many = growth(steps), steps[0], steps[-1]
    each, total = (1 / (r.tpot_s or 1.0) for r in (few, many)), (r.batch / (r.tpot_s or 1.0) for r in (few, many))
    alone, beside = map(format_number, each)
    before, after = map(format_number, total)
    why = (
        f"with {_tokens(few.prompt_tokens)} each a step of {few.batch:,} takes {_ms(few.tpot_s)} and one of "
        f"{many.batch:,} {_ms(many.tpot_s)}, so each gets {beside} tok/s instead of {alone}, all together {after} "
        f"instead of {before}"
    )
    figure = _ratio(
        "step of the most sequences over that of the fewest",
        ratio,
        f"{_tpot(many).symbol} / {_tpot(few).symbol}",
        _tpot(many),
        _tpot(few),
    )
    return _told(least, ratio, figure, why)


def limited_by(limit: Limit) -> Check:
    """The test for one of the limits of batching, as the doublings of the rows name it."""

    def test(least: float, found: Sequence[Reading]) -> Found:
        each = doublings([r.row for r in found if r.row is not None and r.row.kind == BATCH])
        if not each:
            return _unknown("no context's total rate is known with two batches", FEW_BATCHES)
        named = [one for one in each if one.limit is limit]
        sure = [one for one in named if one.unsure is None or not one.stops]
        if sure:
            return Found(Verdict.PRESENT, "; ".join(one.sentence for one in sure))
        if named:
            return Found(Verdict.UNKNOWN, "; ".join(one.verdict for one in named), would_tell=SPANS)
        return Found(Verdict.ABSENT, "; ".join(one.verdict for one in each))

    return test
