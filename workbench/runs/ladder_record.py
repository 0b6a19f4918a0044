"""A ladder as lines of a table, and in the keys of its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, ClassVar

from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_duration
from workbench.record import headed
from workbench.runs.ladder import Fastest, Ladder, LeverTried, Rung
from workbench.runs.run import Run

NOT_RESOLVED = "not resolved"
DISTURBED = "!"
"""Before the interval of what was timed while others computed."""


@dataclass(frozen=True)
class LadderLine:
    """One line of a ladder's table: a time in milliseconds, the interval it lies in, and its share of the pass."""

    name: str = headed("rung")
    ms: Quantity = headed("ms")
    interval: str = headed("95 % interval")
    of_pass: Quantity = headed("of pass")
    evidence: str = headed("evidence")


def ladder_lines(ladder: Ladder) -> list[LadderLine]:
    """The ceiling, every rung, the remainder, and the measured time they add up to."""
    top, measured = ladder.ceiling, ladder.measured
    return [
        _line("ceiling", top, "", "the least time the bytes and operations allow", measured),
        *(_rung_line(rung, measured) for rung in ladder.terms),
        _line("measured", measured, _between(ladder.low_s, ladder.high_s), measured.source, measured),
    ]


def milliseconds(seconds: float) -> str:
    """A time in ms to so many decimals that those of a ladder line up, without the unit."""
    decimals = 2 if abs(seconds) < 1 else 1
    # Adding zero takes the sign off what rounds to it.
    return f"{round(seconds * 1e3, decimals) + 0.0:,.{decimals}f}"


def _between(low_s: float | None, high_s: float | None) -> str:
    return "" if low_s is None or high_s is None else f"{milliseconds(low_s)} to {milliseconds(high_s)}"


def _rung_line(rung: Rung, measured: Quantity) -> LadderLine:
    interval = _between(rung.low_s, rung.high_s)
    resolved = "" if rung.resolved else f"{NOT_RESOLVED}: "
    return _line(rung.name, rung.time, interval, f"{resolved}{rung.evidence}", measured)


def _line(name: str, time: Quantity, interval: str, evidence: str, measured: Quantity) -> LadderLine:
    ms = Quantity(
        time.name, time.value * 1e3, Unit.MILLISECONDS, time.origin, time.symbol, time.formula, time.inputs, time.source
    )
    share = arithmetic(
        f"{name} of the pass",
        time.value / measured.value,
        Unit.SHARE,
        formula="rung / measured",
        inputs=(time, measured),
    )
    return LadderLine(name, ms, interval, share, evidence)


@dataclass(frozen=True)
class LeverLine:
    """One line of the table of levers: what a change should save of the pass, what it did, and what else it does.

    `told` is the interval of the saving, or that it is not resolved, after DISTURBED where others computed meanwhile.
    """

    explained_by: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "measured_ms": ("low_ms", "high_ms"),
        "told": ("measured_ms", "low_ms", "high_ms"),
    }
    name: str = headed("lever")
    predicted_ms: Quantity | None = headed("should save")
    measured_ms: Quantity | None = headed("saved ms")
    told: str | None = headed("95 % interval")
    low_ms: Quantity | None = headed("from")
    high_ms: Quantity | None = headed("to")
    as_loaded_ms: Quantity | None = headed("as loaded ms")
    with_it_ms: Quantity | None = headed("with it ms")
    pairs: int | None = headed("pairs")
    ttft_ratio: Quantity | None = headed("TTFT")
    memory: Quantity | None = headed("memory")
    agrees: bool | None = headed("same output")
    note: str = headed("note")


def lever_lines(ladder: Ladder) -> list[LeverLine]:
    """The levers of a ladder, in the order they were tried."""
    return [_lever_line(lever) for lever in ladder.levers]


