"""Two runs side by side: the labels that differ, and the points that both measured, with what can be told of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.errors import StoreError
from workbench.experiments.statistics import Interval, Ratio, ratio_of_medians
from workbench.quantity import Origin, Quantity, Unit
from workbench.record import headed
from workbench.runs.cell import cell, quantity
from workbench.runs.row import COLUMN, POINT_COLUMNS, Row, column_of
from workbench.runs.run import Run
from workbench.runs.samples import Samples

_LABELS = (
    "model",
    "weights",
    "quantisation",
    "dtype",
    "new_tokens",
    "extrapolated_from",
    "engine",
    "engine_version",
    "device",
    "threads",
    "machine",
)
"""The six labels as columns, but those that tell points apart: context and batch are the same in a matched point."""


SampledRow = tuple[Row, Samples]


class Told(StrEnum):
    """What a ratio says of the other run, or why it says nothing."""

    FASTER = "faster"
    SLOWER = "slower"
    UNKNOWN = "can't tell"
    ONE_SAMPLE = "one sample"
    NO_SAMPLES = "no samples"


_TOLD_WORDS = {
    Told.UNKNOWN: "\"can't tell\": the ratio's 95 % interval spans 1. More repeats of both narrow it.",
    Told.ONE_SAMPLE: '"one sample": a figure measured once has no interval. Measure it with more repeats.',
    Told.NO_SAMPLES: '"no samples": a row came without its samples, so the rows\' own figures stand there: the best '
    "repeat, or the mean of another tool's file. Their ratio has no interval.",
}
"""What is said once of words that stand in the table."""


@dataclass(frozen=True)
class Difference:
    """A label that two runs don't share."""

    label: str = headed("label")
    run: str = headed("run")
    other: str = headed("other")


@dataclass(frozen=True)
class ComparedPoint:
    """A point that two runs measured; ratios are the other's figure over the run's, None where one has none.

    Figures are medians where both rows have samples, the rows' own where one has not. `low` and `high` are the ends of
    the ratio's 95 per cent interval.
    """

    prompt_tokens: int = headed("prompt")
    context_tokens: int = headed("context")
    batch: int = headed("batch")
    ttft_ms: Quantity | None = headed("TTFT ms")
    other_ttft_ms: Quantity | None = headed("other")
    ttft_ratio: Quantity | None = headed("ratio")
    ttft_ratio_low: Quantity | None = headed("95 % from")
    ttft_ratio_high: Quantity | None = headed("to")
    ttft_told: Told | None = headed("other is")
    total_tokens_per_s: Quantity | None = headed("tok/s")
    other_total_tokens_per_s: Quantity | None = headed("other")
    total_tokens_per_s_ratio: Quantity | None = headed("ratio")
    total_tokens_per_s_ratio_low: Quantity | None = headed("95 % from")
    total_tokens_per_s_ratio_high: Quantity | None = headed("to")
    total_tokens_per_s_told: Told | None = headed("other is")


