"""What more threads do, where rows have the same point on fewer."""

from typing import Any

import pytest

from tests.runs.row_ladder.planted import (
    CONTEXTS,
    FIXED_S,
    a_step,
    grid,
)
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.terms import FIXED


def test_threads_are_compared_where_the_same_point_is_there_on_fewer() -> None:
    rows = [a_step(t, threads=2) for t in CONTEXTS] + [a_step(t, extra_s=0.1, threads=1) for t in CONTEXTS]
    ladder = row_ladder(rows)
    fixed = next(rung for rung in ladder.rungs if rung.name == FIXED)
    assert fixed.time.value == pytest.approx(FIXED_S, rel=1e-6)
    assert "from 1 to 2 threads" in fixed.evidence
    assert not any("thread count" in note for note in ladder.notes)
    assert any("thread count" in note for note in row_ladder(grid()).notes)


def test_a_gain_of_threads_that_the_intervals_leave_open_is_not_said_to_be_one() -> None:
    wide: dict[str, Any] = {"tpot_low_ms": 50.0, "tpot_high_ms": 1_000.0}
    rows = [a_step(t, threads=2, **wide) for t in CONTEXTS] + [a_step(t, extra_s=0.1, threads=1) for t in CONTEXTS]
    fixed = next(rung for rung in row_ladder(rows).rungs if rung.name == FIXED)
    assert "can't tell whether more threads help" in fixed.evidence
