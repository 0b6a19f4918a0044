"""The ladder of one pass as rows alone show it: what lines through contexts, batches, prompts and threads leave over.

No pass is taken apart for it, so its rungs are coarser: a line through the points says what every pass costs beyond its
floor, and what grows with the context, the sequences or the prompt beyond theirs. The points' times beyond their own
floors are fitted, so each coefficient is a rung: excess = c_fixed + c_context·k·t + c_sequence·b of a decode step,
c_fixed + c_prompt·n + c_attention·n² of a prefill.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt

from workbench.ceilings.split import SlowShare, split_cost
from workbench.errors import StoreError
from workbench.experiments.statistics import Interval, student_t_95
from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_number, format_value
from workbench.runs.ladder import (
    BELOW_VENDOR,
    DECODE,
    OTHER_LOAD,
    PREFILL,
    REMAINDER,
    SPLIT_MEMORY,
    Ladder,
    Rung,
)
from workbench.runs.readings import Coefficient, Reading, fit_terms, range_words, readings, times
from workbench.runs.row import Row

FIXED = "fixed cost of every pass"
CONTEXT = "context beyond its cache's bytes"
SEQUENCES = "each sequence beyond its cache"
PROMPT = "prompt beyond its operations"
SQUARE = "attention's n² beyond its operations"
WAYS_TO_A_CEILING = (
    "Of imported rows the model tells it: `workbench runs import FILE --model MODEL`; why a model that was named was "
    "not taken, `workbench runs show` says. `workbench sweep MODEL` measures rows that have it."
)
ROUNDING = 1e-12
ENOUGH_SPARE = 2
"""Points beyond the coefficients from which the residuals say where these lie; with one, the interval says nothing."""


@dataclass(frozen=True)
class Asked:
    """Which pass of the rows: None is the longest context or prompt, and the most sequences, that were measured."""

    phase: str = DECODE
    tokens: int | None = None
    batch: int | None = None


@dataclass(frozen=True)
class VendorRates:
    """What the vendor of the box prints: bytes and operations a second, None where he prints none."""

    read: Quantity
    product: Quantity | None = None


@dataclass(frozen=True)
class _Point:
    """One pass of the rows: what it must do, and what it took; B in bytes/s as it was beside it, None if unknown."""

    tokens: int
    batch: int
    moved: float
    cache_bytes: float
    flop: float
    seconds: float
    interval: Interval | None
    B: float | None
    row: Row


@dataclass(frozen=True)
class _Box:
    """The best rates that the rows know of the box, in bytes/s and FLOP/s."""

    B: Quantity
    C: Quantity | None

    def floor_s(self, point: _Point, B: float | None = None) -> float:
        """max(bytes / B, F / C) of a pass, at the B of its minute where that is given."""
        by_bytes = point.moved / (B or self.B.value)
        return by_bytes if self.C is None else max(by_bytes, point.flop / self.C.value)


Term = Callable[[_Point], float]


def row_ladder(
    rows: Sequence[Row],
    asked: Asked | None = None,
    vendor: VendorRates | None = None,
    slow: SlowShare | None = None,
) -> Ladder:
    """The ladder of one pass from rows of one model on one box and engine, and what these rows can't tell.

    `vendor` takes the place of the vendor's bandwidth in the rows; with `slow` a share of the bytes lies on a slower
    memory. Rows of several thread counts give the ladder of the most threads. Raises StoreError where the rows hold no
    such pass, or don't say what it must read.
    """
    asked = asked or Asked()
    all_points = _points(rows, asked.phase)
    threads = max(point.row.threads for point in all_points)
    points = [point for point in all_points if point.row.threads == threads]
    chosen = _chosen(points, asked)
    vendor = vendor or _vendor_of(rows)
    box = _box(points, vendor)
    top_s = _Box(vendor.read, vendor.product or box.C).floor_s(chosen) if vendor else box.floor_s(chosen)
    top = _ceiling(chosen, box, vendor, top_s)
    floors = {id(point): box.floor_s(point, point.B) + _split_s(slow, point, box) for point in points}
    rungs = []
    if vendor is not None and vendor.read is not box.B:
        rungs.append(_below_vendor(chosen, box, vendor, top))
    if slow is not None:
        rungs.append(split_rung(slow, chosen.moved, box.B))
    if chosen.B is not None and box.B.value > chosen.B:
        rungs.append(_other_load(chosen, box))
    terms = _terms(points, asked.phase)
    fitted, scatter_s = _fitted(points, chosen, terms, floors, _threads_words(all_points, chosen))
    rungs += fitted
    measured = _measured(chosen)
    known = top.value + sum(rung.time.value for rung in rungs)
    return Ladder(
        phase=asked.phase,
        tokens=chosen.tokens,
        batch=chosen.batch,
        ceiling=top,
        measured=measured,
        rungs=tuple(rungs),
        remainder=_remainder(chosen, measured.value - known, scatter_s),
        rounds=0,
        notes=tuple(_cannot_tell(rows, terms, asked.phase, box, vendor, slow)),
        low_s=None if chosen.interval is None else chosen.interval.low,
        high_s=None if chosen.interval is None else chosen.interval.high,
    )


# The points


def _points(rows: Sequence[Row], phase: str) -> list[_Point]:
    found = [point for r in readings(rows) if (point := (_prefill if phase == PREFILL else _step)(r)) is not None]
    if found:
        return found
    what = "TTFT of one sequence" if phase == PREFILL else "decode step"
    raise StoreError(
        f"These rows hold no {what} together with what it must read, so there is no ceiling to begin a ladder from. "
        f"{WAYS_TO_A_CEILING if rows else 'There are no rows.'}"
    )


def _step(reading: Reading) -> _Point | None:
    row = reading.row
    if row is None or not reading.tpot_s or not row.bytes_per_step:
        return None
    return _Point(
        reading.prompt_tokens,
        reading.batch,
        row.bytes_per_step,
        row.cache_bytes or 0,
        row.step_flop or 0,
        reading.tpot_s,
        reading.tpot_interval,
        _bytes_a_second(row.read_gb_per_s),
        row,
    )


def _prefill(reading: Reading) -> _Point | None:
    row = reading.row
    if row is None or not reading.ttft_s or not row.weight_bytes or reading.batch != 1:
        return None
    if reading.context_tokens > reading.prompt_tokens + row.new_tokens:
        # Other tokens lay in the cache before it: that is more work than a prompt of its own.
        return None
    return _Point(
        reading.prompt_tokens,
        1,
        row.weight_bytes,
        0,
        row.prefill_flop or 0,
        reading.ttft_s,
        reading.ttft_interval,
        _bytes_a_second(row.read_gb_per_s),
        row,
    )


def _bytes_a_second(gb_per_s: float | None) -> float | None:
    return gb_per_s * 1e9 if gb_per_s else None


def _chosen(points: Sequence[_Point], asked: Asked) -> _Point:
    tokens = max(point.tokens for point in points) if asked.tokens is None else asked.tokens
    of_tokens = [point for point in points if point.tokens == tokens]
    batch = max((point.batch for point in of_tokens), default=1) if asked.batch is None else asked.batch
    found = [point for point in of_tokens if point.batch == batch]
    if not found:
        known = ", ".join(f"{point.tokens:,} × {point.batch:,}" for point in points)
        raise StoreError(
            f"These rows hold no pass of {tokens:,} tokens and {batch:,} sequences. They hold, tokens × sequences: "
            f"{known}."
        )
    return found[-1]


# The rates


def _vendor_of(rows: Sequence[Row]) -> VendorRates | None:
    printed = max((row.vendor_gb_per_s or 0.0 for row in rows), default=0.0)
    if not printed:
        return None
    name = "bandwidth the vendor prints for the track's device"
    return VendorRates(Quantity(name, printed * 1e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B"))


def _box(points: Sequence[_Point], vendor: VendorRates | None) -> _Box:
    """B and C of the box at its quietest; the vendor's B stands in where nobody has read its memory."""
    rows = [point.row for point in points]
    known = [rate for row in rows for rate in (row.read_gb_per_s, row.calibrated_gb_per_s) if rate]
    peaks = [row.peak_gflop_per_s for row in rows if row.peak_gflop_per_s]
    C = None
    if peaks:
        C = Quantity(
            "best product rate beside these rows", max(peaks) * 1e9, Unit.FLOP_PER_SECOND, Origin.MEASURED, "C"
        )
    elif vendor is not None:
        C = vendor.product
    if known:
        name = "best read rate that these rows, or the probe before them, know of the box"
        return _Box(Quantity(name, max(known) * 1e9, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B"), C)
    if vendor is None:
        raise StoreError(
            "No bandwidth stands beside these rows, so there is no ceiling to begin a ladder from. Name the box they "
            "were measured on: --track NAME (`workbench presets` lists tracks and devices)."
        )
    return _Box(vendor.read, C)


# The rungs


def _ceiling(chosen: _Point, box: _Box, vendor: VendorRates | None, seconds: float) -> Quantity:
    B, C = (vendor.read, vendor.product or box.C) if vendor else (box.B, box.C)
    moved = arithmetic("bytes the pass must read", chosen.moved, Unit.BYTES, "W + b·k·t")
    if C is None or not chosen.flop:
        return arithmetic("least time of the pass", seconds, Unit.SECONDS, "ceiling", "(W + b·k·t) / B", (moved, B))
    F = arithmetic("operations of the pass", chosen.flop, Unit.FLOP, "F")
    formula = "max((W + b·k·t) / B, F / C)"
    return arithmetic("least time of the pass", seconds, Unit.SECONDS, "ceiling", formula, (moved, F, B, C))


def _below_vendor(chosen: _Point, box: _Box, vendor: VendorRates, top: Quantity) -> Rung:
    here = arithmetic("at this box's rates", box.floor_s(chosen), Unit.SECONDS, "here", inputs=(box.B,))
    seconds = here.value - top.value
    formula = "ceiling at this box's rates − at the vendor's"
    time = arithmetic(BELOW_VENDOR, seconds, Unit.SECONDS, formula=formula, inputs=(here, top))
    return Rung(BELOW_VENDOR, time, seconds, seconds, f"the box reads {box.B}, its vendor prints {vendor.read}")


def split_rung(slow: SlowShare, moved: float, B: Quantity) -> Rung:
    """What the share of the bytes on a slower memory adds to a pass that reads `moved` bytes."""
    time = split_cost(slow, arithmetic("bytes the pass must read", moved, Unit.BYTES, "W + b·k·t"), B)
    evidence = f"arithmetic: {slow.share} of the bytes at {slow.rate} instead of {B}, as if read one after the other"
    return Rung(SPLIT_MEMORY, time, time.value, time.value, evidence)


def _split_s(slow: SlowShare | None, point: _Point, box: _Box) -> float:
    return 0.0 if slow is None else split_rung(slow, point.moved, box.B).time.value


def _other_load(chosen: _Point, box: _Box) -> Rung:
    now = Quantity("read rate beside this row", chosen.B or 0.0, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B_row")
    seconds = box.floor_s(chosen, chosen.B) - box.floor_s(chosen)
    formula = "ceiling at B_row − at B"
    time = Quantity(OTHER_LOAD, seconds, Unit.SECONDS, Origin.MEASURED, formula=formula, inputs=(now, box.B))
    stolen = chosen.row.stolen_share
    also = "" if stolen is None else f"; the hypervisor took {format_value(stolen, Unit.SHARE)} of the cores"
    return Rung(OTHER_LOAD, time, seconds, seconds, f"beside this row the box read {now}, at its best {box.B}{also}")


def _terms(points: Sequence[_Point], phase: str) -> Mapping[str, Term]:
    """What the points can tell apart; nothing where they are all of one size."""
    if phase == PREFILL:
        prompts = len({point.tokens for point in points})
        powers: dict[str, Term] = {FIXED: lambda _: 1.0, PROMPT: lambda point: float(point.tokens)}
        if prompts > 2:
            powers[SQUARE] = lambda point: float(point.tokens**2)
        return powers if prompts > 1 else {}
    found: dict[str, Term] = {}
    if len({point.cache_bytes / point.batch for point in points}) > 1:
        found[CONTEXT] = lambda point: point.cache_bytes
    if len({point.batch for point in points}) > 1:
        found[SEQUENCES] = lambda point: float(point.batch)
    found = {FIXED: lambda _: 1.0, **found} if found else {}
    return found if len(points) >= len(found) else {}


def _fitted(
    points: Sequence[_Point], chosen: _Point, terms: Mapping[str, Term], floors: Mapping[int, float], threads: str
) -> tuple[list[Rung], float | None]:
    """A rung for each coefficient, as it is at the chosen point, and how far such a point may lie from the line.

    That is half a 95 per cent interval of one point, None where there are no points to spare for it.
    """
    if not terms:
        return [], None
    names = list(terms)

    def coefficients(seconds: Sequence[float]) -> tuple[Coefficient, ...] | None:
        lines = [
            ([term(point) for term in terms.values()], s - floors[id(point)], point.seconds)
            for point, s in zip(points, seconds, strict=True)
        ]
        found = fit_terms(lines)
        return None if found is None else found.coefficients

    times = [point.seconds for point in points]
    found = coefficients(times)
    if found is None:
        return [], None
    moved = [
        coefficients([s + (half if i == j else 0.0) for j, s in enumerate(times)])
        for i, point in enumerate(points)
        if (half := 0.0 if point.interval is None else point.interval.half_width)
    ]
    spare = len(points) - len(terms)
    rungs = []
    for at, name in enumerate(names):
        size = terms[name](chosen)
        seconds = found[at].value * size
        errors = [(each[at].value - found[at].value) * size for each in moved if each is not None]
        interval, sure = _where(seconds, found[at], size, errors, spare)
        evidence = f"{_line_words(names, points)}: {_per_words(name, found[at].value)}{sure}"
        inputs = _input(name, chosen)
        time = Quantity(name, seconds, Unit.SECONDS, Origin.MEASURED, formula=_formula(name), inputs=inputs)
        threads_too = threads if name == FIXED else ""
        rungs.append(Rung(name, time, interval.low, interval.high, evidence + threads_too))
    return rungs, _scatter_s(points, chosen, terms, floors, [c.value for c in found])


def _scatter_s(
    points: Sequence[_Point],
    chosen: _Point,
    terms: Mapping[str, Term],
    floors: Mapping[int, float],
    coefficients: Sequence[float],
) -> float | None:
    spare = len(points) - len(terms)
    if spare < ENOUGH_SPARE:
        return None

    def off(point: _Point) -> float:
        along = sum(c * term(point) for c, term in zip(coefficients, terms.values(), strict=True))
        return (point.seconds - floors[id(point)] - along) / point.seconds

    return student_t_95(spare) * sqrt(sum(off(point) ** 2 for point in points) / spare) * chosen.seconds


def _where(
    seconds: float, coefficient: Coefficient, size: float, errors: Sequence[float], spare: int
) -> tuple[Interval, str]:
    """Where a rung lies, by the points' distance from the line, else by their own intervals; and what is lacking."""
    if spare >= ENOUGH_SPARE and coefficient.interval is not None:
        return Interval(coefficient.interval.low * size, coefficient.interval.high * size), ""
    if errors:
        half = hypot(*errors)
        return Interval(seconds - half, seconds + half), "; by the points' own intervals, too few to test the line"
    return (
        Interval(min(0.0, 2 * seconds), max(0.0, 2 * seconds)),
        "; neither spare points nor repeats say how sure that is",
    )


def _formula(name: str) -> str:
    return {CONTEXT: "c·b·k·t", SEQUENCES: "c·b", PROMPT: "c·n", SQUARE: "c·n²"}.get(name, "c")


def _input(name: str, chosen: _Point) -> tuple[Quantity, ...]:
    match name:
        case _ if name == CONTEXT:
            return (arithmetic("cache the pass reads", chosen.cache_bytes, Unit.BYTES, "b·k·t"),)
        case _ if name == SEQUENCES:
            return (arithmetic("sequences", chosen.batch, Unit.COUNT, "b"),)
        case _ if name in (PROMPT, SQUARE):
            return (arithmetic("prompt", chosen.tokens, Unit.TOKENS, "n"),)
        case _:
            return ()


def _line_words(names: Sequence[str], points: Sequence[_Point]) -> str:
    over = " and ".join(
        words for name, words in ((CONTEXT, "contexts"), (SEQUENCES, "batches"), (PROMPT, "prompts")) if name in names
    )
    return f"line through {len(points)} points over {over}, each above its floor"


def _per_words(name: str, c: float) -> str:
    match name:
        case _ if name == FIXED:
            return f"{format_value(c, Unit.SECONDS)} whatever the point"
        case _ if name == CONTEXT:
            return f"{format_value(c * 1e9, Unit.SECONDS)} for each GB of cache beyond what it takes at B"
        case _ if name == SEQUENCES:
            return f"{format_value(c, Unit.SECONDS)} for each sequence"
        case _ if name == PROMPT:
            return f"{format_value(c, Unit.SECONDS)} for each token beyond its operations at C"
        case _:
            return f"{format_value(c * 1e6, Unit.SECONDS)} for each 1,000 × 1,000 tokens beyond attention's operations"


def _measured(chosen: _Point) -> Quantity:
    row = chosen.row
    return Quantity(
        "measured time of the pass",
        chosen.seconds,
        Unit.SECONDS,
        Origin.MEASURED,
        "measured",
        source=f"a row of {row.run_id}, {row.repeats:,} repeats by {row.engine}",
    )


def _remainder(chosen: _Point, seconds: float, scatter_s: float | None) -> Rung:
    own = 0.0 if chosen.interval is None else chosen.interval.half_width
    half = max(own, scatter_s or 0.0)
    # What is left of adding and taking away is no time.
    seconds = seconds if abs(seconds) > ROUNDING * chosen.seconds else 0.0
    time = arithmetic(REMAINDER, seconds, Unit.SECONDS, formula="measured − ceiling − every rung")
    what = (
        "what no line through these points tells apart"
        if scatter_s is None
        else f"how far this point lies from the line; points lie up to {format_value(scatter_s, Unit.SECONDS)} from it"
    )
    return Rung(REMAINDER, time, seconds - half, seconds + half, what)


# What is left to say


def _threads_words(points: Sequence[_Point], chosen: _Point) -> str:
    """How the chosen pass goes with more threads, where other rows have it on fewer."""
    same = {p.row.threads: p for p in points if (p.tokens, p.batch) == (chosen.tokens, chosen.batch)}
    if len(same) < 2:
        return ""
    few, many = min(same), max(same)
    fewer, more, most = same[few], same[many], many / few
    gain = times(fewer.seconds, fewer.interval, more.seconds, more.interval)
    low, high = gain.interval.low, gain.interval.high
    between = "" if low == high else f" ({range_words(gain.interval)})"
    head = f"; from {few} to {many} threads the pass is {format_number(gain.value)} times faster{between}"
    if low <= 1 <= high and low < high:
        return f"{head}: can't tell whether more threads help"
    if high < 1:
        return f"{head}: more threads make it slower"
    # By a + p/threads through both ends: what no number of threads would take away.
    serial = (more.seconds * many - fewer.seconds * few) / (many - few)
    return (
        f"{head} of {format_number(most)} possible, as if {format_value(max(serial, 0.0), Unit.SECONDS)} of it used "
        "one thread or waited for memory"
    )


def _cannot_tell(
    rows: Sequence[Row],
    terms: Mapping[str, Term],
    phase: str,
    box: _Box,
    vendor: VendorRates | None,
    slow: SlowShare | None,
) -> list[str]:
    """In words, what a measured ladder would say and these rows don't, and what would tell."""
    said = [
        "can't tell weight kernels, norms, framework and sampling apart: rows hold whole passes; "
        "workbench gap MODEL takes one apart"
    ]
    if phase == DECODE and CONTEXT not in terms:
        said.append(
            "can't tell whether the context costs more than its bytes: there is one context; "
            "workbench sweep MODEL --prompts 16,1024,4096"
        )
    if phase == DECODE and SEQUENCES not in terms:
        said.append("can't tell what each sequence adds: there is one batch; workbench batch MODEL --batches 1,2,4,8")
    if phase == PREFILL and SQUARE not in terms:
        said.append("can't tell attention's n² from the rest: fewer than three prompts")
    if len({row.threads for row in rows}) < 2:
        said.append("can't tell what threads do: there is one thread count; the same run with --threads 1 beside it")
    if vendor is None:
        said.append("can't tell how far the box is below its vendor's bandwidth: --track NAME says which box it is")
    elif vendor.read is box.B:
        said.append("can't tell the box's own bandwidth from its vendor's: nothing read its memory beside these rows")
    if phase == DECODE and box.C is not None and not any(row.step_flop for row in rows):
        said.append("the ceiling is of bytes alone: these rows don't say the operations of a step")
    if slow is None and any(row.engine != "transformers" for row in rows):
        said.append("can't tell whether weights lay in a second memory: --slow-share and --slow say how much and where")
    return said
