"""What two metrics pages of a server say of the requests between them."""

import pytest

from tests.engines.endpoint.metrics_pages import SGLANG, TGI, VLLM, page
from workbench.engines.endpoint.metrics_page import read_metrics_page, times_between

BEHIND_RAY = VLLM.replace("vllm:", "ray_vllm_")
"""As Ray names them, whose Prometheus client takes no colons."""
WITHOUT_PHASES = "".join(line for line in VLLM.splitlines(keepends=True) if "request_prefill" not in line)
"""Earlier versions have no histogram of prefill."""


@pytest.mark.parametrize("form", [VLLM, SGLANG, TGI, BEHIND_RAY, SGLANG.replace(":", "_"), WITHOUT_PHASES])
def test_the_phases_of_one_request_are_told_apart(form: str) -> None:
    before, after = (read_metrics_page(page(form, requests)) for requests in (7, 8))
    found = times_between(before, after, 1)
    assert found is not None
    assert (found.queue_s, found.prefill_s, found.decode_s) == pytest.approx((0.5, 0.25, 2.0))


@pytest.mark.parametrize("form", [VLLM, SGLANG])
def test_several_requests_are_told_by_their_mean(form: str) -> None:
    before, after = (read_metrics_page(page(form, requests)) for requests in (0, 12))
    found = times_between(before, after, 12)
    assert found is not None
    assert (found.queue_s, found.prefill_s, found.decode_s) == pytest.approx((0.5, 0.25, 2.0))


def test_passes_of_a_batch_are_no_request_s_own() -> None:
    before, after = (read_metrics_page(page(TGI, requests)) for requests in (0, 4))
    found = times_between(before, after, 4)
    assert found is not None
    assert found.queue_s == pytest.approx(0.5)
    assert (found.prefill_s, found.decode_s) == (None, None)


def test_requests_of_others_in_between_make_the_page_say_nothing() -> None:
    before, after = (read_metrics_page(page(VLLM, requests)) for requests in (7, 9))
    assert times_between(before, after, 1) is None


def test_a_page_of_another_program_is_no_server_s() -> None:
    found = read_metrics_page(
        "# a comment\nprocess_cpu_seconds_total 12.5\nno sample here\nbroken{ 1\nnot_a_number x\n"
    )
    assert found.names() is None
    assert found.sums == {"process_cpu_seconds_total": 12.5}
