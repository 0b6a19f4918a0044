"""Two runs side by side: only what compares is matched, and what differs is named first."""

import pytest

from tests.fakes import a_row
from workbench.errors import StoreError
from workbench.runs.compare import compare
from workbench.runs.row import BATCH, Row
from workbench.runs.run import Run

ONE = Run("one", "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")
TWO = Run("two", "prefill_decode", "2026-01-02T00:00:00Z", "qwen3-0.6b", "a box")


def measured(prompt: int, ttft_ms: float, rate: float, **changed: object) -> Row:
    about = {"prompt_tokens": prompt, "context_tokens": prompt + 8, "ttft_ms": ttft_ms, "total_tokens_per_s": rate}
    return a_row(**{**about, **changed})


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
    failed = a_row(prompt_tokens=64, status="failed: out of memory")
    compared = compare(
        ONE, [measured(16, 20.0, 40.0), failed], TWO, [measured(16, 20.0, 40.0, new_tokens=65, context_tokens=48)]
    )
    assert compared.points == ()
    assert compared.unmatched[1] == "one, prompt 64: failed: out of memory"
    assert len(compared.unmatched) == 3


def test_batches_are_matched_by_context_and_batch() -> None:
    def step(batch: int, rate: float) -> Row:
        return a_row(kind=BATCH, prompt_tokens=8, context_tokens=12, batch=batch, total_tokens_per_s=rate)

    batches = [Run(name, BATCH, "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box") for name in ("one", "two")]
    compared = compare(batches[0], [step(1, 10.0), step(4, 30.0)], batches[1], [step(4, 45.0)])
    assert [(point.batch, point.ttft_ms) for point in compared.points] == [(4, None)]
    assert compared.unmatched[0].startswith("one, context 8, batch 1")


def test_runs_of_two_kinds_and_runs_without_rows_are_refused() -> None:
    batch = Run("two", BATCH, "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")
    with pytest.raises(StoreError, match="Compare two runs of one kind"):
        compare(ONE, [measured(16, 20.0, 40.0)], batch, [measured(16, 20.0, 40.0)])
    with pytest.raises(StoreError, match="two has no rows"):
        compare(ONE, [measured(16, 20.0, 40.0)], TWO, [])
