"""Where doubling the batch stops paying, as the rows of a batch sweep show it, and what stops it."""

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
    """One context's end of what batching gives: past `batch` sequences, where `limit` stops it.

    `gain` is the total rate after the next doubling over the one before it, None where that one could not be run.
    `growth_s` is what the step grew by there, `shortest_growth_s` what it did between the same batches of the
    shortest context, None where this is it or that has none.
    """

    context: int
    batch: int
    limit: Limit
    gain: float | None
    growth_s: float | None = None
    shortest_growth_s: float | None = None

    @property
    def sentence(self) -> str:
        """What `batch` is, with its cause."""
        tokens = "1 token" if self.context == 1 else f"{self.context:,} tokens"
        return f"sequences past which doubling the batch stops paying with {tokens} each, {_CAUSES[self.limit]}"


_CAUSES = {
    Limit.WEIGHTS: "because of the engine: the box could still share the reading of the weights",
    Limit.CACHE: "because of cache reads: every sequence's cache is read in every step",
    Limit.ARITHMETIC: "because of arithmetic: so few rows get little of what the box can multiply",
    Limit.MEMORY: "because of memory: the next batch does not fit",
}


def doublings(rows: Sequence[Row]) -> tuple[Doubling, ...]:
    """Where doubling stops paying for each context of a batch sweep's rows; contexts of which none does are left out.

    Batches further apart than a double count with the gain of each double between them. The cause is the limit that
    binds the batch that no longer pays. But arithmetic and weights are the same whatever the context: where the step
    grew by more than twice what it did between the same batches of the shortest context, the caches are the cause.
    """
    contexts = dict.fromkeys(row.prompt_tokens for row in rows)
    shortest = min(contexts, default=0)
    least = {row.batch: step for row in rows if row.prompt_tokens == shortest and (step := _step_s(row))}
    found = (
        _end([row for row in rows if row.prompt_tokens == context], {} if context == shortest else least)
        for context in contexts
    )
    return tuple(end for end in found if end is not None)


def _end(rows: Sequence[Row], shortest: Mapping[int, float]) -> Doubling | None:
    by_batch = sorted(rows, key=lambda row: row.batch)
    for row, following in pairwise(by_batch):
        step, following_step = _step_s(row), _step_s(following)
        if step is None or row.batch == following.batch:
            continue
        if following.bound_by == Limit.MEMORY:
            return Doubling(row.prompt_tokens, row.batch, Limit.MEMORY, None)
        if following_step is None or not following.bound_by:
            continue
        ratio = following.batch / row.batch
        gain = (ratio * step / following_step) ** (1 / log2(ratio))
        if gain < LEAST_GAIN:
            growth = following_step - step
            least = None
            if {row.batch, following.batch} <= shortest.keys():
                least = shortest[following.batch] - shortest[row.batch]
            by_cache = least is not None and growth > 2 * max(least, 0.0)
            limit = Limit.CACHE if by_cache else Limit(following.bound_by)
            return Doubling(row.prompt_tokens, row.batch, limit, gain, growth, least)
    return None


def _step_s(row: Row) -> float | None:
    return row.batch / row.total_tokens_per_s if row.total_tokens_per_s else None


def figure(doubling: Doubling) -> Quantity:
    """It as a figure, the sequences, with what it was judged by among its inputs."""
    inputs = (
        ("total rate after the next doubling over before", doubling.gain, Unit.TIMES),
        ("what the step grew by", doubling.growth_s, Unit.SECONDS),
        ("what it grew by with the shortest context", doubling.shortest_growth_s, Unit.SECONDS),
    )
    known = tuple(Quantity(name, value, unit, Origin.MEASURED) for name, value, unit in inputs if value is not None)
    return Quantity(doubling.sentence, doubling.batch, Unit.COUNT, Origin.MEASURED, "b*", inputs=known)
