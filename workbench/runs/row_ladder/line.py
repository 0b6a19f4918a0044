"""The line through the points of a ladder: a rung for each of its coefficients, and how far a point may lie from it.

The points' times beyond their own floors are fitted.
"""

from collections.abc import Sequence
from math import hypot, sqrt

from workbench.experiments.statistics import Interval, student_t_95
from workbench.quantity import Origin, Quantity, Unit
from workbench.runs.ladder import Rung
from workbench.runs.readings import Coefficient, fit_terms
from workbench.runs.row_ladder.points import Point
from workbench.runs.row_ladder.terms import Term

ENOUGH_SPARE = 2
"""Points beyond the coefficients from which the residuals say where these lie; with one, the interval says nothing."""


def line_rungs(
    points: Sequence[Point], floors: Sequence[float], terms: Sequence[Term], chosen: Point
) -> tuple[list[Rung], float | None]:
    """A rung for each term, as it is at the chosen point, and the seconds by which such a point may lie off the line.

    `floors` are the least seconds of each point. The second figure is half a 95 per cent interval of one point, None
    where there are no points to spare for it. There are no rungs where the points don't decide the terms.
    """
    beyond = [point.seconds - floor for point, floor in zip(points, floors, strict=True)]
    found = _coefficients(points, beyond, terms)
    if found is None:
        return [], None
    spare = len(points) - len(terms)
    moved = _moved(points, beyond, terms)
    over = " and ".join(term.over for term in terms if term.over)
    line = f"line through {len(points)} points over {over}, each above its floor"
    rungs = []
    for at, term in enumerate(terms):
        size = term.size(chosen)
        seconds = found[at].value * size
        errors = [(each[at].value - found[at].value) * size for each in moved]
        interval, sure = _where(seconds, found[at], size, errors, spare)
        inputs = term.sized_by(chosen)
        time = Quantity(term.name, seconds, Unit.SECONDS, Origin.MEASURED, formula=term.formula, inputs=inputs)
        evidence = f"{line}: {term.words(found[at].value)}{sure}"
        rungs.append(Rung(term.name, time, interval.low, interval.high, evidence))
    return rungs, _scatter_s(points, beyond, terms, found, chosen)


def _coefficients(
    points: Sequence[Point], beyond: Sequence[float], terms: Sequence[Term]
) -> tuple[Coefficient, ...] | None:
    """The coefficients by which the terms come nearest to the seconds `beyond` each point's floor."""
    lines = [
        ([term.size(point) for term in terms], excess, point.seconds)
        for point, excess in zip(points, beyond, strict=True)
    ]
    found = fit_terms(lines)
    return None if found is None else found.coefficients


def _moved(points: Sequence[Point], beyond: Sequence[float], terms: Sequence[Term]) -> list[tuple[Coefficient, ...]]:
    """The coefficients with one point at a time moved to the end of its own interval."""
    moved = []
    for at, point in enumerate(points):
        half = 0.0 if point.interval is None else point.interval.half_width
        if half:
            found = _coefficients(points, [*beyond[:at], beyond[at] + half, *beyond[at + 1 :]], terms)
            moved += [] if found is None else [found]
    return moved


def _scatter_s(
    points: Sequence[Point],
    beyond: Sequence[float],
    terms: Sequence[Term],
    coefficients: Sequence[Coefficient],
    chosen: Point,
) -> float | None:
    """Half a 95 per cent interval, in seconds, of a point of the chosen one's time about the line."""
    spare = len(points) - len(terms)
    if spare < ENOUGH_SPARE:
        return None

    def off(point: Point, excess: float) -> float:
        along = sum(c.value * term.size(point) for c, term in zip(coefficients, terms, strict=True))
        return (excess - along) / point.seconds

    squares = sum(off(point, excess) ** 2 for point, excess in zip(points, beyond, strict=True))
    return student_t_95(spare) * sqrt(squares / spare) * chosen.seconds


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
