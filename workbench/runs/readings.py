"""TTFT and TPOT over prompt length, context and batch, and the lines that lie through them, with their intervals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf, sqrt

from workbench.ceilings.batch import Limit
from workbench.experiments.statistics import Interval, student_t_95
from workbench.quantity import format_number
from workbench.runs.row import BATCH, PREFILL_DECODE, Row

ROUNDING = 1e-13
"""Of the largest figure in a matrix: a pivot below it is what floating point left of none."""


@dataclass(frozen=True)
class Reading:
    """One point's two times in seconds, with the intervals of their medians; None is not measured.

    `row` is the row it was read from, which tells what stood beside it; None where only the times are known.
    """

    prompt_tokens: int
    context_tokens: int
    batch: int
    ttft_s: float | None
    tpot_s: float | None
    ttft_interval: Interval | None = None
    tpot_interval: Interval | None = None
    row: Row | None = None


@dataclass(frozen=True)
class Times:
    """How many times one figure is another, and where that lies."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a fitted line, with its 95 per cent interval; None where there are no points to spare for it."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Fit:
    """y = c0 + c1·x + c2·x² …, the coefficients from the lowest power up."""

    coefficients: tuple[Coefficient, ...]

    def at(self, x: float) -> float:
        """The fitted y."""
        return sum(c.value * x**power for power, c in enumerate(self.coefficients))


def readings(rows: Iterable[Row]) -> tuple[Reading, ...]:
    """The times of the rows that were measured: medians where there are any, with their intervals.

    A batch's prefill is not of one prompt, so its rows have a TPOT alone: the step. A batch refused for memory has no
    times, and is told by its row.
    """
    return tuple(_reading(row) for row in rows if _is_measured(row) or row.bound_by == Limit.MEMORY)


def _is_measured(row: Row) -> bool:
    return row.status == "ok" and bool(row.ttft_ms or row.tpot_ms or row.step_ms)


def _reading(row: Row) -> Reading:
    ttft_ms = None if row.kind == BATCH else row.ttft_median_ms or row.ttft_ms
    tpot_ms = row.step_ms or row.tpot_median_ms or row.tpot_ms
    return Reading(
        prompt_tokens=row.prompt_tokens,
        context_tokens=row.context_tokens,
        batch=row.batch,
        ttft_s=None if ttft_ms is None else ttft_ms / 1e3,
        tpot_s=None if tpot_ms is None else tpot_ms / 1e3,
        ttft_interval=_interval(row.ttft_low_ms, row.ttft_high_ms),
        tpot_interval=step_interval(row),
        row=row,
    )


def step_interval(row: Row) -> Interval | None:
    """Where the median of a row's steps lies, in seconds."""
    return _interval(row.tpot_low_ms, row.tpot_high_ms)


def _interval(low_ms: float | None, high_ms: float | None) -> Interval | None:
    return None if low_ms is None or high_ms is None else Interval(low_ms / 1e3, high_ms / 1e3)


def over_prompts(found: Sequence[Reading]) -> tuple[Reading, ...]:
    """The requests of one sequence, by prompt length; of one measured twice the last."""
    return _by({r.prompt_tokens: r for r in found if r.batch == 1 and r.ttft_s and r.tpot_s and not _goes_on(r)})


def over_prefills(found: Sequence[Reading]) -> tuple[Reading, ...]:
    """The prefills of one sequence, by prompt length: of requests where several were timed, else of those timed alone.

    Prompts that went on from tokens already in the cache are not among them.
    """
    requests = over_prompts(found)
    if len(requests) > 1:
        return requests
    return _by({r.prompt_tokens: r for r in found if r.batch == 1 and r.ttft_s and not _goes_on(r)})


def _goes_on(reading: Reading) -> bool:
    """Whether its prefill began after tokens already in the cache."""
    row = reading.row
    return row is not None and row.context_tokens > row.prompt_tokens + row.new_tokens // 2


def over_contexts(found: Sequence[Reading]) -> tuple[Reading, ...]:
    """The decode steps of one sequence, by the tokens in its cache: of requests where several were timed, else of all.

    A request's steps and those of a batch of one are timed apart, and are not mixed.
    """
    requests = over_prompts(found)
    if len(requests) > 1:
        return requests
    return _by({r.context_tokens: r for r in found if r.batch == 1 and r.tpot_s})


