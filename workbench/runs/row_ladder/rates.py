"""The rates that a ladder of rows is built on: what the box was seen to do, and what its vendor prints."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import StoreError
from workbench.quantity import Origin, Quantity, Unit
from workbench.runs.row import Row
from workbench.runs.row_ladder.points import Point


@dataclass(frozen=True)
class VendorRates:
    """What the vendor of the box prints: bytes and operations a second, None where he prints none."""

    read: Quantity
    product: Quantity | None = None


@dataclass(frozen=True)
class Rates:
    """The rates that a pass is held against: B in bytes/s, and C in FLOP/s, None where nothing knows it."""

    B: Quantity
    C: Quantity | None

    def floor_s(self, point: Point, B: float | None = None) -> float:
        """max(bytes / B, F / C) of a pass in seconds, at the B of its minute where that is given."""
        by_bytes = point.moved / (B or self.B.value)
        return by_bytes if self.C is None else max(by_bytes, point.flop / self.C.value)


def vendor_rates(rows: Sequence[Row]) -> VendorRates | None:
    """The vendor's bandwidth that stands in the rows, None where none does."""
    printed = max((row.vendor_gb_per_s or 0.0 for row in rows), default=0.0)
    if not printed:
        return None
    name = "bandwidth the vendor prints for the track's device"
    return VendorRates(Quantity(name, printed * 1e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B"))


def box_rates(points: Sequence[Point], vendor: VendorRates | None) -> Rates:
    """B and C of the box at its quietest; the vendor's B stands in where nobody has read its memory.

    Raises StoreError where neither knows a B.
    """
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
        return Rates(Quantity(name, max(known) * 1e9, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B"), C)
    if vendor is None:
        raise StoreError(
            "No bandwidth stands beside these rows, so there is no ceiling to begin a ladder from. Name the box they "
            "were measured on: --track NAME (`workbench presets` lists tracks and devices)."
        )
    return Rates(vendor.read, C)
