"""The ladder of one pass from rows: its ceiling, the rungs of rates and of the line, and what they leave over."""

from collections.abc import Sequence
from dataclasses import replace

from workbench.ceilings.split import SlowShare
from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_value
from workbench.runs.ladder import REMAINDER, Ladder, Rung
from workbench.runs.row import Row
from workbench.runs.row_ladder.line import line_rungs
from workbench.runs.row_ladder.points import Asked, Point, chosen_point, points
from workbench.runs.row_ladder.rate_rungs import below_quiet, below_vendor, ceiling, split_rung
from workbench.runs.row_ladder.rates import Rates, VendorRates, box_rates, vendor_rates
from workbench.runs.row_ladder.terms import FIXED, terms_told
from workbench.runs.row_ladder.threads import threads_words
from workbench.runs.row_ladder.untold import untold

ROUNDING = 1e-12
"""Of the measured time: what is left of adding and taking away, and no time."""


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
    all_points = points(rows, asked.phase)
    threads = max(point.row.threads for point in all_points)
    of_threads = [point for point in all_points if point.row.threads == threads]
    chosen = chosen_point(of_threads, asked)
    vendor = vendor or vendor_rates(rows)
    box = box_rates(of_threads, vendor)
    top = ceiling(chosen, box, vendor)
    terms = terms_told(of_threads, asked.phase)
    along, scatter_s = line_rungs(of_threads, [_floor_s(point, box, slow) for point in of_threads], terms, chosen)
    with_threads = threads_words(all_points, chosen)
    rungs = (
        *_rate_rungs(chosen, box, vendor, slow, top),
        *(replace(rung, evidence=rung.evidence + with_threads) if rung.name == FIXED else rung for rung in along),
    )
    measured = _measured(chosen)
    known = top.value + sum(rung.time.value for rung in rungs)
    return Ladder(
        phase=asked.phase,
        tokens=chosen.tokens,
        batch=chosen.batch,
        ceiling=top,
        measured=measured,
        rungs=rungs,
        remainder=_remainder(chosen, measured.value - known, scatter_s),
        rounds=0,
        notes=untold(rows, terms, asked.phase, box, vendor, slow),
        low_s=None if chosen.interval is None else chosen.interval.low,
        high_s=None if chosen.interval is None else chosen.interval.high,
    )


def _floor_s(point: Point, box: Rates, slow: SlowShare | None) -> float:
    """The least seconds of a pass at the rates of its minute, what lies on a slower memory included."""
    split_s = 0.0 if slow is None else split_rung(slow, point.moved, box.B).time.value
    return box.floor_s(point, point.B) + split_s


def _rate_rungs(
    chosen: Point, box: Rates, vendor: VendorRates | None, slow: SlowShare | None, top: Quantity
) -> list[Rung]:
    rungs = []
    if vendor is not None and vendor.read is not box.B:
        rungs.append(below_vendor(chosen, box, vendor, top))
    if slow is not None:
        rungs.append(split_rung(slow, chosen.moved, box.B))
    if chosen.B is not None and box.B.value > chosen.B:
        rungs.append(below_quiet(chosen, box))
    return rungs


def _measured(chosen: Point) -> Quantity:
    row = chosen.row
    return Quantity(
        "measured time of the pass",
        chosen.seconds,
        Unit.SECONDS,
        Origin.MEASURED,
        "measured",
        source=f"a row of {row.run_id}, {row.repeats:,} repeats by {row.engine}",
    )


def _remainder(chosen: Point, seconds: float, scatter_s: float | None) -> Rung:
    own = 0.0 if chosen.interval is None else chosen.interval.half_width
    half = max(own, scatter_s or 0.0)
    seconds = seconds if abs(seconds) > ROUNDING * chosen.seconds else 0.0
    time = arithmetic(REMAINDER, seconds, Unit.SECONDS, formula="measured − ceiling − every rung")
    what = (
        "what no line through these points tells apart"
        if scatter_s is None
        else f"how far this point lies from the line; points lie up to {format_value(scatter_s, Unit.SECONDS)} from it"
    )
    return Rung(REMAINDER, time, seconds - half, seconds + half, what)
