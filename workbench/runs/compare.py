"""Two runs side by side: the labels that differ, and the points that both measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.errors import StoreError
from workbench.quantity import Origin, Quantity, Unit
from workbench.record import headed
from workbench.runs.row import COLUMN, GAP, POINT_COLUMNS, Row, cell, quantity
from workbench.runs.run import Run

_LABELS = (
    "model",
    "weights",
    "quantisation",
    "dtype",
    "new_tokens",
    "engine",
    "engine_version",
    "device",
    "threads",
    "machine",
)
"""The six labels as columns, but those that tell points apart: context and batch are the same in a matched point."""


@dataclass(frozen=True)
class Difference:
    """A label that two runs don't share."""

    label: str = headed("label")
    run: str = headed("run")
    other: str = headed("other")


@dataclass(frozen=True)
class ComparedPoint:
    """A point that two runs measured; ratios are the other's figure over the run's, None where one has none."""

    prompt_tokens: int = headed("prompt")
    context_tokens: int = headed("context")
    batch: int = headed("batch")
    ttft_ms: Quantity | None = headed("TTFT ms")
    other_ttft_ms: Quantity | None = headed("other")
    ttft_ratio: Quantity | None = headed("ratio")
    total_tokens_per_s: Quantity | None = headed("tok/s")
    other_total_tokens_per_s: Quantity | None = headed("other")
    total_tokens_per_s_ratio: Quantity | None = headed("ratio")


@dataclass(frozen=True)
class Comparison:
    """Two runs of one kind compared; `unmatched` says why a point of either is not among `points`."""

    run: str
    other: str
    kind: str
    differing: tuple[Difference, ...]
    points: tuple[ComparedPoint, ...]
    unmatched: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What must be known before the points are read."""
        if self.differing:
            named = "; ".join(f"{each.label} {each.run} against {each.other}" for each in self.differing)
            return (f"They differ in {named}.", "A ratio is the other's over the run's, for all these together.")
        return ("All labels are the same: a ratio, the other's over the run's, is of one thing measured twice.",)


def compare(run: Run, rows: Sequence[Row], other: Run, other_rows: Sequence[Row]) -> Comparison:
    """Two runs compared at the points of the same prompt, context and batch that both measured.

    Raises StoreError where their kinds differ, or one has no rows.
    """
    if run.kind != other.kind:
        raise StoreError(
            f"{run.run_id} is of the kind {run.kind} and {other.run_id} of the kind {other.kind}: their points are "
            "different things. Compare two runs of one kind."
        )
    for each, its_rows in ((run, rows), (other, other_rows)):
        if not its_rows:
            raise StoreError(f"{each.run_id} has no rows to compare: it ended before its first point was measured.")
    measured, other_measured = _measured(rows), _measured(other_rows)
    return Comparison(
        run=run.run_id,
        other=other.run_id,
        kind=run.kind,
        differing=tuple(_differences(rows, other_rows)),
        points=tuple(_point(row, other_measured[key]) for key, row in measured.items() if key in other_measured),
        unmatched=(
            *_unmatched(run.run_id, rows, other_measured),
            *_unmatched(other.run_id, other_rows, measured),
        ),
    )


_Key = tuple[int, int, int]


def _key(row: Row) -> _Key:
    return row.prompt_tokens, row.context_tokens, row.batch


def _measured(rows: Iterable[Row]) -> dict[_Key, Row]:
    """The rows with figures by their point; of one measured twice the last."""
    return {_key(row): row for row in rows if _has_figures(row)}


def _has_figures(row: Row) -> bool:
    """A prefill that was taken apart has a TTFT alone."""
    return row.total_tokens_per_s is not None or (row.kind == GAP and row.ttft_ms is not None)


def _differences(rows: Sequence[Row], other_rows: Sequence[Row]) -> Iterator[Difference]:
    for name in _LABELS:
        values, other_values = (
            ", ".join(dict.fromkeys(cell(row, name) for row in each)) for each in (rows, other_rows)
        )
        if values != other_values:
            yield Difference(COLUMN[name].heading, values, other_values)


def _point(row: Row, other: Row) -> ComparedPoint:
    figures = [quantity(each, name) for name in ("ttft_ms", "total_tokens_per_s") for each in (row, other)]
    ttft, other_ttft, rate, other_rate = figures
    return ComparedPoint(
        *_key(row),
        ttft,
        other_ttft,
        _ratio(ttft, other_ttft),
        rate,
        other_rate,
        _ratio(rate, other_rate),
    )


def _ratio(figure: Quantity | None, other: Quantity | None) -> Quantity | None:
    if figure is None or other is None or not figure.value:
        return None
    return Quantity(
        "the other run's figure over this run's",
        other.value / figure.value,
        Unit.TIMES,
        Origin.MEASURED,
        formula="other / run",
        inputs=(figure, other),
    )


def _unmatched(run_id: str, rows: Iterable[Row], others: dict[_Key, Row]) -> Iterator[str]:
    for row in rows:
        point = ", ".join(
            f"{COLUMN[name].of_kind(row.kind).heading} {cell(row, name)}" for name in POINT_COLUMNS[row.kind]
        )
        if not _has_figures(row):
            yield f"{run_id}, {point}: {row.status}"
        elif _key(row) not in others:
            yield f"{run_id}, {point}: the other has no point of that prompt, context and batch"
