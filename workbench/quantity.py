"""A figure that knows what it is: its unit, its origin and, when computed, its formula and inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where a figure came from."""

    MEASURED = "measured"
    ARITHMETIC = "arithmetic"
    VENDOR = "vendor"
    ASSUMED = "assumed"


class Unit(StrEnum):
    """What a figure counts; GB and the like are chosen when it is written, 10^9 bytes to the GB."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    FLOP = "FLOP"
    FLOP_PER_SECOND = "FLOP/s"
    SECONDS = "s"
    MILLISECONDS = "ms"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    PARAMETERS = "parameters"
    SHARE = "share"
    GB_PER_SECOND = "GB/s"
    GFLOP_PER_SECOND = "GFLOP/s"
    FLOP_PER_BYTE = "FLOP/byte"
    TIMES = "×"
    COUNT = ""


@dataclass(frozen=True)
class Quantity:
    """A value with its unit and origin; `formula` is written in the symbols of `inputs`."""

    name: str
    value: float
    unit: Unit
    origin: Origin
    symbol: str = ""
    formula: str = ""
    inputs: tuple["Quantity", ...] = ()
    source: str = ""

    def __str__(self) -> str:
        return format_value(self.value, self.unit)


def arithmetic(
    name: str,
    value: float,
    unit: Unit,
    symbol: str = "",
    formula: str = "",
    inputs: tuple[Quantity, ...] = (),
    source: str = "",
) -> Quantity:
    """A quantity that was computed, or counted in a file."""
    return Quantity(name, value, unit, Origin.ARITHMETIC, symbol, formula, inputs, source)


_DECIMAL_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED_UNITS = {
    Unit.BYTES: "B",
    Unit.BYTES_PER_SECOND: "B/s",
    Unit.FLOP: "FLOP",
    Unit.FLOP_PER_SECOND: "FLOP/s",
}


def format_number(value: float) -> str:
    """Three significant digits, thousands separated, never in exponent form between 0.001 and 10^15."""
    # Rounded first, so that what rounds up to the next power of ten is written as that power's figures are.
    value = float(f"{value:.3g}") if abs(value) < 100 else value
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    if magnitude >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def format_value(value: float, unit: Unit) -> str:
    """The value as a person reads it: decimal prefixes for bytes and FLOP, ms under a second, per cent."""
    if unit in _SCALED_UNITS:
        for scale, prefix in _DECIMAL_PREFIXES:
            # Bandwidths are compared with each other: they stay in GB/s, as everyone writes them.
            if abs(value) >= scale and not (unit is Unit.BYTES_PER_SECOND and scale > 1e9):
                return f"{format_number(value / scale)} {prefix}{_SCALED_UNITS[unit]}"
        return f"{format_number(value)} {_SCALED_UNITS[unit]}"
    if unit is Unit.SECONDS:
        return f"{format_number(value * 1e3)} ms" if abs(value) < 1 else f"{format_number(value)} s"
    if unit is Unit.SHARE:
        return f"{value * 100:.0f} %" if abs(value) >= 0.1 else f"{value * 100:.1f} %"
    if unit in (Unit.TOKENS, Unit.PARAMETERS):
        return f"{value:,.0f} {unit.removesuffix('s') if value == 1 else unit}"
    return f"{format_number(value)} {unit}".rstrip()


def format_duration(seconds: float) -> str:
    """Minutes and seconds, as a clock shows them: 0:41, 12:05, 1:02:03."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def explain(quantity: Quantity) -> Iterator[str]:
    """Lines that show a figure, its origin, its formula and source, and the same for each input, indented.

    A source that several figures share is said once, where it first stands.
    """
    yield from _explained(quantity, 0, set())


def _explained(quantity: Quantity, depth: int, said: set[str]) -> Iterator[str]:
    label = f"{quantity.symbol} " if quantity.symbol else ""
    line = f"{'  ' * depth}{label}{quantity.name} = {quantity}  [{quantity.origin}]"
    if quantity.formula:
        line += f"  {quantity.formula}"
    if quantity.source and quantity.source not in said:
        line += f"  ({quantity.source})"
        said.add(quantity.source)
    yield line
    for figure in quantity.inputs:
        yield from _explained(figure, depth + 1, said)
