"""Sweeps against a server that answers well, badly or not at all: rows with their labels, or with their reason."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engines.endpoint.metrics_pages import VLLM, page
from tests.engines.endpoint.playing_server import (
    Answers,
    Body,
    chunk,
    event,
    good,
    head,
    playing,
    streamed,
    token,
    usage,
    whole,
)
from workbench.engines.endpoint.key import Key
from workbench.engines.engine import load_engine
from workbench.errors import SettingsError
from workbench.experiments.batch import batch_sweep
from workbench.experiments.engine_settings import EndpointSettings
from workbench.experiments.events import Event, Finished, PointFailed, Predicted, RowMeasured
from workbench.experiments.gap.variant import Stored, Variant
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, SweepSettings, check_settings
from workbench.experiments.window import TimedWindow
from workbench.quantity import Origin, Unit
from workbench.runner import CancelToken
from workbench.runs.row import Row
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

QUIET_S = 0.2
"""Until a server that says nothing has failed."""


def settings(url: str, model: str = "", **about: Any) -> SweepSettings:
    endpoint = EndpointSettings(url=url, timeout_s=QUIET_S, **about)
    return SweepSettings(model=model, engine="endpoint", endpoint=endpoint, prompts=(8, 16), new_tokens=5, repeats=2)


def several(url: str, model: str = "", **about: Any) -> BatchSettings:
    endpoint = EndpointSettings(url=url, timeout_s=QUIET_S, **about)
    return BatchSettings(
        model=model, engine="endpoint", endpoint=endpoint, contexts=(8,), batches=(1, 4), steps=4, repeats=1
    )


def events(asked: SweepSettings | BatchSettings, cancel: CancelToken | None = None) -> list[Event]:
    match asked:
        case SweepSettings():
            experiment = sweep(asked, load_engine, TimedWindow())
        case BatchSettings():
            experiment = batch_sweep(asked, load_engine, TimedWindow())
    return list(experiment(cancel or CancelToken()))


def rows(seen: list[Event]) -> list[Row]:
    return [event.row for event in seen if isinstance(event, RowMeasured | PointFailed)]


def test_rows_have_their_labels_and_no_figure_that_nobody_knows() -> None:
    with playing() as server:
        found = rows(events(settings(server.url)))
    assert [row.status for row in found] == ["ok", "ok"]
    row = found[0]
    assert (row.model, row.engine, row.engine_version) == ("a-model", "vLLM", "version not told")
    assert (row.quantisation, row.dtype, row.device, row.threads) == ("not told", "not told", "not told", 0)
    assert row.machine == f"behind {server.url}"
    assert (row.bytes_per_step, row.ceiling_tokens_per_s, row.prefill_flop, row.read_gb_per_s) == (None,) * 4
    assert (row.bound_by, row.peak_gflop_per_s, row.calibrated_gb_per_s, row.resident_bytes) == (None,) * 4
    assert row.ceiling_basis is not None
    assert "not known" in row.ceiling_basis
    assert (row.timed_by, row.cached_tokens, row.other_load) == ("the client's clock", 0, None)
    assert "only wall time is known" in row.flags


def test_prompts_are_of_exact_length_by_ids_each_new_and_the_end_is_ignored() -> None:
    with playing() as server:
        events(settings(server.url))
    asked = [body for body in server.bodies if body["max_tokens"] == 5 and len(body["prompt"]) in (8, 16)]
    assert all(body["ignore_eos"] and body["stream_options"] == {"include_usage": True} for body in asked)
    prompts = [tuple(body["prompt"]) for body in asked]
    assert len(set(prompts)) == len(prompts)
    assert {len(prompt) for prompt in prompts} == {8, 16}


def test_the_model_behind_it_and_its_hardware_give_a_ceiling_over_several_devices() -> None:
    with playing() as server:
        one = rows(events(settings(server.url, "smollm2-135m", hardware="h100-sxm")))[0]
        seen = events(settings(server.url, "smollm2-135m", hardware="h100-sxm", devices=2))
    two = rows(seen)[0]
    count, each = next(event for event in seen if isinstance(event, Predicted)).read_rate.inputs
    assert (count.value, count.unit) == (2, Unit.COUNT)
    assert each.value == pytest.approx(1e9 * (one.vendor_gb_per_s or 0))
    assert one.model == "smollm2-135m"
    assert one.vendor_gb_per_s is not None
    assert two.vendor_gb_per_s == pytest.approx(2 * one.vendor_gb_per_s)
    assert two.ceiling_tokens_per_s == pytest.approx(2 * (one.ceiling_tokens_per_s or 0))
    assert one.ceiling_basis is not None
    assert one.ceiling_basis.startswith("vendor")
    assert (one.weight_bytes or 0) > 0
    assert two.machine.startswith("2 × ")


def test_words_are_calibrated_where_a_server_takes_no_ids_and_chat_is_used_where_it_has_nothing_else() -> None:
    def chat_only(body: Body, number: int) -> Iterator[bytes]:
        if "messages" not in body:
            yield whole({"error": {"message": "no such route"}}, "404 Not Found")
            return
        words = len(body["messages"][0]["content"].split())
        n = body["max_tokens"]
        if not body["stream"]:
            yield whole({"choices": [], "usage": {"prompt_tokens": words + 7, "completion_tokens": n}})
            return
        said = [{"choices": [{"index": 0, "delta": {"content": "a"}}]}] * n
        yield from streamed([*said, usage(n, words + 7)])

    other = {"data": [{"id": "m", "owned_by": "somebody"}]}
    with playing(chat_only, other) as server:
        found = rows(events(settings(server.url)))
    assert [row.status for row in found] == ["ok", "ok"]
    asked = [body for body in server.bodies if body["stream"] and "messages" in body]
    assert {len(body["messages"][0]["content"].split()) for body in asked[1:]} == {1, 9}
    assert "15 prompt tokens" not in found[1].flags
    assert "8 prompt tokens where" not in found[0].flags
    assert "ignore_eos" not in asked[0]
    assert "doesn't say whether it caches" in found[0].flags


def test_a_cached_prompt_and_an_answer_cut_short_are_flagged() -> None:
    def cached(body: Body, number: int) -> Iterator[bytes]:
        return streamed([*[token()] * 3, usage(3, len(body["prompt"]), 6)])

    with playing(cached) as server:
        row = rows(events(settings(server.url)))[0]
    assert row.cached_tokens == 6
    assert "6 prompt tokens came from a cache" in row.flags
    assert "answers of 3 tokens where 5 were asked" in row.flags


def chunked(body: Body, number: int, **each: Any) -> Iterator[bytes]:
    """Twelve tokens in three chunks, counted at the end."""
    if not body["stream"] or body["max_tokens"] != 12:
        return good(body)
    return streamed([*[token("a b c d", **each)] * 3, usage(12, len(body["prompt"]), 0)])


def test_several_tokens_a_chunk_are_told_with_the_range_that_tpot_is_in() -> None:
    with playing(chunked) as server:
        row = rows(events(replace(settings(server.url), new_tokens=12, repeats=1)))[0]
    assert (row.status, row.client_tpot_ms) == ("ok", row.tpot_ms)
    told = row.flags.partition("12 tokens came in 3 chunks, and nothing tells how many the first ones held: TPOT by ")[
        2
    ]
    low, _, high = told.partition("between ")[2].partition(" ms")[0].partition(" and ")
    # One to ten tokens can have come first, where four are taken: the time is that of 11 to 2 steps, given for 8.
    assert row.tpot_ms is not None
    assert float(low) == pytest.approx(row.tpot_ms * 8 / 11, rel=1e-3)
    assert float(high) == pytest.approx(row.tpot_ms * 8 / 2, rel=1e-3)


def test_where_ids_count_the_first_chunk_tpot_is_over_the_tokens_after_it() -> None:
    def counted(body: Body, number: int) -> Iterator[bytes]:
        return chunked(body, number, token_ids=[1, 2, 3, 4])

    with playing(counted) as server:
        row = rows(events(replace(settings(server.url), new_tokens=12)))[0]
    assert "24 tokens came in 6 chunks: TPOT by the client's clock is over the tokens after those" in row.flags
    assert "nothing tells" not in row.flags


def test_phases_are_the_server_s_own_where_its_page_tells_them() -> None:
    count = 0

    def pages() -> dict[str, bytes]:
        return {"/metrics": page(VLLM, count).encode()}

    class Counted(dict[str, bytes]):
        def __contains__(self, path: object) -> bool:
            return path == "/metrics"

        def __getitem__(self, path: str) -> bytes:
            return pages()[path]

    def counted(body: Body, number: int) -> Iterator[bytes]:
        nonlocal count
        count += 1
        return good(body)

    with playing(counted, pages=Counted({"/metrics": b""})) as server:
        row = rows(events(settings(server.url)))[0]
    assert row.timed_by == "the server's clock"
    assert (row.queue_ms, row.ttft_ms, row.tpot_ms) == pytest.approx((500.0, 250.0, 2000.0 / 4))
    assert row.client_ttft_ms != row.ttft_ms


def silent(body: Body, number: int) -> Iterator[Any]:
    yield head()
    yield None


def breaks_off(body: Body, number: int) -> Iterator[bytes]:
    yield head("text/event-stream", "200 OK", "Transfer-Encoding: chunked")
    yield chunk(event(token()))
    yield b"ff\r\ndata: {"


FAULTS: dict[str, tuple[Answers, str]] = {
    "says nothing": (silent, "timed out"),
    "breaks off": (breaks_off, "broke off"),
    "ends early": (lambda *_: [head() + event(token())], "broke off"),
    "closes at once": (lambda *_: [], "closed the connection"),
    "is no web server": (lambda *_: [b"220 mail ready\r\n"], "not HTTP"),
    "refuses the key": (lambda *_: [whole({"error": "no"}, "401 Unauthorized")], "HTTP 401"),
    "knows no model": (lambda *_: [whole({"error": {"message": "unknown"}}, "400 Bad Request")], "HTTP 400"),
    "is overloaded": (lambda *_: [whole(b"busy", "503 Service Unavailable")], "HTTP 503"),
    "falls over": (lambda *_: [whole({"detail": "traceback"}, "500 Internal Server Error")], "HTTP 500: 'traceback'"),
    "sends elsewhere": (
        lambda *_: [head("text/plain", "302 Found", "Location: http://elsewhere.invalid/", "Content-Length: 0")],
        "only the named endpoint",
    ),
    "writes garbage": (lambda *_: streamed([token(), b"{garbage"]), "no JSON"),
    "answers whole": (lambda *_: [whole({"choices": []})], "no stream of events"),
    "counts nothing": (lambda *_: streamed([token(), token()]), "how many tokens"),
    "says nothing usable": (lambda *_: streamed([token(""), usage(0, 8)]), "no usable token"),
    "gives one token": (lambda *_: streamed([token(), usage(1, 8)]), "no step to time"),
    "ends with an error": (lambda *_: streamed([token(), {"error": {"message": "out of memory"}}]), "out of memory"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_row_with_its_reason_and_the_sweep_goes_on(fault: str) -> None:
    answers, words = FAULTS[fault]

    def faulty(body: Body, number: int) -> Any:
        return answers(body, number) if len(body["prompt"]) == 8 and body["max_tokens"] == 5 else good(body)

    with playing(faulty) as server:
        seen = events(settings(server.url))
    first, second = rows(seen)
    assert first.status.startswith("failed: ")
    assert words in first.status
    assert (first.ttft_ms, first.tpot_ms, first.total_tokens_per_s) == (None, None, None)
    assert second.status == "ok"
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert finished.status is RunStatus.FINISHED


def test_nothing_is_predicted_of_what_nobody_knows() -> None:
    with playing() as server:
        known = events(settings(server.url, "smollm2-135m", hardware="h100-sxm"))
        for asked in (settings(server.url), settings(server.url, "smollm2-135m"), settings(server.url, hardware="l4")):
            assert not any(isinstance(event, Predicted) for event in events(asked))
    predicted = next(event for event in known if isinstance(event, Predicted))
    assert predicted.read_rate.origin is Origin.VENDOR


def test_a_server_that_goes_away_fails_the_points_that_are_left() -> None:
    with playing() as server:
        seen = iter(sweep(settings(server.url), load_engine, TimedWindow())(CancelToken()))
        first = next(event for event in seen if isinstance(event, RowMeasured))
    assert first.row.status == "ok"
    rest = rows(list(seen))
    assert ["refused the connection" in row.status for row in rest] == [True]


def test_nothing_at_the_address_is_said_at_once() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(SettingsError, match="refused the connection"):
        events(settings(url))


def test_another_model_than_it_serves_is_refused_with_the_nearest() -> None:
    with playing() as server, pytest.raises(SettingsError, match="Did you mean a-model"):
        events(settings(server.url, served_model="a-modle"))


def test_the_rate_of_all_streams_leaves_out_what_each_began_with() -> None:
    def counted(body: Body, number: int) -> Iterator[bytes]:
        return chunked(body, number, token_ids=[1, 2, 3, 4])

    with playing(counted) as server:
        row = rows(events(replace(several(server.url), batches=(1,), steps=11)))[0]
    assert row.total_tokens_per_s == pytest.approx(1e3 / (row.client_tpot_median_ms or 0))


def test_sglang_is_asked_to_count_with_every_chunk_and_takes_ids() -> None:
    with playing(models={"data": [{"id": "m", "owned_by": "sglang"}]}) as server:
        row = rows(events(settings(server.url)))[0]
    assert (row.status, row.engine) == ("ok", "SGLang")
    streamed_bodies = [body for body in server.bodies if body["stream"]]
    assert all(body["stream_options"]["continuous_usage_stats"] for body in streamed_bodies)
    assert all(isinstance(body["prompt"], list) for body in streamed_bodies)


def test_streams_at_once_have_rates_of_each_and_of_all() -> None:
    arrived = threading.Barrier(4)

    def together(body: Body, number: int) -> Iterator[bytes]:
        if body["max_tokens"] == 5 and number > 1:
            # No stream begins before all four are there: they can only have been sent at once.
            arrived.wait(10)
        return good(body)

    with playing(together) as server:
        row = rows(events(replace(several(server.url), batches=(4,))))[0]
    assert row.status == "ok"
    assert (row.batch, row.repeats) == (4, 4)
    assert (row.total_tokens_per_s or 0) > 0
    assert (row.output_tokens_per_s or 0) > 0
    assert 0 < (row.mean_streams or 0) <= 4
    assert row.prefill_ms is not None


def test_one_stream_that_fails_fails_its_point_with_how_many_did() -> None:
    def some(body: Body, number: int) -> Any:
        many = number >= 3
        return [whole(b"busy", "503 Service Unavailable")] if many and number % 2 else good(body)

    with playing(some) as server:
        found = rows(events(several(server.url)))
    assert found[0].status == "ok"
    assert "2 of 4 streams failed: HTTP 503" in found[1].status


def test_arrivals_at_a_rate_count_what_kept_within_the_limits_and_have_no_ceiling() -> None:
    with playing() as server:
        asked = several(server.url, "smollm2-135m", hardware="h100-sxm", rate=200.0, ttft_limit_ms=60_000.0)
        seen = events(asked)
        within = rows(seen)[1]
        beyond = rows(events(replace(asked, endpoint=replace(asked.endpoint, ttft_limit_ms=1e-6))))[1]
    assert (within.goodput_share, beyond.goodput_share, beyond.goodput_per_s) == (1.0, 0.0, 0.0)
    assert within.arrivals_per_s == 200.0
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert "100 % of the requests of batch 4 after 8 tokens" in finished.figures[-1].name
    assert (within.goodput_per_s or 0) > 0
    assert (within.bytes_per_step, within.ceiling_tokens_per_s) == (None, None)


def test_more_streams_than_slots_are_told() -> None:
    models = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_vocab": 4096}}]}
    props = json.dumps({"total_slots": 2, "build_info": "b1234-abc"}).encode()
    with playing(models=models, pages={"/props": props}) as server:
        found = rows(events(several(server.url)))
    assert (found[0].engine, found[0].engine_version) == ("llama.cpp server", "b1234-abc")
    assert "runs 2 requests at once" not in found[0].flags
    assert "runs 2 requests at once: of 4" in found[1].flags
    assert max(max(body["prompt"]) for body in server.bodies) < 4096


def test_requests_of_others_on_the_server_are_told() -> None:
    models = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_vocab": 4096}}]}
    for busy in (False, True):
        slots = json.dumps([{"id": 0, "is_processing": False}, {"id": 1, "is_processing": busy}]).encode()
        with playing(models=models, pages={"/slots": slots}) as server:
            row = rows(events(settings(server.url)))[0]
        assert ("requests of others" in row.flags) is busy


def test_a_run_is_stopped_while_a_server_says_nothing() -> None:
    cancel = CancelToken()

    def stopping(body: Body, number: int) -> Iterator[Any]:
        if number < 1:
            return good(body)
        cancel.cancel()
        return silent(body, number)

    with playing(stopping) as server:
        seen = events(replace(settings(server.url), endpoint=EndpointSettings(url=server.url, timeout_s=600.0)), cancel)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert finished.status is RunStatus.INTERRUPTED


def test_the_key_is_sent_and_is_in_no_row_store_log_or_message(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from workbench.cli import main

    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("WORKBENCH_API_KEY", secret)

    def echoing(body: Body, number: int) -> Any:
        if len(body["prompt"]) == 8:
            return [whole({"error": {"message": f"key {secret} is over its limit"}}, "429 Too Many Requests")]
        return good(body)

    with playing(echoing) as server:
        code = main(["sweep", "--endpoint", server.url, "--prompts", "8,16", "--repeats", "1", "--format", "csv"])
    said = capfd.readouterr()
    assert code == 0
    assert all(f"Authorization: Bearer {secret}" in each for each in server.heads)
    assert "over its limit" in said.out
    assert main(["runs", "export", "last"]) == 0
    exported = capfd.readouterr()
    texts = [said.out, said.err, exported.out, exported.err]
    kept = [path.read_bytes() for path in [*data_folder.rglob("*"), *tmp_path.rglob("*")] if path.is_file()]
    assert kept
    assert not any(secret in text for text in texts)
    assert not any(secret.encode() in text for text in kept)
    with Store() as store:
        assert secret not in repr(store.run("last"))


def test_a_key_that_was_typed_is_sent_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_API_KEY", "of-the-environment")
    with playing() as server:
        load = partial(load_engine, key=Key("typed-in"))
        list(sweep(settings(server.url), load, TimedWindow())(CancelToken()))
    assert all("Bearer typed-in" in each for each in server.heads)


def test_no_address_but_the_endpoint_s_is_reached(tmp_path: Path) -> None:
    def elsewhere(body: Body, number: int) -> Any:
        if len(body["prompt"]) == 8:
            return [head("text/plain", "307 Temporary Redirect", "Location: http://192.0.2.1/", "Content-Length: 0")]
        return good(body)

    with playing(elsewhere, is_elsewhere=True) as server:
        port = int(server.url.rpartition(":")[2])
        code = (
            "import sys\n"
            "def watch(event, arguments):\n"
            "    if event in ('socket.connect', 'socket.bind', 'socket.sendto', 'socket.getaddrinfo'):\n"
            "        sys.stderr.write(f'{event}\\n')\n"
            "        where = arguments[0:2] if event == 'socket.getaddrinfo' else arguments[1]\n"
            f"        if tuple(where)[:2] != ('127.0.0.1', {port}): raise SystemExit(f'reached {{where}}')\n"
            "sys.addaudithook(watch)\n"
            "from workbench.cli import main\n"
            f"raise SystemExit(main(['sweep', '--endpoint', '{server.url}', '--prompts', '8,16', '--repeats', '1']))\n"
        )
        environment = {**os.environ, "HTTP_PROXY": "http://192.0.2.2:3128", "http_proxy": "http://192.0.2.2:3128"}
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
        )
    assert ended.returncode == 0, ended.stderr
    assert "socket.connect" in ended.stderr
    assert "only the named endpoint is asked" in ended.stdout


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"layers": 4}, "Slices"),
        ({"variant": Variant(stored=Stored.INT8)}, "run by transformers only"),
        ({"endpoint": EndpointSettings(url="http://h", devices=0)}, "at least 1"),
        ({"endpoint": EndpointSettings(url="http://h", devices=2)}, "--hardware"),
        ({"endpoint": EndpointSettings(url="http://h", api="chatt")}, "Did you mean chat"),
        ({"endpoint": EndpointSettings(url="http://h", timeout_s=0.0)}, "time-out"),
        ({"endpoint": EndpointSettings(url="http://h", cache_type="q9")}, "cache type"),
        ({"engine": "vllm"}, "no engine named"),
    ],
)
def test_settings_that_can_t_be_are_refused_before_anything_is_asked(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_settings(replace(settings("http://127.0.0.1:1"), **changed))