def over_batches(found: Sequence[Reading]) -> dict[int, tuple[Reading, ...]]:
    """For each context that two batches were timed of, its steps by their sequences, without those of requests."""
    steps = [r for r in found if r.tpot_s and (r.row is None or r.row.kind != PREFILL_DECODE)]
    contexts = dict.fromkeys(r.prompt_tokens for r in steps if r.batch > 1)
    by_context = {context: _by({r.batch: r for r in steps if r.prompt_tokens == context}) for context in contexts}
    return {context: steps for context, steps in by_context.items() if len(steps) > 1}


def _by(by_key: dict[int, Reading]) -> tuple[Reading, ...]:
    return tuple(by_key[key] for key in sorted(by_key))


def times(later: float, later_interval: Interval | None, earlier: float, earlier_interval: Interval | None) -> Times:
    """How many times `later` is `earlier`: the widest that the two intervals allow, no width without any."""
    of, over = later_interval or Interval(later, later), earlier_interval or Interval(earlier, earlier)
    high = of.high / over.low if over.low > 0 else float("inf")
    return Times(later / earlier, Interval(max(of.low, 0.0) / over.high, high))


def range_words(interval: Interval) -> str:
    """Where a number of times lies, which can't be below none: with no upper end either, nowhere in particular."""
    low, high = interval.low, interval.high
    if isinf(high):
        return f"at least {format_number(low)}" if low > 0 else "any number of"
    return f"from {format_number(low)} to {format_number(high)}" if low > 0 else f"at most {format_number(high)}"


def fit(points: Sequence[tuple[float, float]], degree: int) -> Fit | None:
    """The polynomial of that degree nearest to (x, y) by relative error; None of fewer different x than coefficients.

    Least squares of (y − fitted) / y, since a timing's error grows with it. The intervals are Student's, of the
    residuals, so a curve that the polynomial can't follow makes them wide. Raises ValueError for a y that is not
    above zero.
    """
    if any(y <= 0 for _, y in points):
        raise ValueError("a fit by relative error needs figures above zero")
    if len({x for x, _ in points}) <= degree:
        return None
    return fit_terms([([x**power for power in range(degree + 1)], y, y) for x, y in points])


def fit_terms(points: Sequence[tuple[Sequence[float], float, float]]) -> Fit | None:
    """The coefficients c for which Σ c·term comes nearest to each point's figure; None where they don't decide them.

    A point is its terms, its figure, and what an error of it is taken relative to: least squares of
    (figure − Σ c·term) / scale. The intervals are Student's, of the residuals.
    """
    terms = len(points[0][0]) if points else 0
    if not terms or len(points) < terms:
        return None
    # In units of each term's largest value, or they lie too far apart for floating point.
    units = [max(abs(x[i]) for x, _, _ in points) or 1.0 for i in range(terms)]
    lines = [([v / unit / scale for v, unit in zip(x, units, strict=True)], y / scale) for x, y, scale in points]
    normal = [[sum(a[i] * a[j] for a, _ in lines) for j in range(terms)] for i in range(terms)]
    try:
        inverse = _inverse(normal)
    except ZeroDivisionError:
        return None
    right = [sum(a[i] * target for a, target in lines) for i in range(terms)]
    c = [sum(inverse[i][j] * right[j] for j in range(terms)) for i in range(terms)]
    spare = len(points) - terms
    squares = sum((target - sum(k * v for k, v in zip(c, a, strict=True))) ** 2 for a, target in lines)

    def coefficient(i: int) -> Coefficient:
        if not spare:
            return Coefficient(c[i] / units[i], None)
        half = student_t_95(spare) * sqrt(squares / spare * max(inverse[i][i], 0.0))
        return Coefficient(c[i] / units[i], Interval((c[i] - half) / units[i], (c[i] + half) / units[i]))

    return Fit(tuple(coefficient(i) for i in range(terms)))


def _inverse(matrix: list[list[float]]) -> list[list[float]]:
    """By Gauss and Jordan, with pivots; raises ZeroDivisionError where one line of it follows from others."""
    size = len(matrix)
    least = ROUNDING * max(abs(value) for row in matrix for value in row)
    work = [[*row, *(1.0 if i == j else 0.0 for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(work[k][i]))
        work[i], work[pivot] = work[pivot], work[i]
        if abs(work[i][i]) <= least:
            raise ZeroDivisionError
        work[i] = [value / work[i][i] for value in work[i]]
        for k in range(size):
            if k != i:
                work[k] = [value - work[k][i] * above for value, above in zip(work[k], work[i], strict=True)]
    return [row[size:] for row in work]