def _lever_line(lever: LeverTried) -> LeverLine:
    as_loaded, with_it = (
        _median_pass(f"{which}, median of {len(seconds)} passes", seconds)
        for which, seconds in (("as loaded", lever.as_loaded_s), ("with it", lever.with_it_s))
    )
    ratio, held = lever.ttft_ratio, lever.memory_bytes
    return LeverLine(
        name=lever.name,
        predicted_ms=_saving("predicted saving of the pass", lever.predicted_saving_s, Origin.ARITHMETIC),
        measured_ms=_measured_saving(lever, tuple(filter(None, (as_loaded, with_it)))),
        told=_told(lever),
        low_ms=_saving("low end of its 95 % interval", lever.low_s, Origin.MEASURED),
        high_ms=_saving("high end of its 95 % interval", lever.high_s, Origin.MEASURED),
        as_loaded_ms=as_loaded,
        with_it_ms=with_it,
        pairs=len(lever.as_loaded_s) or None,
        ttft_ratio=None
        if ratio is None
        else Quantity("TTFT with it over TTFT without", ratio, Unit.TIMES, Origin.MEASURED),
        memory=None if held is None else Quantity("memory of the process with it", held, Unit.BYTES, Origin.MEASURED),
        agrees=lever.agrees,
        note=". ".join(filter(None, (lever.disturbed and f"{DISTURBED} {lever.disturbed} meanwhile", lever.note))),
    )


def _told(lever: LeverTried) -> str | None:
    if lever.measured_saving_s is None:
        return None
    interval = _between(lever.low_s, lever.high_s) if lever.resolved else NOT_RESOLVED
    return f"{DISTURBED} {interval}" if lever.disturbed else interval


def _measured_saving(lever: LeverTried, passes: tuple[Quantity, ...]) -> Quantity | None:
    if lever.measured_saving_s is None:
        return None
    pairs = len(lever.as_loaded_s)
    return Quantity(
        f"measured saving of the pass{'' if lever.resolved else f', {NOT_RESOLVED}'}",
        lever.measured_saving_s * 1e3,
        Unit.MILLISECONDS,
        Origin.MEASURED,
        formula="median of (as loaded − with it), pair by pair" if pairs else "",
        inputs=passes,
        source=f"{pairs} pairs, in turns" if pairs else "",
    )


def _median_pass(name: str, seconds: Sequence[float]) -> Quantity | None:
    return Quantity(name, median(seconds) * 1e3, Unit.MILLISECONDS, Origin.MEASURED) if seconds else None


def fastest_words(found: Fastest) -> str:
    """What a search found, in a sentence or two."""
    took = f"{found.tried} variants tried in {format_duration(found.seconds)}"
    if found.speedup <= 1.0:
        return f"Fastest: {found.name}; {found.note}; {took}."
    words = (
        f"Fastest: {found.name}: {milliseconds(found.pass_s)} ms instead of {milliseconds(found.as_loaded_s)}, "
        f"{found.speedup:.2f} times faster; {found.note}; {took}."
    )
    if found.ttft_ratio is not None:
        words += f" TTFT is {found.ttft_ratio:.2f} of what it was."
    return f"{words} Kept as the preset {found.preset}." if found.preset else words


def _saving(name: str, seconds: float | None, origin: Origin) -> Quantity | None:
    return None if seconds is None else Quantity(name, seconds * 1e3, Unit.MILLISECONDS, origin)


