"""How far doubling the batch pays, as the rows of a batch sweep show it, and what lengthens or stops the step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log2

from workbench.ceilings.batch import Limit
from workbench.experiments.statistics import Interval
from workbench.quantity import Origin, Quantity, Unit, format_number
from workbench.runs.readings import range_words, step_interval, times
from workbench.runs.row import Row

LEAST_GAIN = 1.10
"""A doubling pays where the total rate grows by at least as much."""


@dataclass(frozen=True)
class Doubling:
    """How far doubling pays with one context: up to `batch` sequences, and `limit` is why no further or no better.

    Where it `stops`, the next batch measured no longer pays, or does not fit; otherwise `batch` is the largest.
    `gain` is the total rate after the last doubling looked at over the one before it, None where that one could not be
    run. `growth_s` is how much longer the step became: by that doubling where it stops, from the smallest batch to the
    largest otherwise. `shortest_growth_s` is the same of the shortest context, None where this is it or that has none.
    `unsure` is where the gain lies where the steps' intervals don't decide whether it pays, None where they do: of the
    doubling it stops at, else of the first that may not pay, which is the one past batch `surely`.
    `routed` says that the model has experts to choose; `refused` is the next batch where that one does not fit.
    """

    context: int
    batch: int
    limit: Limit
    stops: bool
    gain: float | None
    growth_s: float | None = None
    shortest_growth_s: float | None = None
    routed: bool = False
    refused: int | None = None
    unsure: Interval | None = None
    surely: int | None = None

    @property
    def verdict(self) -> str:
        """How far it pays, and the cause by name."""
        tokens = f"{context_words(self.context)} each"
        cause = "the engine" if self._is_engine else str(self.limit)
        if self.refused is not None:
            return f"{tokens}: past batch {self.batch:,} doubling stops, because of memory"
        grew = "" if self.unsure is None else f"the total rate grew {range_words(self.unsure)} times"
        if self.stops:
            if grew:
                return f"{tokens}: past batch {self.batch:,} doubling may stop paying: {grew}"
            return f"{tokens}: past batch {self.batch:,} doubling stops paying, because of {cause}"
        lengthens = "lengthen" if cause.endswith("s") else "lengthens"
        to = f"to batch {self.batch:,}"
        if self.surely is not None:
            to = f"{to}, but can't tell whether it does past batch {self.surely:,}, where {grew}"
        return f"{tokens}: doubling pays {to}; {cause} {lengthens} the step"

    @property
    def _is_engine(self) -> bool:
        """Weights that more sequences share are no cause; where they choose experts, they read more of them."""
        return self.limit is Limit.WEIGHTS and not self.routed

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        return f"{self.verdict}: {self.reason}"

    @property
    def reason(self) -> str:
        """Why this limit is named."""
        if self.growth_s is not None and self.shortest_growth_s is not None and self.limit is Limit.CACHE:
            grew, least = (format_number(1e3 * max(s, 0.0)) for s in (self.growth_s, self.shortest_growth_s))
            return f"the measured step grew by {grew} ms, by {least} ms with the shortest context"
        if self.refused is not None:
            return f"batch {self.refused:,} does not fit"
        if self._is_engine:
            return "the box could still share the reading of the weights"
        return _REASONS[self.limit]


_REASONS = {
    Limit.WEIGHTS: "more sequences touch more experts",
    Limit.CACHE: "every sequence's cache is read in every step",
    Limit.ARITHMETIC: "so few rows get little of what the box can multiply",
}


def context_words(tokens: int) -> str:
    """A context in words."""
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"


def doublings(rows: Sequence[Row]) -> tuple[Doubling, ...]:
    """How far doubling pays for each context of a batch sweep's rows that two batches were measured of.

    Rows that failed count for nothing, but for a batch that was refused for memory.
    Batches further apart than a double count with the gain of each double between them. The cause is the limit that
    binds the larger batch. But arithmetic and weights are the same whatever the context: where the step grew by more
    than twice what it did between the same batches of the shortest context, the caches are the cause.
    """
    rows = [row for row in rows if row.status == "ok" or row.bound_by == Limit.MEMORY]
    contexts = dict.fromkeys(row.prompt_tokens for row in rows)
    shortest = min(contexts, default=0)
    least = {row.batch: step for row in rows if row.prompt_tokens == shortest and (step := _step_s(row))}
    found = (
        _doubling(
            sorted((row for row in rows if row.prompt_tokens == context), key=lambda row: row.batch),
            {} if context == shortest else least,
        )
        for context in contexts
    )
    return tuple(each for each in found if each is not None)


def _doubling(by_batch: Sequence[Row], shortest: Mapping[int, float]) -> Doubling | None:
    refused = next((row for row in by_batch if row.bound_by == Limit.MEMORY), None)
    measured: list[Row] = []
    for row in by_batch:
        if _step_s(row) and row.bound_by and (not measured or row.batch > measured[-1].batch):
            measured.append(row)
    for before, after in pairwise(measured):
        if _gain(before, after) < LEAST_GAIN:
            found = _between(before, after, shortest, before.batch, _gain(before, after), stops=True)
            return replace(found, unsure=_spanning(before, after))
    if measured and refused is not None:
        last = measured[-1]
        return Doubling(last.prompt_tokens, last.batch, Limit.MEMORY, stops=True, gain=None, refused=refused.batch)
    if len(measured) < 2:
        return None
    last_gain = _gain(measured[-2], measured[-1])
    pays = _between(measured[0], measured[-1], shortest, measured[-1].batch, last_gain, stops=False)
    for before, after in pairwise(measured):
        if (unsure := _spanning(before, after)) is not None:
            return replace(pays, unsure=unsure, surely=before.batch)
    return pays


def _between(
    small: Row, large: Row, shortest: Mapping[int, float], batch: int, gain: float, *, stops: bool
) -> Doubling:
    """How far doubling pays, its cause judged by how the step grew from one row to the other."""
    growth, least = (_step_s(large) or 0.0) - (_step_s(small) or 0.0), None
    if {small.batch, large.batch} <= shortest.keys():
        least = shortest[large.batch] - shortest[small.batch]
    by_cache = least is not None and growth > 2 * max(least, 0.0)
    limit = Limit.CACHE if by_cache else Limit(large.bound_by or Limit.WEIGHTS)
    return Doubling(small.prompt_tokens, batch, limit, stops, gain, growth, least, large.experts_expected is not None)


def _gain(before: Row, after: Row) -> float:
    """The total rate after over before, of each double between their batches."""
    ratio = (after.total_tokens_per_s or 0.0) / (before.total_tokens_per_s or 1.0)
    return float(ratio ** (1 / log2(after.batch / before.batch)))


def _spanning(before: Row, after: Row) -> Interval | None:
    """Where the gain of each double lies, if the steps' intervals allow another answer than it gives; None if not."""
    steps = [step_interval(row) for row in (before, after)]
    if None in steps:
        return None
    shorter = times(_step_s(before) or 0.0, steps[0], _step_s(after) or 1.0, steps[1])
    more, doubles = after.batch / before.batch, log2(after.batch / before.batch)
    low, high = ((more * end) ** (1 / doubles) for end in (shorter.interval.low, shorter.interval.high))
    allows_other = low < LEAST_GAIN if _gain(before, after) >= LEAST_GAIN else high >= LEAST_GAIN
    return Interval(low, high) if allows_other else None


def _step_s(row: Row) -> float | None:
    return row.batch / row.total_tokens_per_s if row.status == "ok" and row.total_tokens_per_s else None


def figure(doubling: Doubling) -> Quantity:
    """It as a figure, the sequences, with what it was judged by among its inputs."""
    where = "then" if doubling.stops else "from the smallest batch to the largest"
    inputs = (
        ("total rate after the last doubling over before", doubling.gain, Unit.TIMES),
        (f"what the step grew by {where}", doubling.growth_s, Unit.SECONDS),
        ("what it grew by with the shortest context", doubling.shortest_growth_s, Unit.SECONDS),
    )
    known = tuple(Quantity(name, value, unit, Origin.MEASURED) for name, value, unit in inputs if value is not None)
    return Quantity(doubling.sentence, doubling.batch, Unit.COUNT, Origin.MEASURED, "b*", inputs=known)
