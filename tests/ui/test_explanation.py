"""What enter on a cell says."""

from tests.fakes import a_row
from workbench.ui.widgets.explanation import cell_explanation


def test_what_a_figure_is_is_said_once() -> None:
    row = a_row(predicted_ttft_ms=152.0, predicted_ttft_low_ms=140.0, predicted_from="operations timed")
    text = cell_explanation(row, "predicted_ttft_ms").text
    assert text.startswith("the TTFT predicted before measuring = 152 ms")
    assert text.lower().count("predicted before measuring") == 1
    assert text.count("80 % of the measurements of TTFT = 140 ms") == 1


def test_a_prompt_is_explained_without_what_holds_for_others() -> None:
    assert cell_explanation(a_row(prompt_tokens=1), "prompt_tokens").text.startswith("n tokens of the prompt = 1 token")


def test_a_cell_without_a_figure_says_what_would_stand_there() -> None:
    text = cell_explanation(a_row(ttft_ms=None), "ttft_ms").text
    assert text.startswith("Time to first token: prefill of the whole prompt")
    assert "not measured" in text