def ladder_rows(run: Run, ladder: Ladder) -> list[dict[str, Any]]:
    """The ladder as lines of CSV, each with what it is of: ceiling, every rung, remainder, measured time, the levers.

    A line says in `line` what it is. The time of a lever is what it saved, with the interval of that.
    """
    about = {
        "run_id": run.run_id,
        "machine": run.machine,
        "model": run.model,
        "dtype": run.settings.get("dtype"),
        "phase": ladder.phase,
        "tokens": ladder.tokens,
        "batch": ladder.batch,
    }
    intervals = {rung.name: (_ms(rung.low_s), _ms(rung.high_s)) for rung in ladder.terms}
    intervals["measured"] = _ms(ladder.low_s), _ms(ladder.high_s)
    lines = ladder_lines(ladder)
    kinds = ("ceiling", *("rung" for _ in ladder.rungs), "remainder", "measured")
    return [
        *(
            {
                **about,
                "name": line.name,
                "ms": line.ms.value,
                "low_ms": intervals.get(line.name, (None, None))[0],
                "high_ms": intervals.get(line.name, (None, None))[1],
                "of_pass": line.of_pass.value,
                "evidence": line.evidence,
                "line": kind,
                **dict.fromkeys(_OF_LEVERS),
            }
            for kind, line in zip(kinds, lines, strict=True)
        ),
        *({**about, **_lever_cells(ladder, lever)} for lever in ladder.levers),
    ]


_OF_LEVERS = (
    "predicted_saving_ms",
    "as_loaded_ms",
    "with_it_ms",
    "pairs",
    "speedup",
    "ttft_ratio",
    "memory_bytes",
    "agrees",
    "disturbed",
)
"""The columns that only levers have a figure in."""


def _lever_cells(ladder: Ladder, lever: LeverTried) -> dict[str, Any]:
    saved = lever.measured_saving_s
    return {
        "name": lever.name,
        "ms": _ms(saved),
        "low_ms": _ms(lever.low_s),
        "high_ms": _ms(lever.high_s),
        "of_pass": None if saved is None else saved / ladder.measured.value,
        "evidence": lever.note,
        "line": "lever",
        **{name: value for name, value in _lever_record(lever).items() if name in _OF_LEVERS},
    }


def ladder_record(ladder: Ladder) -> dict[str, Any]:
    """The ladder in the keys that `workbench gap --format json` prints; times in milliseconds."""
    return {
        "phase": ladder.phase,
        "tokens": ladder.tokens,
        "batch": ladder.batch,
        "measured_ms": ladder.measured.value * 1e3,
        "measured_low_ms": _ms(ladder.low_s),
        "measured_high_ms": _ms(ladder.high_s),
        "ceiling_ms": ladder.ceiling.value * 1e3,
        "terms": [
            {
                "name": rung.name,
                "ms": rung.time.value * 1e3,
                "low_ms": rung.low_s * 1e3,
                "high_ms": rung.high_s * 1e3,
                "resolved": rung.resolved,
                "evidence": rung.evidence,
            }
            for rung in ladder.rungs
        ],
        "remainder_ms": ladder.remainder.time.value * 1e3,
        "remainder_low_ms": ladder.remainder.low_s * 1e3,
        "remainder_high_ms": ladder.remainder.high_s * 1e3,
        "verdict": ladder.verdict,
        "levers": [_lever_record(lever) for lever in ladder.levers],
        "fastest": None if ladder.fastest is None else asdict(ladder.fastest),
        "rounds": ladder.rounds,
        "notes": list(ladder.notes),
    }


def _lever_record(lever: LeverTried) -> dict[str, Any]:
    return {
        "name": lever.name,
        "predicted_saving_ms": _ms(lever.predicted_saving_s),
        "measured_saving_ms": _ms(lever.measured_saving_s),
        "ttft_ratio": lever.ttft_ratio,
        "memory_bytes": lever.memory_bytes,
        "agrees": lever.agrees,
        "note": lever.note,
        "measured_low_ms": _ms(lever.low_s),
        "measured_high_ms": _ms(lever.high_s),
        "resolved": None if lever.measured_saving_s is None else lever.resolved,
        "as_loaded_ms": _ms(median(lever.as_loaded_s)) if lever.as_loaded_s else None,
        "with_it_ms": _ms(median(lever.with_it_s)) if lever.with_it_s else None,
        "pairs": len(lever.as_loaded_s) or None,
        "disturbed": lever.disturbed,
        "speedup": lever.speedup,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
