"""The ladder of rows: its verdict, and what is lacking where there is none."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.fakes import a_row
from tests.runs.row_ladder.planted import (
    CONTEXTS,
    a_step,
)
from workbench.errors import StoreError
from workbench.experiments.gap.verdict import with_verdict
from workbench.runs.row import Row
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.points import Asked
from workbench.runs.row_ladder.terms import CONTEXT


def test_the_verdict_names_the_largest_rung() -> None:
    told = with_verdict(row_ladder([a_step(t) for t in CONTEXTS]))
    assert f"{CONTEXT} cost most" in told.verdict


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        ([], Asked(), "There are no rows"),
        ([a_row(tpot_ms=80.0)], Asked(), "what it must read"),
        ([a_step(16)], Asked(tokens=17), r"prompt \(context at the middle step\) × sequences: 16 \(16\) × 1"),
        ([a_step(16, read_gb_per_s=None)], Asked(), "--track NAME"),
    ],
)
def test_rows_without_a_ladder_say_what_is_lacking(rows: Sequence[Row], asked: Asked, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        row_ladder(rows, asked)


def test_a_point_is_named_by_its_prompt_or_by_the_context_that_csv_and_compare_call_it() -> None:
    rows = [replace(a_step(t), context_tokens=t + 8) for t in CONTEXTS]
    assert row_ladder(rows, Asked(tokens=1032)) == row_ladder(rows, Asked(tokens=1024))
    assert row_ladder([*rows, a_step(264)], Asked(tokens=264)).tokens == 264
    with pytest.raises(StoreError, match=r"prompt \(context at the middle step\) × sequences: 16 \(24\) × 1"):
        row_ladder(rows, Asked(tokens=9))
