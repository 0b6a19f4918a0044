"""The ladder of rows: planted costs are found in their own rungs, everything adds up, and what is lacking is said."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes import a_row
from workbench.ceilings.split import slow_share
from workbench.errors import StoreError
from workbench.experiments.gap.verdict import with_verdict
from workbench.quantity import Origin, Quantity, Unit, explain
from workbench.runs.ladder import BELOW_VENDOR, OTHER_LOAD, PREFILL, SPLIT_MEMORY, Ladder
from workbench.runs.row import BATCH, Row
from workbench.runs.row_ladder import CONTEXT, FIXED, PROMPT, SEQUENCES, SQUARE, Asked, VendorRates, row_ladder

W, K, B, C = 2.4e9, 230_000, 24e9, 200e9
FIXED_S, PER_BYTE_S, PER_SEQUENCE_S = 0.012, 1.5 / B, 0.004
CONTEXTS, BATCHES = (16, 256, 1024, 4096), (1, 2, 4, 8)


def a_step(t: int, b: int = 1, extra_s: float = 0.0, **about: Any) -> Row:
    kt = K * t * b
    seconds = (W + kt) / B + FIXED_S + PER_BYTE_S * kt + PER_SEQUENCE_S * (b - 1) + extra_s
    beside: dict[str, Any] = {"read_gb_per_s": B / 1e9, "peak_gflop_per_s": C / 1e9, "kind": BATCH, "step_flop": 0}
    return a_row(
        prompt_tokens=t,
        context_tokens=t,
        batch=b,
        step_ms=seconds * 1e3,
        weight_bytes=int(W),
        cache_bytes=kt,
        bytes_per_step=int(W) + kt,
        **(beside | about),
    )


def a_prefill(n: int, c0: float = 0.02, c1: float = 1e-4, c2: float = 2e-8, **about: Any) -> Row:
    F = 1e9 * n + 1e5 * n * n
    seconds = max(W / B, F / C) + c0 + c1 * n + c2 * n * n
    return a_row(
        prompt_tokens=n,
        context_tokens=n,
        ttft_ms=seconds * 1e3,
        tpot_ms=100.0,
        weight_bytes=int(W),
        prefill_flop=int(F),
        peak_gflop_per_s=C / 1e9,
        **({"read_gb_per_s": B / 1e9} | about),
    )


def seconds(ladder: Ladder) -> dict[str, float]:
    return {rung.name: rung.time.value for rung in ladder.terms}


def adds_up(ladder: Ladder) -> bool:
    total = ladder.ceiling.value + sum(rung.time.value for rung in ladder.terms)
    return total == pytest.approx(ladder.measured.value, rel=1e-12)


def grid() -> Sequence[Row]:
    return [a_step(t, b) for t in CONTEXTS for b in BATCHES]


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


def test_the_vendor_s_rung_the_minute_s_load_and_a_second_memory_have_rungs_of_their_own() -> None:
    rows = [a_step(t, extra_s=(W + K * t) / 12e9 - (W + K * t) / B, read_gb_per_s=12.0) for t in CONTEXTS]
    rows = [*rows, a_step(16, calibrated_gb_per_s=B / 1e9)]
    vendor = VendorRates(Quantity("printed", 48e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B"), None)
    ladder = row_ladder(rows, Asked(tokens=4096), vendor)
    moved = W + K * 4096
    found = seconds(ladder)
    assert ladder.ceiling.value == pytest.approx(moved / 48e9)
    assert found[BELOW_VENDOR] == pytest.approx(moved / B - moved / 48e9)
    assert found[OTHER_LOAD] == pytest.approx(moved / 12e9 - moved / B)
    assert found[FIXED] == pytest.approx(FIXED_S, rel=1e-6)
    assert adds_up(ladder)
    split = [a_step(t, extra_s=0.25 * (W + K * t) * (1 / 4e9 - 1 / B)) for t in CONTEXTS]
    ladder = row_ladder(split, slow=slow_share(0.25, 4.0))
    found = seconds(ladder)
    assert found[SPLIT_MEMORY] == pytest.approx(0.25 * moved * (1 / 4e9 - 1 / B))
    assert found[FIXED] == pytest.approx(FIXED_S, rel=1e-6)
    (rung,) = [rung for rung in ladder.rungs if rung.name == SPLIT_MEMORY]
    lines = list(explain(rung.time))
    assert "[arithmetic]  W_slow / B_slow − W_slow / B_fast" in lines[0]
    assert any("4.00 GB/s" in line for line in lines)


def test_a_prefill_s_fixed_cost_slope_and_square_are_found() -> None:
    ladder = row_ladder([a_prefill(n) for n in (64, 256, 1024, 2048, 4096)], Asked(PREFILL))
    found = seconds(ladder)
    assert (ladder.phase, ladder.tokens) == (PREFILL, 4096)
    assert found[FIXED] == pytest.approx(0.02, rel=1e-4)
    assert found[PROMPT] == pytest.approx(1e-4 * 4096, rel=1e-4)
    assert found[SQUARE] == pytest.approx(2e-8 * 4096**2, rel=1e-4)
    assert adds_up(ladder)


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


def test_the_verdict_names_the_largest_rung() -> None:
    told = with_verdict(row_ladder([a_step(t) for t in CONTEXTS]))
    assert f"{CONTEXT} cost most" in told.verdict


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        ([], Asked(), "There are no rows"),
        ([a_row(tpot_ms=80.0)], Asked(), "what it must read"),
        ([a_step(16)], Asked(tokens=17), "They hold, tokens × sequences: 16 × 1"),
        ([a_step(16, read_gb_per_s=None)], Asked(), "--track NAME"),
    ],
)
def test_rows_without_a_ladder_say_what_is_lacking(rows: Sequence[Row], asked: Asked, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        row_ladder(rows, asked)
