"""What a ceiling's bandwidth rests on: the minute of its row, the box's last probe, or the vendor's figure."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from workbench.runs.row import Row


class Basis(StrEnum):
    """Which B a ceiling is shown against."""

    MINUTE = "this minute"
    CALIBRATION = "the probe"
    VENDOR = "vendor"


_COLUMN: Mapping[Basis, str] = {
    Basis.MINUTE: "read_gb_per_s",
    Basis.CALIBRATION: "calibrated_gb_per_s",
    Basis.VENDOR: "vendor_gb_per_s",
}
_WORDS: Mapping[Basis, str] = {
    Basis.MINUTE: "measured: the read rate around this point",
    Basis.CALIBRATION: "measured: the read rate of this box's last probe",
    Basis.VENDOR: "vendor: the bandwidth printed for the track's device",
}


def read_rate(row: Row, basis: Basis) -> float | None:
    """B on that basis in GB/s; None where the row has none."""
    value: float | None = getattr(row, _COLUMN[basis])
    return value


def on_basis(row: Row, basis: Basis) -> Row:
    """The row with its ceiling, and its share of it, on another basis; without them where that isn't known."""
    return replace(row, **ceiling_columns(basis, read_rate(row, basis), row.bytes_per_step, row.decode_tokens_per_s))


def ceiling_columns(
    basis: Basis, B: float | None, bytes_per_step: int | None, decode_tokens_per_s: float | None
) -> dict[str, Any]:
    """The columns of a row's ceiling on a basis whose rate is B GB/s; without figures where either is not known."""
    if B is None or not bytes_per_step:
        return {
            "ceiling_tokens_per_s": None,
            "ceiling_share": None,
            "ceiling_read_gb_per_s": None,
            "ceiling_basis": f"not known: {basis}",
        }
    ceiling = B * 1e9 / bytes_per_step
    return {
        "ceiling_read_gb_per_s": B,
        "ceiling_tokens_per_s": ceiling,
        "ceiling_share": None if decode_tokens_per_s is None else decode_tokens_per_s / ceiling,
        "ceiling_basis": _WORDS[basis],
    }


def known_bases(rows: list[Row]) -> tuple[Basis, ...]:
    """The bases that some row can be shown against, the row's own minute first; that one where there are none."""
    return tuple(basis for basis in Basis if any(read_rate(row, basis) for row in rows)) or (Basis.MINUTE,)
