"""The ladder from rounds of measurements: what each part adds to its floor, and what is left over.

A part is timed in up to three ways: alone, by replaying its calls; by leaving it out of the running pass; and in place,
by a clock around its calls inside the pass. Each has an error of its own: replayed, a part finds the memory near the
cores as it left it itself; left out, it also spares the others the memory it would have displaced; in place, the clock
is part of what it times. The rung is the middle one of the ways' medians, and its interval covers all of them; the
framework's is what lies between the parts in place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from workbench.ceilings.split import slower_memory_adds
from workbench.experiments.gap.floors import B_RUN, Floor, SlowMemory, Work, ceiling, floor, over_two_memories
from workbench.experiments.gap.parts import InPlace, Part, Sample
from workbench.experiments.statistics import Interval, bootstrap_interval, median_interval
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, OTHER_LOAD, REMAINDER, SPLIT_MEMORY, Ladder, Rung

RESAMPLES = 200
FRAMEWORK = "framework: dispatch and Python"


@dataclass(frozen=True)
class Round:
    """One interleaved round: the pass whole, several times; each part every way; and the box's B meanwhile.

    `left_out_s` are a part's seconds as the passes before and after took longer than the one without it, of the parts
    that were left out. `empty` is the pass with every part left out of it. `short` and `narrow` are the same of the
    short pass and the narrow model.
    """

    wholes: tuple[Sample, ...]
    alone: Mapping[Part, Sample]
    left_out_s: Mapping[Part, float]
    in_place: InPlace | None
    empty: Sample
    short_in_place: InPlace | None
    short_empty: Sample | None
    narrow_in_place: InPlace | None
    B: float


@dataclass(frozen=True)
class Rates:
    """The box's rates: B and C at its quietest, C of this run, and the vendor's, None where no figure of his is known.

    `quiet_read` is the probe's or the best of this run up to its last round, whichever is greater; `slow` the second
    memory that part of the weights lies on, None where there is none.
    """

    quiet_read: Quantity
    quiet_product: Quantity
    product: float
    vendor_read: Quantity | None = None
    vendor_product: Quantity | None = None
    slow: SlowMemory | None = None


Way = Callable[[Sequence[Round]], float | None]


def ladder(
    phase: str, tokens: int, batch: int, work: Mapping[Part, Work], rounds: Sequence[Round], rates: Rates
) -> Ladder:
    """The ladder of a pass with this work, from these rounds; raises ValueError where there are none.

    Ceiling, rungs and remainder add up to the measured time exactly.
    """
    if not rounds:
        raise ValueError("a ladder needs at least one round")
    work = over_two_memories(work, rates.slow)
    top = ceiling(work, rates.vendor_read or rates.quiet_read, rates.vendor_product or rates.quiet_product)
    quiet = floor(work, rates.quiet_read.value, rates.quiet_product.value)
    usual = floor(work, _usual_read(rounds), rates.product)
    split = floor(work, _usual_read(rounds), rates.product, None if rates.slow is None else rates.slow.rate)
    rungs = [_rates_below(top, quiet, rates)] if rates.vendor_read is not None else []
    if rates.slow is not None:
        rungs.append(_split_memory(rates.slow, usual, split))
    for part in Part:
        rungs.append(_rung(part, _ways(part), rounds, split.quantity(part)))
        if part is Part.ELEMENTWISE:
            rungs.append(_rung(FRAMEWORK, _FRAMEWORK_WAYS, rounds, None))
    rungs += [_other_load(rounds), _below_quiet(work, rounds, rates, quiet, usual)]
    seconds = _measured(rounds)
    measured = Quantity(
        "measured time of the pass",
        seconds,
        Unit.SECONDS,
        Origin.MEASURED,
        "measured",
        source=f"median of {sum(len(each.wholes) for each in rounds)} passes in {len(rounds)} rounds",
    )
    spread = _measured_interval(rounds)
    return Ladder(
        phase,
        tokens,
        batch,
        top,
        measured,
        tuple(rungs),
        _remainder(top, rungs, rounds),
        len(rounds),
        low_s=None if spread is None else max(0.0, min(spread.low, seconds)),
        high_s=None if spread is None else max(spread.high, seconds),
    )


def _measured(rounds: Sequence[Round]) -> float:
    return median(sample.wall_s for each in rounds for sample in each.wholes)


def _measured_interval(rounds: Sequence[Round]) -> Interval | None:
    """Of rounds rather than passes: those of one round share what the box was doing meanwhile."""
    return median_interval([_measured([each]) for each in rounds])


def _own(rounds: Sequence[Round]) -> float:
    return median(sample.own_s for each in rounds for sample in each.wholes)


def _usual_read(rounds: Sequence[Round]) -> float:
    return median(each.B for each in rounds)


def _ways(part: Part) -> Mapping[str, Way]:
    """The part's seconds each way; what elementwise work is done between the calls counts with the elementwise part."""
    inline = part is Part.ELEMENTWISE
    return {
        "alone, replayed": lambda rounds: (
            median(each.alone[part].own_s for each in rounds) + (_inline_empty(rounds) if inline else 0.0)
        ),
        "left out of the pass": lambda rounds: (
            None
            if any(part not in each.left_out_s for each in rounds)
            else median(each.left_out_s[part] for each in rounds) + (_inline_empty(rounds) if inline else 0.0)
        ),
        "in place": lambda rounds: (
            None
            if any(each.in_place is None for each in rounds)
            else median(each.in_place.own_s(part) for each in rounds if each.in_place is not None)
            + (_inline_in_place(rounds) if inline else 0.0)
        ),
    }


