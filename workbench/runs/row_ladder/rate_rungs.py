"""The ceiling of a pass, and the rungs that rates alone explain: the vendor's, a second memory's, the minute's."""

from workbench.ceilings.split import SlowShare, split_cost
from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_value
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, SPLIT_MEMORY, Rung
from workbench.runs.row_ladder.points import Point
from workbench.runs.row_ladder.rates import Rates, VendorRates


def ceiling(chosen: Point, box: Rates, vendor: VendorRates | None) -> Quantity:
    """The least time of the pass in seconds: at the vendor's rates where he prints them, else at the box's."""
    rates = Rates(vendor.read, vendor.product or box.C) if vendor else box
    B, C, seconds = rates.B, rates.C, rates.floor_s(chosen)
    moved = arithmetic("bytes the pass must read", chosen.moved, Unit.BYTES, "W + b·k·t")
    if C is None or not chosen.flop:
        return arithmetic("least time of the pass", seconds, Unit.SECONDS, "ceiling", "(W + b·k·t) / B", (moved, B))
    F = arithmetic("operations of the pass", chosen.flop, Unit.FLOP, "F")
    formula = "max((W + b·k·t) / B, F / C)"
    return arithmetic("least time of the pass", seconds, Unit.SECONDS, "ceiling", formula, (moved, F, B, C))


def below_vendor(chosen: Point, box: Rates, vendor: VendorRates, top: Quantity) -> Rung:
    """What the box's own rates add to `top`, the ceiling at the vendor's."""
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


def below_quiet(chosen: Point, box: Rates) -> Rung:
    """What the box read slower beside the pass than at its best adds to it; its ends are by B before and after it."""
    now = Quantity("read rate beside this row", chosen.B or 0.0, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B_row")
    seconds = box.floor_s(chosen, chosen.B) - box.floor_s(chosen)
    formula = "ceiling at B_row − at B"
    time = Quantity(BELOW_QUIET, seconds, Unit.SECONDS, Origin.MEASURED, formula=formula, inputs=(now, box.B))
    stolen = chosen.row.stolen_share
    also = "" if stolen is None else f"; the hypervisor took {format_value(stolen, Unit.SHARE)} of the cores"
    reads = (chosen.row.read_before_gb_per_s, chosen.row.read_after_gb_per_s)
    ends = [seconds, *(box.floor_s(chosen, B * 1e9) - box.floor_s(chosen) for B in reads if B)]
    return Rung(
        BELOW_QUIET, time, min(ends), max(ends), f"beside this row the box read {now}, at its best {box.B}{also}"
    )
