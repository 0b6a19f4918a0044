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
    """One context's end of what batching gives: with `batch` sequences, past which `limit` binds.

    `gain` is the total rate after the next doubling over the one before it, None where that one could not be run.
    """

    context: int
    batch: int
    limit: Limit
    gain: float | None

    @property
    def sentence(self) -> str:
        """It in words."""
        tokens = "1 token" if self.context == 1 else f"{self.context:,} tokens"
        if self.gain is None:
            return f"with {tokens} each, the next batch is stopped by memory: the most sequences that ran"
        return f"with {tokens} each, doubling the batch stops paying {_CAUSES[self.limit]}: sequences from which on"


_CAUSES = {
    Limit.WEIGHTS: "though the weights are still most of what is read, so the engine and not the box limits it",
    Limit.CACHE: "because every sequence's cache is read",
    Limit.ARITHMETIC: "because of the arithmetic of so few rows",
    Limit.MEMORY: "because of memory",
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
    return Quantity(doubling.sentence, doubling.batch, Unit.COUNT, Origin.MEASURED, "b", inputs=gain)


def _gain(gain: float) -> Quantity:
    return Quantity("total rate after the next doubling over before", gain, Unit.TIMES, Origin.MEASURED)