@dataclass(frozen=True)
class Comparison:
    """Two runs of one kind compared; `unmatched` says why a point of either is not among `points`.

    `extrapolated` names those whose figures follow from slices of the model.
    """

    run: str
    other: str
    kind: str
    differing: tuple[Difference, ...]
    points: tuple[ComparedPoint, ...]
    unmatched: tuple[str, ...]
    extrapolated: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What must be known before the points are read."""
        told = {each for point in self.points for each in (point.ttft_told, point.total_tokens_per_s_told)}
        medians = ("Figures are medians of a row's samples.",) if told - {None, Told.NO_SAMPLES} else ()
        about_words = (*medians, *(words for word, words in _TOLD_WORDS.items() if word in told))
        if self.differing:
            named = "; ".join(
                f"{each.label} {each.run or 'none'} against {each.other or 'none'}" for each in self.differing
            )
            over = "A ratio is the other's over the run's, for all these together."
            return (f"They differ in {named}.", over, *self._extrapolated_words(), *about_words)
        same = "All labels are the same: a ratio, the other's over the run's, is of one thing measured twice."
        return (same, *self._extrapolated_words(), *about_words)

    def _extrapolated_words(self) -> Iterator[str]:
        if self.extrapolated:
            names = " and ".join(self.extrapolated)
            yield f"{names}: extrapolated from slices of the model, so these figures are not measured of the whole."


def compare(run: Run, sampled: Sequence[SampledRow], other: Run, other_sampled: Sequence[SampledRow]) -> Comparison:
    """Two runs compared at the points of the same prompt, context and batch that both measured.

    Raises StoreError where their kinds differ, or one has no rows.
    """
    if run.kind != other.kind:
        raise StoreError(
            f"{run.run_id} is of the kind {run.kind} and {other.run_id} of the kind {other.kind}: their points are "
            "different things. Compare two runs of one kind."
        )
    rows, other_rows = ([row for row, _ in each] for each in (sampled, other_sampled))
    for each, its_rows in ((run, rows), (other, other_rows)):
        if not its_rows:
            raise StoreError(f"{each.run_id} has no rows to compare: none of its points is measured.")
    measured, other_measured = _measured(sampled), _measured(other_sampled)
    return Comparison(
        run=run.run_id,
        other=other.run_id,
        kind=run.kind,
        differing=tuple(_differences(rows, other_rows)),
        points=tuple(_point(one, other_measured[key]) for key, one in measured.items() if key in other_measured),
        unmatched=(
            *_unmatched(run.run_id, rows, other_measured),
            *_unmatched(other.run_id, other_rows, measured),
        ),
        extrapolated=tuple(
            each.run_id
            for each, its_rows in ((run, rows), (other, other_rows))
            if any(row.extrapolated_from for row in its_rows)
        ),
    )


_Key = tuple[int, int, int]


def _key(row: Row) -> _Key:
    return row.prompt_tokens, row.context_tokens, row.batch


def _measured(sampled: Iterable[SampledRow]) -> dict[_Key, SampledRow]:
    """The rows with figures by their point; of one measured twice the last."""
    return {_key(row): (row, samples) for row, samples in sampled if _has_figures(row)}


def _has_figures(row: Row) -> bool:
    """Not of a point that failed; a prefill that was taken apart, or that another tool timed, has a TTFT alone."""
    return row.status == "ok" and (row.total_tokens_per_s is not None or row.ttft_ms is not None)


def _differences(rows: Sequence[Row], other_rows: Sequence[Row]) -> Iterator[Difference]:
    for name in _LABELS:
        values, other_values = (
            ", ".join(dict.fromkeys(cell(row, name) for row in each)) for each in (rows, other_rows)
        )
        if values != other_values:
            yield Difference(COLUMN[name].heading, values, other_values)


def _point(one: SampledRow, another: SampledRow) -> ComparedPoint:
    (row, samples), (other, others) = one, another
    ttft, rate = _compared_ttft(row, samples, other, others), _compared_rate(row, samples, other, others)
    return ComparedPoint(
        row.prompt_tokens,
        row.context_tokens,
        row.batch,
        ttft.run,
        ttft.other,
        ttft.ratio,
        ttft.low,
        ttft.high,
        ttft.told,
        rate.run,
        rate.other,
        rate.ratio,
        rate.low,
        rate.high,
        rate.told,
    )


@dataclass(frozen=True)
class _Compared:
    """The run's figure and the other's, their ratio, the ends of its interval, and what it tells."""

    run: Quantity | None
    other: Quantity | None
    ratio: Quantity | None
    low: Quantity | None
    high: Quantity | None
    told: Told | None


def _compared_ttft(row: Row, samples: Samples, other: Row, others: Samples) -> _Compared:
    if not (samples.ttft_s and others.ttft_s):
        return _unsampled(quantity(row, "ttft_ms"), quantity(other, "ttft_ms"))
    figures = quantity(row, "ttft_median_ms"), quantity(other, "ttft_median_ms")
    return _sampled(*figures, ratio_of_medians(others.ttft_s, samples.ttft_s), longer=Told.SLOWER)


def _compared_rate(row: Row, samples: Samples, other: Row, others: Samples) -> _Compared:
    """A rate is one over a step, so the run's steps stand above the other's."""
    if not (samples.tpot_s and others.tpot_s):
        return _unsampled(quantity(row, "total_tokens_per_s"), quantity(other, "total_tokens_per_s"))
    return _sampled(
        _median_rate(row), _median_rate(other), ratio_of_medians(samples.tpot_s, others.tpot_s), longer=Told.FASTER
    )


def _median_rate(row: Row) -> Quantity | None:
    """What all sequences together decode at the median step."""
    step, batch = quantity(row, "tpot_median_ms"), quantity(row, "batch")
    if step is None or batch is None or not step.value:
        return None
    return Quantity(
        "decode rate of all sequences together, of the median step",
        batch.value / (step.value / 1e3),
        Unit.TOKENS_PER_SECOND,
        Origin.MEASURED,
        formula="b / median TPOT",
        inputs=(batch, step),
    )


def _unsampled(figure: Quantity | None, other: Quantity | None) -> _Compared:
    ratio = _ratio(figure, other)
    return _Compared(figure, other, ratio, None, None, None if ratio is None else Told.NO_SAMPLES)


def _sampled(figure: Quantity | None, other: Quantity | None, found: Ratio | None, longer: Told) -> _Compared:
    """`longer` is what a ratio above 1 says of the other run."""
    ratio = _ratio(figure, other)
    if ratio is None or found is None:
        return _Compared(figure, other, ratio, None, None, None if ratio is None else Told.ONE_SAMPLE)
    low, high = (_end(name, value) for name, value in (("low", found.interval.low), ("high", found.interval.high)))
    return _Compared(figure, other, ratio, low, high, _told(found.interval, longer))


def _told(interval: Interval, longer: Told) -> Told:
    if interval.low <= 1 <= interval.high:
        return Told.UNKNOWN
    shorter = Told.FASTER if longer is Told.SLOWER else Told.SLOWER
    return longer if interval.low > 1 else shorter


def _end(name: str, value: float) -> Quantity:
    meaning = f"{name} end of the ratio's 95 % interval"
    return Quantity(meaning, value, Unit.TIMES, Origin.MEASURED, source="the samples of both runs' rows")


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


def _unmatched(run_id: str, rows: Iterable[Row], others: dict[_Key, SampledRow]) -> Iterator[str]:
    """Why points of a run are not compared, each reason once with those it holds for."""
    points: dict[str, list[str]] = {}
    for row in rows:
        point = ", ".join(f"{column_of(name, row.kind).heading} {cell(row, name)}" for name in POINT_COLUMNS[row.kind])
        if not _has_figures(row):
            points.setdefault(row.status, []).append(point)
        elif _key(row) not in others:
            points.setdefault("the other has no point of that prompt, context and batch", []).append(point)
    for why, each in points.items():
        yield f"{run_id}, {'; '.join(each)}: {why}"