def _inline_empty(rounds: Sequence[Round]) -> float:
    """Seconds that what is between the parts grows by from the short pass to the pass, with every part left out."""
    grown = [each.empty.own_s - each.short_empty.own_s for each in rounds if each.short_empty is not None]
    return max(0.0, median(grown)) if grown else 0.0


def _inline_in_place(rounds: Sequence[Round]) -> float:
    """The same, as the clocks around the parts leave it."""
    grown = [
        each.in_place.between_s - each.short_in_place.between_s
        for each in rounds
        if each.in_place is not None and each.short_in_place is not None
    ]
    return max(0.0, median(grown)) if grown else 0.0


def _between(rounds: Sequence[Round]) -> float | None:
    found = [each.short_in_place or each.in_place for each in rounds]
    known = [each.between_s for each in found if each is not None]
    return median(known) if known else None


def _narrow(rounds: Sequence[Round]) -> float | None:
    known = [each.narrow_in_place.between_s for each in rounds if each.narrow_in_place is not None]
    return median(known) if known else None


BETWEEN = "between the parts, in place"
WHY_BETWEEN = (
    f"the time {BETWEEN}, stands rather than the middle one: run without the kernels, Python keeps its code and data "
    "near the core, from where the kernels of a real pass displace them"
)
_FRAMEWORK_WAYS: Mapping[str, Way] = {
    "with every part left out": lambda rounds: median((each.short_empty or each.empty).own_s for each in rounds),
    BETWEEN: _between,
    "at negligible width": _narrow,
}


def _chosen(found: Mapping[str, float]) -> float:
    """What stands for a part: the middle of its ways; of the framework the time in place, for what WHY_BETWEEN says."""
    return found[BETWEEN] if BETWEEN in found else median(found.values())


def _rung(name: str, ways: Mapping[str, Way], rounds: Sequence[Round], least: Quantity | None) -> Rung:
    found = {way: seconds for way, of in ways.items() if (seconds := of(rounds)) is not None}
    intervals = [_interval(rounds, ways[way]) for way in found]
    inputs = [Quantity(way, seconds, Unit.SECONDS, Origin.MEASURED) for way, seconds in found.items()]
    floor_s = 0.0 if least is None else least.value
    if least is not None:
        inputs.append(least)
    time = Quantity(
        name,
        _chosen(found) - floor_s,
        Unit.SECONDS,
        Origin.MEASURED,
        formula=(BETWEEN if BETWEEN in found else f"middle of {len(found)} ways") + (" − floor" if floor_s else ""),
        inputs=tuple(inputs),
    )
    said = ", ".join(f"{way} {seconds * 1e3:.2f}" for way, seconds in found.items())
    stands = f"; {WHY_BETWEEN}" if BETWEEN in found else ""
    less = "" if least is None else f"; less its floor, {' at '.join(map(str, least.inputs))}: {floor_s * 1e3:.2f} ms"
    return Rung(
        str(name),
        time,
        min(interval.low for interval in intervals) - floor_s,
        max(interval.high for interval in intervals) - floor_s,
        f"{said} ms{less}{stands}",
    )


def _interval(rounds: Sequence[Round], way: Way) -> Interval:
    return bootstrap_interval(rounds, lambda drawn: way(drawn) or 0.0, resamples=RESAMPLES)


def _rates_below(top: Quantity, quiet: Floor, rates: Rates) -> Rung:
    seconds = quiet.total_s - top.value
    time = arithmetic(
        BELOW_VENDOR,
        seconds,
        Unit.SECONDS,
        formula="ceiling at this box's rates − at the vendor's",
        inputs=(arithmetic("at this box's rates", quiet.total_s, Unit.SECONDS), top),
    )
    return Rung(
        BELOW_VENDOR,
        time,
        seconds,
        seconds,
        f"B {rates.quiet_read} of {rates.vendor_read}, C {rates.quiet_product} of "
        f"{rates.vendor_product or 'no figure'}: ceiling {top.value * 1e3:.2f} → {quiet.total_s * 1e3:.2f} ms",
    )


