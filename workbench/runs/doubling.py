"""Where doubling the batch stops paying, as the rows of a batch sweep show it, and what stops it."""

from collections.abc import Sequence
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
    """One context's end of what batching gives: past `batch` sequences, where `limit` binds.

    `gain` is the total rate after the next doubling over the one before it, None where that one could not be run.
    """

    context: int
    batch: int
    limit: Limit
    gain: float | None

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

    Batches further apart than a double count with the gain of each double between them.
    """
    contexts = dict.fromkeys(row.prompt_tokens for row in rows)
    found = (_end([row for row in rows if row.prompt_tokens == context]) for context in contexts)
    return tuple(end for end in found if end is not None)


def _end(rows: Sequence[Row]) -> Doubling | None:
    by_batch = sorted(rows, key=lambda row: row.batch)
    for row, following in pairwise(by_batch):
        if not row.total_tokens_per_s or row.batch == following.batch:
            continue
        if following.bound_by == Limit.MEMORY:
            return Doubling(row.prompt_tokens, row.batch, Limit.MEMORY, None)
        if following.total_tokens_per_s and following.bound_by:
            doubles = log2(following.batch / row.batch)
            gain = (following.total_tokens_per_s / row.total_tokens_per_s) ** (1 / doubles)
            if gain < LEAST_GAIN:
                return Doubling(row.prompt_tokens, row.batch, Limit(following.bound_by), gain)
    return None


def figure(doubling: Doubling) -> Quantity:
    """It as a figure, the sequences, with the gain among its inputs."""
    gain = () if doubling.gain is None else (_gain(doubling.gain),)
    return Quantity(doubling.sentence, doubling.batch, Unit.COUNT, Origin.MEASURED, "b*", inputs=gain)


def _gain(gain: float) -> Quantity:
    return Quantity("total rate after the next doubling over before", gain, Unit.TIMES, Origin.MEASURED)
