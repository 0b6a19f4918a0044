"""The line of labels without which no rate is shown."""

from tests.fakes import a_row
from workbench.runs.labels import figures_words, labels, point_words
from workbench.runs.row import BATCH


def test_labels_name_all_six() -> None:
    line = labels([a_row(quantisation="Q4_1, dequantised")])
    for word in ("qwen3-0.6b", "Q4_1, dequantised", "float32", "batch 1", "transformers 5.24.0", "a box"):
        assert word in line


def test_labels_say_new_tokens_only_of_rows_that_decode() -> None:
    prefill = a_row(new_tokens=1, ttft_ms=10.0)
    steps = a_row(new_tokens=16, tpot_ms=10.0)
    assert "new token" not in labels([prefill])
    assert " · 16 new tokens · " in labels([prefill, steps])
    assert " · 1 new token · " in labels([a_row(new_tokens=1, tpot_ms=10.0)])


def test_a_batch_sweep_s_labels_count_its_steps() -> None:
    assert " · 16 steps · " in labels([a_row(kind=BATCH, new_tokens=17, tpot_ms=10.0)])


def test_the_figures_of_rows_without_samples_are_called_means() -> None:
    mean, best = a_row(ttft_ms=10.0), a_row(ttft_ms=10.0, ttft_median_ms=11.0)
    assert figures_words([best]) == "figures: the best of the repeats"
    assert figures_words([a_row(kind=BATCH, tpot_ms=1.0, tpot_median_ms=1.0)]) == "figures: the median step"
    assert figures_words([mean]).startswith("figures: means")
    assert figures_words([a_row(kind=BATCH, step_ms=1.0)]).startswith("figures: means")
    assert figures_words([best, mean]).startswith("figures: the best of the repeats; a mean where")
    assert figures_words([best, a_row(status="failed: gone")]) == "figures: the best of the repeats"


def test_steps_that_were_timed_alone_are_named_by_what_lay_in_the_cache() -> None:
    assert point_words(a_row(prompt_tokens=512, depth_tokens=512, tpot_ms=1.0)) == "steps alone after 512 tokens"
    assert point_words(a_row(prompt_tokens=16, depth_tokens=512, ttft_ms=1.0)) == "prompt 16 after 512 tokens"
    assert point_words(a_row(prompt_tokens=16, depth_tokens=0, ttft_ms=1.0)) == "prompt 16"
