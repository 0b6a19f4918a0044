"""What a run on screen comes to, from its rows alone."""

from tests.fakes import a_row
from workbench.experiments.settings import SweepSettings
from workbench.ui.live_run import LiveRun


def test_the_best_rates_are_not_of_rows_that_failed() -> None:
    about = {"bytes_per_step": 10**9, "tpot_ms": 100.0, "prefill_gflop_per_s": 50.0}
    live = LiveRun(SweepSettings())
    live.rows += [
        a_row(**about),
        a_row(**about | {"tpot_ms": 1.0, "prefill_gflop_per_s": 900.0}, status="failed: gone"),
    ]
    assert live.best_read_gb_per_s == 10.0
    assert live.best_gflop_per_s == 50.0
