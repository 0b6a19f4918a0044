"""The line of labels without which no rate is shown."""

from tests.fakes import a_row
from workbench.runs.labels import labels


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
