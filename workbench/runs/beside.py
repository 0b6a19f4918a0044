"""What stands beside a row of a batch sweep from arithmetic, in words: bound, prediction, bytes, experts, memory."""

from collections.abc import Iterator

from workbench.quantity import Unit, format_number, format_value
from workbench.runs.row import BATCH, Row


def bound_ms(row: Row) -> float | None:
    """The least time of a step, which no run can beat: its bytes at the ceiling's bandwidth."""
    return 1e3 / row.ceiling_tokens_per_s if row.ceiling_tokens_per_s else None


def step_words(row: Row) -> str:
    """Bound and prediction of the step by name, and the experts a mixture read; empty without any."""
    return " · ".join((*_step(row), *_experts(row)))


def experts_words(row: Row) -> str:
    """Experts counted at the router beside those uniform routing would touch; empty for a dense model."""
    return next(_experts(row), "")


def predicted_words(row: Row) -> str:
    """What was predicted of both phases before they were measured, with the 80 % intervals; empty for nothing.

    Of a measurement that is in no such interval its median, which it is held against; and what makes it doubtful.
    """
    ttft = row.predicted_ttft_ms, row.predicted_ttft_low_ms, row.predicted_ttft_high_ms
    tpot = row.predicted_tpot_ms, row.predicted_tpot_low_ms, row.predicted_tpot_high_ms
    found = ", ".join(
        filter(None, (_range("TTFT", *ttft, row.ttft_median_ms), _range("TPOT", *tpot, row.tpot_median_ms)))
    )
    _, _, doubt = (row.predicted_from or "").partition("; ")
    return "; ".join(filter(None, (f"predicted {found} ms", doubt))) if found else ""


def extrapolated_words(row: Row) -> str:
    """The intervals of figures that follow from slices of the model; empty where the whole was measured."""
    if row.extrapolated_from is None:
        return ""
    ttft = _ends("TTFT", row.ttft_low_ms, row.ttft_high_ms)
    tpot = _ends("step" if row.kind == BATCH else "TPOT", row.tpot_low_ms, row.tpot_high_ms)
    found = ", ".join(filter(None, (ttft, tpot)))
    words = f"extrapolated: {found} ms (95 %)" if found else "extrapolated"
    whole = row.whole_resident_bytes
    return words if whole is None else f"{words}, the whole in {format_value(whole, Unit.BYTES)}"


def _range(name: str, value: float | None, low: float | None, high: float | None, measured: float | None = None) -> str:
    if value is None:
        return ""
    if low is None or high is None:
        return f"{name} {format_number(value)}"
    missed = "" if measured is None or low <= measured <= high else f" but was {format_number(measured)}"
    return f"{name} {format_number(value)} ({_ends('', low, high)}){missed}"


def _ends(name: str, low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{name} {format_number(low)} to {format_number(high)}".lstrip()


def sum_words(row: Row) -> str:
    """The ceiling of each sequence and of all, and what one step reads, does and holds."""
    return " · ".join((*_ceilings(row), *_work(row), *_memory(row)))


def _step(row: Row) -> Iterator[str]:
    if (bound := bound_ms(row)) is not None:
        yield f"bound {format_number(bound)} ms"
        if row.predicted_tpot_ms is not None:
            yield f"predicted {format_number(row.predicted_tpot_ms)} ms"
        else:
            yield "not predicted: p probes what few rows get of C"


def _experts(row: Row) -> Iterator[str]:
    if row.experts_expected is not None:
        counted = "not counted" if row.experts_touched is None else f"read {format_number(row.experts_touched)}"
        yield f"experts {counted}, expected {format_number(row.experts_expected)}"


def _ceilings(row: Row) -> Iterator[str]:
    if row.ceiling_tokens_per_s is not None:
        together = format_number(row.batch * row.ceiling_tokens_per_s)
        yield f"ceiling {format_number(row.ceiling_tokens_per_s)} tok/s each, {together} together"


def _work(row: Row) -> Iterator[str]:
    if row.weight_bytes is not None and row.cache_bytes is not None:
        weights, caches = (format_value(count, Unit.BYTES) for count in (row.weight_bytes, row.cache_bytes))
        yield f"reads {weights} of weights, {caches} of caches"
    if row.step_flop is not None:
        yield format_value(row.step_flop, Unit.FLOP)


def _memory(row: Row) -> Iterator[str]:
    if row.predicted_resident_bytes is not None:
        held = "" if row.resident_bytes is None else f", held {format_value(row.resident_bytes, Unit.BYTES)}"
        yield f"memory predicted {format_value(row.predicted_resident_bytes, Unit.BYTES)}{held}"
