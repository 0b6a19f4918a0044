"""What requests to a server add to a row."""

from tests.fakes import a_row
from workbench.engines.engine import RequestTiming, SeenByClient
from workbench.experiments.served import with_requests


def test_the_client_s_times_are_the_best_as_the_server_s_are_with_the_medians_beside() -> None:
    ttft_s, tpot_s = (0.2, 0.5, 0.9), (0.01, 0.77, 0.02)
    seen = [SeenByClient(ttft, tpot, 2.0, 17) for ttft, tpot in zip(ttft_s, tpot_s, strict=True)]
    row = with_requests(a_row(ttft_ms=200.0, tpot_ms=10.0), [RequestTiming(0.2, 0.16, 16, each) for each in seen])
    assert (row.client_ttft_ms, row.client_tpot_ms) == (row.ttft_ms, row.tpot_ms)
    assert (row.client_ttft_median_ms, row.client_tpot_median_ms) == (500.0, 20.0)
