"""The rungs of rates: the vendor's, the minute's and a second memory's."""

import pytest

from tests.runs.row_ladder.planted import CONTEXTS, FIXED_S, B, K, W, a_step, adds_up, seconds
from workbench.ceilings.split import slow_share
from workbench.quantity import Origin, Quantity, Unit, explain
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, SPLIT_MEMORY
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.points import Asked
from workbench.runs.row_ladder.rates import VendorRates
from workbench.runs.row_ladder.terms import FIXED


def test_the_vendor_s_rung_the_minute_s_load_and_a_second_memory_have_rungs_of_their_own() -> None:
    rows = [a_step(t, extra_s=(W + K * t) / 12e9 - (W + K * t) / B, read_gb_per_s=12.0) for t in CONTEXTS]
    rows = [*rows, a_step(16, calibrated_gb_per_s=B / 1e9)]
    vendor = VendorRates(Quantity("printed", 48e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B"), None)
    ladder = row_ladder(rows, Asked(tokens=4096), vendor)
    moved = W + K * 4096
    found = seconds(ladder)
    assert ladder.ceiling.value == pytest.approx(moved / 48e9)
    assert found[BELOW_VENDOR] == pytest.approx(moved / B - moved / 48e9)
    assert found[BELOW_QUIET] == pytest.approx(moved / 12e9 - moved / B)
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
