"""The line through the points: planted costs are found in their own rungs, as surely as the points tell."""

from typing import Any

import pytest

from tests.runs.row_ladder.planted import (
    BATCHES,
    CONTEXTS,
    FIXED_S,
    PER_BYTE_S,
    PER_SEQUENCE_S,
    K,
    a_prefill,
    a_step,
    adds_up,
    grid,
    seconds,
)
from workbench.runs.ladder import PREFILL
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.points import Asked
from workbench.runs.row_ladder.terms import CONTEXT, FIXED, PROMPT, SEQUENCES, SQUARE


def test_costs_of_every_step_of_the_cache_and_of_each_sequence_are_found_apart() -> None:
    ladder = row_ladder(grid())
    assert (ladder.tokens, ladder.batch) == (4096, 8)
    found = seconds(ladder)
    assert found[FIXED] == pytest.approx(FIXED_S - PER_SEQUENCE_S, rel=1e-6)
    assert found[CONTEXT] == pytest.approx(PER_BYTE_S * K * 4096 * 8, rel=1e-6)
    assert found[SEQUENCES] == pytest.approx(PER_SEQUENCE_S * 8, rel=1e-6)
    assert found["remainder"] == pytest.approx(0.0, abs=1e-9)
    assert adds_up(ladder)
    assert all(rung.resolved for rung in ladder.rungs)


def test_one_batch_can_t_tell_sequences_and_one_context_can_t_tell_the_cache() -> None:
    contexts = row_ladder([a_step(t) for t in CONTEXTS])
    assert {FIXED, CONTEXT} <= seconds(contexts).keys()
    assert SEQUENCES not in seconds(contexts)
    assert any("what each sequence adds" in note for note in contexts.notes)
    batches = row_ladder([a_step(256, b) for b in BATCHES])
    # Sequences of one length bring their caches with them.
    assert seconds(batches)[SEQUENCES] == pytest.approx((PER_SEQUENCE_S + PER_BYTE_S * K * 256) * 8, rel=1e-6)
    assert any("whether the context costs more" in note for note in batches.notes)
    one = row_ladder([a_step(256)])
    assert list(seconds(one)) == ["remainder"]
    assert adds_up(one)


def test_a_point_off_the_line_widens_the_intervals_and_its_distance_is_the_remainder() -> None:
    rows = [a_step(t, extra_s=0.02 if t == 4096 else 0.0) for t in CONTEXTS]
    straight, bent = row_ladder([a_step(t) for t in CONTEXTS]), row_ladder(rows)
    assert adds_up(bent)
    assert abs(bent.remainder.time.value) > abs(straight.remainder.time.value) + 1e-5
    widths = [{rung.name: rung.high_s - rung.low_s for rung in each.rungs} for each in (straight, bent)]
    assert widths[1][CONTEXT] > widths[0][CONTEXT] + 1e-3


def test_two_points_lie_where_their_own_intervals_let_them_and_nowhere_without() -> None:
    about: dict[str, Any] = {"tpot_low_ms": 100.0, "tpot_high_ms": 104.0}
    told = row_ladder([a_step(16, **about), a_step(4096, **about)])
    fixed = told.rungs[0]
    assert fixed.name == FIXED
    assert fixed.high_s - fixed.low_s == pytest.approx(4e-3, rel=0.02)
    assert "too few to test the line" in fixed.evidence
    untold = row_ladder([a_step(16), a_step(4096)])
    assert not any(rung.resolved for rung in untold.rungs)
    assert "how sure" in untold.rungs[0].evidence


def test_a_prefill_s_fixed_cost_slope_and_square_are_found() -> None:
    ladder = row_ladder([a_prefill(n) for n in (64, 256, 1024, 2048, 4096)], Asked(PREFILL))
    found = seconds(ladder)
    assert (ladder.phase, ladder.tokens) == (PREFILL, 4096)
    assert found[FIXED] == pytest.approx(0.02, rel=1e-4)
    assert found[PROMPT] == pytest.approx(1e-4 * 4096, rel=1e-4)
    assert found[SQUARE] == pytest.approx(2e-8 * 4096**2, rel=1e-4)
    assert adds_up(ladder)


def test_points_that_repeat_one_another_decide_no_more_than_one_of_them() -> None:
    rows = [a_step(16, extra_s=extra_s) for extra_s in (0.0, 0.001, 0.002)]
    two_sizes = row_ladder([*rows, a_step(256, 2)])
    assert list(seconds(two_sizes)) == ["remainder"]
    assert adds_up(two_sizes)