def _split_memory(slow: SlowMemory, usual: Floor, split: Floor) -> Rung:
    """What the slower memory adds to the floor of the pass: its bytes at its rate less the same bytes at B."""
    W_slow = arithmetic(
        "bytes read from the slower memory", sum(each.slow_bytes for each in split.work.values()), Unit.BYTES, "W_slow"
    )
    if split.by_maths or usual.by_maths:
        seconds = split.total_s - usual.total_s
        formula = "floor over two memories − floor over one, where operations bind one of them"
        time = arithmetic(SPLIT_MEMORY, seconds, Unit.SECONDS, "split", formula, (W_slow, slow.rate))
    else:
        B = Quantity("median rate of this run's rounds", usual.rate, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B_fast")
        time = slower_memory_adds(W_slow, slow.rate, B)
    evidence = f"arithmetic: {W_slow} at {slow.rate} instead of {usual.rate / 1e9:.1f} GB/s ({slow.source})"
    return Rung(SPLIT_MEMORY, time, time.value, time.value, evidence)


def _other_load(rounds: Sequence[Round]) -> Rung:
    """What others cost: the wait for cores that they had."""

    def cost(drawn: Sequence[Round]) -> float:
        return _measured(drawn) - _own(drawn)

    spread = bootstrap_interval(rounds, cost, resamples=RESAMPLES)
    least = median(sample.least_waited_s for each in rounds for sample in each.wholes)
    most = median(sample.most_waited_s for each in rounds for sample in each.wholes)
    waited = cost(rounds)
    time = Quantity(OTHER_LOAD, waited, Unit.SECONDS, Origin.MEASURED, formula="wait for cores that others had")
    evidence = (
        f"waiting for cores {waited * 1e3:.2f} ms ({least * 1e3:.2f} by the longest wait of one thread, "
        f"{most * 1e3:.2f} by all)"
    )
    return Rung(OTHER_LOAD, time, min(spread.low, waited, least), max(spread.high, waited, most), evidence)


def _below_quiet(work: Mapping[Part, Work], rounds: Sequence[Round], rates: Rates, quiet: Floor, usual: Floor) -> Rung:
    """What the rates of this run cost, by which it is slower than the quiet box.

    The interval is of the median of the rounds' B, and of the quiet box's, which is a single reading and may be as far
    off as any one round's is from their median.
    """
    B, B_quiet, C_quiet = _usual_read(rounds), rates.quiet_read.value, rates.quiet_product.value

    def cost(drawn: Sequence[Round]) -> float:
        misread = drawn[0].B / B
        least = floor(work, B_quiet / misread, C_quiet)
        return floor(work, _usual_read(drawn), rates.product).total_s - least.total_s

    slower = usual.total_s - quiet.total_s
    spread = bootstrap_interval(rounds, cost, resamples=RESAMPLES)
    B_run = Quantity(f"median of {len(rounds)} readings, one a round", B, Unit.BYTES_PER_SECOND, Origin.MEASURED, B_RUN)
    time = Quantity(
        BELOW_QUIET,
        slower,
        Unit.SECONDS,
        Origin.MEASURED,
        formula="ceiling_run − ceiling_quiet",
        inputs=(
            _ceiling_at("rates of this run", "ceiling_run", usual, B_run),
            _ceiling_at("quiet box's rates", "ceiling_quiet", quiet, rates.quiet_read),
        ),
    )
    evidence = (
        f"B {B / 1e9:.1f} GB/s in the middle of this run ({B_RUN}), {rates.quiet_read} when quiet "
        f"({rates.quiet_read.name})"
    )
    return Rung(BELOW_QUIET, time, min(spread.low, slower), max(spread.high, slower), evidence)


def _ceiling_at(whose: str, symbol: str, least: Floor, B: Quantity) -> Quantity:
    return Quantity(f"ceiling at the {whose}", least.total_s, Unit.SECONDS, Origin.MEASURED, symbol, inputs=(B,))


def _remainder(top: Quantity, rungs: Sequence[Rung], rounds: Sequence[Round]) -> Rung:
    """What no experiment has shown, signed; its interval is of the measured time and of all that was taken from it."""
    known = sum(rung.time.value for rung in rungs)
    seconds = _measured(rounds) - top.value - known

    def left(drawn: Sequence[Round]) -> float:
        parts = [_middle(_ways(part), drawn) for part in Part]
        return _own(drawn) - sum(parts) - _middle(_FRAMEWORK_WAYS, drawn)

    spread = bootstrap_interval(rounds, left, resamples=RESAMPLES)
    time = arithmetic(REMAINDER, seconds, Unit.SECONDS, formula="measured − ceiling − every rung")
    return Rung(
        REMAINDER,
        time,
        min(spread.low, seconds),
        max(spread.high, seconds),
        "what none of the experiments above shows; never part of another rung",
    )


def _middle(ways: Mapping[str, Way], rounds: Sequence[Round]) -> float:
    return _chosen({way: seconds for way, of in ways.items() if (seconds := of(rounds)) is not None})
