"""How far doubling the batch pays, as the rows of a batch sweep show it, and what lengthens or stops the step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

from workbench.ceilings.batch import Limit
from workbench.quantity import Origin, Quantity, Unit
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
    `routed` says that the model has experts to choose.
    """

    context: int
    batch: int
    limit: Limit
    stops: bool
    gain: float | None
    growth_s: float | None = None
    shortest_growth_s: float | None = None
    routed: bool = False

    @property
    def sentence(self) -> str:
        """It in words, with its cause."""
        tokens = "1 token" if self.context == 1 else f"{self.context:,} tokens"
        cause = _MORE_EXPERTS if self.routed and self.limit is Limit.WEIGHTS else _CAUSES[self.limit]
        if self.stops:
            return f"{tokens} each: past batch {self.batch:,} doubling stops paying, {cause}"
        return (
            f"{tokens} each: doubling pays up to batch {self.batch:,}, the largest measured; "
            f"the step grows longer {cause}"
        )


_CAUSES = {
    Limit.WEIGHTS: "because of the engine: the box could still share the reading of the weights",
    Limit.CACHE: "because of cache reads: every sequence's cache is read in every step",
    Limit.ARITHMETIC: "because of arithmetic: so few rows get little of what the box can multiply",
    Limit.MEMORY: "because of memory: the next batch does not fit",
}
_MORE_EXPERTS = "because of weight reads: more sequences touch more experts"


def doublings(rows: Sequence[Row]) -> tuple[Doubling, ...]:
    """How far doubling pays for each context of a batch sweep's rows that two batches were measured of.

    Batches further apart than a double count with the gain of each double between them. The cause is the limit that
    binds the larger batch. But arithmetic and weights are the same whatever the context: where the step grew by more
    than twice what it did between the same batches of the shortest context, the caches are the cause.
    """
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
    measured: list[Row] = []
    for row in by_batch:
        if measured and row.bound_by == Limit.MEMORY:
            last = measured[-1]
            return Doubling(last.prompt_tokens, last.batch, Limit.MEMORY, stops=True, gain=None)
        if _step_s(row) and row.bound_by and (not measured or row.batch > measured[-1].batch):
            measured.append(row)
    for before, after in pairwise(measured):
        if _gain(before, after) < LEAST_GAIN:
            return _between(before, after, shortest, before.batch, _gain(before, after), stops=True)
    if len(measured) < 2:
        return None
    last_gain = _gain(measured[-2], measured[-1])
    return _between(measured[0], measured[-1], shortest, measured[-1].batch, last_gain, stops=False)


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


def _step_s(row: Row) -> float | None:
    return row.batch / row.total_tokens_per_s if row.total_tokens_per_s else None


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
