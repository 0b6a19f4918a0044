"""The points of a ladder: the passes that rows measured, each with what it must do and what it took."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import StoreError
from workbench.experiments.statistics import Interval
from workbench.runs.ladder import DECODE, PREFILL
from workbench.runs.readings import Reading, readings
from workbench.runs.row import Row

WAYS_TO_A_CEILING = (
    "Of imported rows the model tells it: `workbench runs import FILE --model MODEL`; why a model that was named was "
    "not taken, `workbench runs show` says. `workbench sweep MODEL` measures rows that have it."
)


@dataclass(frozen=True)
class Asked:
    """Which pass of the rows: None is the longest context or prompt, and the most sequences, that were measured."""

    phase: str = DECODE
    tokens: int | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Point:
    """One pass of `batch` sequences that each hold, or bring, `tokens`: what it must do, and what it took.

    `moved` are the bytes it must read, `cache_bytes` of them of the cache, `flop` its operations, 0 where the row
    doesn't say; `seconds` is its median time. B is the read rate of the box beside it in bytes/s, None if unknown.
    """

    tokens: int
    batch: int
    moved: float
    cache_bytes: float
    flop: float
    seconds: float
    interval: Interval | None
    B: float | None
    row: Row


def points(rows: Sequence[Row], phase: str) -> list[Point]:
    """The passes of a phase that the rows measured; raises StoreError where none says what it must read."""
    of_reading = _prefill if phase == PREFILL else _step
    found = [point for reading in readings(rows) if (point := of_reading(reading)) is not None]
    if found:
        return found
    what = "TTFT of one sequence" if phase == PREFILL else "decode step"
    raise StoreError(
        f"These rows hold no {what} together with what it must read, so there is no ceiling to begin a ladder from. "
        f"{WAYS_TO_A_CEILING if rows else 'There are no rows.'}"
    )


def _step(reading: Reading) -> Point | None:
    row = reading.row
    if row is None or not reading.tpot_s or not row.bytes_per_step:
        return None
    return Point(
        reading.prompt_tokens,
        reading.batch,
        row.bytes_per_step,
        row.cache_bytes or 0,
        row.step_flop or 0,
        reading.tpot_s,
        reading.tpot_interval,
        _bytes_a_second(row.read_gb_per_s),
        row,
    )


def _prefill(reading: Reading) -> Point | None:
    row = reading.row
    if row is None or not reading.ttft_s or not row.weight_bytes or reading.batch != 1:
        return None
    if reading.context_tokens > reading.prompt_tokens + row.new_tokens:
        # Other tokens lay in the cache before it: that is more work than a prompt of its own.
        return None
    return Point(
        reading.prompt_tokens,
        1,
        row.weight_bytes,
        0,
        row.prefill_flop or 0,
        reading.ttft_s,
        reading.ttft_interval,
        _bytes_a_second(row.read_gb_per_s),
        row,
    )


def _bytes_a_second(gb_per_s: float | None) -> float | None:
    return gb_per_s * 1e9 if gb_per_s else None


def chosen_point(points: Sequence[Point], asked: Asked) -> Point:
    """The point asked for, the last of several; raises StoreError, which says the points there are, for none.

    Its tokens are those of its prompt, or where no point has a prompt of so many those of its context.
    """
    tokens = max(point.tokens for point in points) if asked.tokens is None else asked.tokens
    of_tokens = [point for point in points if point.tokens == tokens] or [
        point for point in points if point.row.context_tokens == tokens
    ]
    batch = max((point.batch for point in of_tokens), default=1) if asked.batch is None else asked.batch
    found = [point for point in of_tokens if point.batch == batch]
    if not found:
        known = ", ".join(f"{point.tokens:,} ({point.row.context_tokens:,}) × {point.batch:,}" for point in points)
        raise StoreError(
            f"These rows hold no pass of {tokens:,} tokens and {batch:,} sequences. They hold, prompt (context at the "
            f"middle step) × sequences: {known}. Either of the two counts names a pass."
        )
    return found[-1]
