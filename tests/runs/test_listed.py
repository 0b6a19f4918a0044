"""The list of runs: what its lines hold, and what a filter leaves of it."""

from dataclasses import replace

from tests.fakes import a_row
from workbench.runs.listed import listed, matching
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store

SWEEP = Run(
    "a", "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box", {"prompts": [1, 16], "dtype": "bfloat16"}
)
BATCH = Run("b", "batch", "2026-01-02T00:00:00Z", "smollm2-135m", "a box", {"contexts": [2, 8], "batches": [1, 2, 4]})


def test_a_line_says_how_far_a_run_came_and_the_most_it_reached() -> None:
    with Store() as store:
        store.add_run(SWEEP)
        store.add_row(
            a_row(run_id="a", prompt_tokens=1, total_tokens_per_s=40.0, dtype="bfloat16", device="cuda:0"), Samples()
        )
        store.add_run(BATCH)
        store.end_run("b", RunStatus.INTERRUPTED, "stopped")
        batch, sweep = [listed(run) for run in store.runs()]
    assert (sweep.rows, sweep.points, sweep.dtype, sweep.device) == (1, 2, "bfloat16", "cuda:0")
    assert sweep.best_tokens_per_s is not None
    assert sweep.best_tokens_per_s.value == 40.0
    assert (batch.rows, batch.points, batch.best_tokens_per_s, batch.status) == (0, 6, None, "interrupted")


def test_before_its_first_row_a_run_is_listed_with_what_was_asked_of_transformers_and_of_no_other_engine() -> None:
    asked = {"prompts": [1], "dtype": "float32", "device": "auto"}
    lines = [
        listed(replace(SWEEP, settings={**asked, **engine}))
        for engine in ({}, {"engine": "transformers"}, {"engine": "llama.cpp"}, {"engine": "endpoint"})
    ]
    assert [(line.dtype, line.device) for line in lines] == [("float32", "auto")] * 2 + [(None, None)] * 2


def test_a_run_of_weights_held_as_stored_is_listed_with_how_they_are_stored() -> None:
    with Store() as store:
        store.add_run(SWEEP)
        store.add_row(a_row(run_id="a", dtype="f16 cache", quantisation="Q4_K_M", engine="llama.cpp"), Samples())
        assert listed(store.run("a")).dtype == "Q4_K_M"


def test_a_run_of_slices_is_listed_as_extrapolated() -> None:
    sliced = replace(SWEEP, run_id="c", settings={"prompts": [1], "layers": 4})
    assert [listed(run).figures for run in (SWEEP, sliced)] == ["measured", "extrapolated"]
    assert [line.run_id for line in matching([listed(SWEEP), listed(sliced)], "extrapolated")] == ["c"]


def test_a_filter_asks_for_every_word_in_any_place() -> None:
    lines = [listed(SWEEP), listed(BATCH)]
    assert [line.run_id for line in matching(lines, "QWEN3 prefill")] == ["a"]
    assert [line.run_id for line in matching(lines, "qwen3 batch")] == []
    assert [line.run_id for line in matching(lines, " ")] == ["a", "b"]


def test_a_row_that_failed_counts_neither_as_measured_nor_for_the_most_reached() -> None:
    with Store() as store:
        store.add_run(SWEEP)
        store.add_row(a_row(run_id="a", prompt_tokens=1, total_tokens_per_s=2.0), Samples())
        failed = a_row(run_id="a", prompt_tokens=16, total_tokens_per_s=3.22, status="failed: no answer")
        store.add_row(failed, Samples())
        line = listed(store.run("a"))
    assert (line.rows, line.points, line.failed) == (1, 2, 1)
    assert line.best_tokens_per_s is not None
    assert line.best_tokens_per_s.value == 2.0
    assert listed(SWEEP).failed is None
