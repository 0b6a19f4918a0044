"""Two runs side by side: only what compares is matched, and what differs is named first."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.fakes import a_row
from workbench.errors import StoreError
from workbench.runs.compare import SampledRow, Told, compare
from workbench.runs.row import BATCH
from workbench.runs.run import Run
from workbench.runs.samples import Samples

ONE = Run("one", "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")
TWO = Run("two", "prefill_decode", "2026-01-02T00:00:00Z", "qwen3-0.6b", "a box")


def measured(prompt: int, ttft_ms: float, rate: float, **changed: object) -> SampledRow:
    about = {"prompt_tokens": prompt, "context_tokens": prompt + 8, "ttft_ms": ttft_ms, "total_tokens_per_s": rate}
    return a_row(**{**about, **changed}), Samples()


def sampled(ttft_s: Sequence[float], tpot_s: Sequence[float], **changed: object) -> SampledRow:
    """A point whose best figures say something else than its medians."""
    row, _ = measured(16, min(ttft_s) * 1e3, 1 / min(tpot_s), **changed)
    row = replace(
        row,
        ttft_median_ms=sorted(ttft_s)[len(ttft_s) // 2] * 1e3,
        tpot_median_ms=sorted(tpot_s)[len(tpot_s) // 2] * 1e3,
    )
    return row, Samples(tuple(ttft_s), tuple(tpot_s))


def test_points_both_measured_stand_side_by_side_with_the_others_figure_over_the_runs() -> None:
    compared = compare(
        ONE,
        [measured(1, 10.0, 50.0), measured(16, 20.0, 40.0)],
        TWO,
        [measured(16, 30.0, 60.0), measured(64, 50.0, 50.0)],
    )
    (point,) = compared.points
    assert (point.prompt_tokens, point.context_tokens, point.batch) == (16, 24, 1)
    assert point.ttft_ratio is not None
    assert point.ttft_ratio.value == pytest.approx(1.5)
    assert point.total_tokens_per_s_ratio is not None
    assert point.total_tokens_per_s_ratio.value == pytest.approx(1.5)
    assert [figure.value for figure in point.ttft_ratio.inputs] == [20.0, 30.0]
    assert [line.partition(":")[0] for line in compared.unmatched] == ["one, prompt 1", "two, prompt 64"]


def test_extrapolated_runs_are_named_whether_one_is_or_both() -> None:
    whole, sliced = [measured(16, 20.0, 40.0)], [measured(16, 20.0, 40.0, extrapolated_from="4 and 8 of 28 layers")]
    one_of_two = compare(ONE, whole, TWO, sliced)
    assert "extrapolated from none against 4 and 8 of 28 layers" in one_of_two.sentences[0]
    assert any(words.startswith("two: extrapolated") for words in one_of_two.sentences)
    assert any(words.startswith("one and two: extrapolated") for words in compare(ONE, sliced, TWO, sliced).sentences)
    assert not any("extrapolated" in words for words in compare(ONE, whole, TWO, whole).sentences)


def test_labels_that_differ_are_named_first() -> None:
    compared = compare(
        ONE,
        [measured(16, 20.0, 40.0)],
        TWO,
        [measured(16, 20.0, 40.0, dtype="bfloat16", machine="another box", engine_version="6")],
    )
    assert [each.label for each in compared.differing] == ["dtype", "engine version", "machine"]
    assert compared.sentences[0].startswith("They differ in dtype float32 against bfloat16; engine version")


def test_two_measurements_of_one_thing_are_said_to_be_that() -> None:
    rows = [measured(16, 20.0, 40.0)]
    assert "All labels are the same" in compare(ONE, rows, TWO, rows).sentences[0]


def test_a_point_of_another_context_and_one_that_failed_are_not_matched_and_said_so() -> None:
    failed = a_row(prompt_tokens=64, status="failed: out of memory"), Samples()
    compared = compare(
        ONE, [measured(16, 20.0, 40.0), failed], TWO, [measured(16, 20.0, 40.0, new_tokens=65, context_tokens=48)]
    )
    assert compared.points == ()
    assert compared.unmatched[1] == "one, prompt 64: failed: out of memory"
    assert len(compared.unmatched) == 3


def test_points_of_one_reason_are_named_together() -> None:
    compared = compare(ONE, [measured(n, 20.0, 40.0) for n in (1, 16, 64)], TWO, [measured(64, 20.0, 40.0)])
    why = "the other has no point of that prompt, context and batch"
    assert compared.unmatched == (f"one, prompt 1; prompt 16: {why}",)


def test_batches_are_matched_by_context_and_batch() -> None:
    def step(batch: int, rate: float) -> SampledRow:
        row = a_row(kind=BATCH, prompt_tokens=8, context_tokens=12, batch=batch, total_tokens_per_s=rate)
        return row, Samples()

    batches = [Run(name, BATCH, "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box") for name in ("one", "two")]
    compared = compare(batches[0], [step(1, 10.0), step(4, 30.0)], batches[1], [step(4, 45.0)])
    assert [(point.batch, point.ttft_ms) for point in compared.points] == [(4, None)]
    assert compared.unmatched[0].startswith("one, context 8, batch 1")


def test_medians_are_compared_and_each_ratio_has_the_interval_of_its_samples() -> None:
    one = sampled([0.100, 0.110, 0.112, 0.115, 0.118], [0.010, 0.0101, 0.0102, 0.0103, 0.0104])
    two = sampled([0.090, 0.111, 0.113, 0.114, 0.119], [0.020, 0.0201, 0.0202, 0.0203, 0.0204])
    (point,) = compare(ONE, [one], TWO, [two]).points
    assert point.ttft_ratio is not None
    assert point.ttft_ratio_low is not None
    assert point.ttft_ratio_high is not None
    assert point.ttft_ratio.value == pytest.approx(113 / 112)
    assert point.ttft_ratio_low.value < 1 < point.ttft_ratio_high.value
    assert point.ttft_told is Told.UNKNOWN
    assert point.total_tokens_per_s_ratio is not None
    assert point.total_tokens_per_s_ratio_high is not None
    assert point.total_tokens_per_s_ratio.value == pytest.approx(102 / 202)
    assert point.total_tokens_per_s_ratio_high.value < 0.6
    assert point.total_tokens_per_s_told is Told.SLOWER
    assert point.total_tokens_per_s is not None
    assert [figure.value for figure in point.total_tokens_per_s.inputs] == pytest.approx([1, 10.2])


def test_the_other_is_faster_where_its_ttft_is_resolved_below_or_its_rate_above() -> None:
    slow, fast = (
        sampled([0.2, 0.201, 0.202], [0.02, 0.0201, 0.0202]),
        sampled([0.1, 0.101, 0.102], [0.01, 0.0101, 0.01]),
    )
    (point,) = compare(ONE, [slow], TWO, [fast]).points
    assert (point.ttft_told, point.total_tokens_per_s_told) == (Told.FASTER, Told.FASTER)
    (point,) = compare(ONE, [fast], TWO, [slow]).points
    assert (point.ttft_told, point.total_tokens_per_s_told) == (Told.SLOWER, Told.SLOWER)


def test_rows_without_samples_and_with_one_say_so_in_the_table_and_once_in_words() -> None:
    bare, many = measured(16, 20.0, 40.0), sampled([0.2, 0.201, 0.202], [0.02, 0.0201, 0.0202])
    compared = compare(ONE, [bare], TWO, [many])
    (point,) = compared.points
    assert (point.ttft_told, point.ttft_ratio_low, point.ttft_ratio_high) == (Told.NO_SAMPLES, None, None)
    assert point.other_ttft_ms is not None
    assert point.other_ttft_ms.value == 200.0
    assert [words.partition(":")[0] for words in compared.sentences[1:]] == ['"no samples"']
    compared = compare(ONE, [sampled([0.2], [0.02])], TWO, [many])
    assert {compared.points[0].ttft_told, compared.points[0].total_tokens_per_s_told} == {Told.ONE_SAMPLE}
    assert [words.partition(":")[0] for words in compared.sentences[2:]] == ['"one sample"']
    assert compared.sentences[1] == "Figures are medians of a row's samples."


def test_runs_of_two_kinds_and_runs_without_rows_are_refused() -> None:
    batch = Run("two", BATCH, "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")
    with pytest.raises(StoreError, match="Compare two runs of one kind"):
        compare(ONE, [measured(16, 20.0, 40.0)], batch, [measured(16, 20.0, 40.0)])
    with pytest.raises(StoreError, match="two has no rows"):
        compare(ONE, [measured(16, 20.0, 40.0)], TWO, [])
