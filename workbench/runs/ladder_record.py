"""A ladder as lines of a table, and in the keys of its JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from workbench.quantity import Origin, Quantity, Unit, arithmetic, format_duration
from workbench.record import headed
from workbench.runs.ladder import Fastest, Ladder, Rung
from workbench.runs.run import Run


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
    resolved = "" if rung.resolved else "not resolved: "
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
    """One line of the table of levers: what a change should save of the pass, what it did, and what else it does."""

    name: str = headed("lever")
    predicted_ms: Quantity | None = headed("predicted ms")
    measured_ms: Quantity | None = headed("saved ms")
    ttft_ratio: Quantity | None = headed("TTFT")
    memory: Quantity | None = headed("memory")
    agrees: bool | None = headed("same output")
    note: str = headed("note")


def lever_lines(ladder: Ladder) -> list[LeverLine]:
    """The levers of a ladder, in the order they were tried."""
    return [
        LeverLine(
            lever.name,
            _saving("predicted saving of the pass", lever.predicted_saving_s, Origin.ARITHMETIC),
            _saving("measured saving of the pass", lever.measured_saving_s, Origin.MEASURED),
            None
            if lever.ttft_ratio is None
            else Quantity("TTFT with it over TTFT without", lever.ttft_ratio, Unit.TIMES, Origin.MEASURED),
            None
            if lever.memory_bytes is None
            else Quantity("memory of the process with it", lever.memory_bytes, Unit.BYTES, Origin.MEASURED),
            lever.agrees,
            lever.note,
        )
        for lever in ladder.levers
    ]


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
    """The ladder as lines of CSV: ceiling, every rung, remainder and measured time, each with what it is of."""
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
    return [
        {
            **about,
            "name": line.name,
            "ms": line.ms.value,
            "low_ms": intervals.get(line.name, (None, None))[0],
            "high_ms": intervals.get(line.name, (None, None))[1],
            "of_pass": line.of_pass.value,
            "evidence": line.evidence,
        }
        for line in ladder_lines(ladder)
    ]


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
        "levers": [
            {
                "name": lever.name,
                "predicted_saving_ms": _ms(lever.predicted_saving_s),
                "measured_saving_ms": _ms(lever.measured_saving_s),
                "ttft_ratio": lever.ttft_ratio,
                "memory_bytes": lever.memory_bytes,
                "agrees": lever.agrees,
                "note": lever.note,
                "measured_low_ms": _ms(lever.low_s),
                "measured_high_ms": _ms(lever.high_s),
                "speedup": lever.speedup,
            }
            for lever in ladder.levers
        ],
        "fastest": None if ladder.fastest is None else asdict(ladder.fastest),
        "rounds": ladder.rounds,
        "notes": list(ladder.notes),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
