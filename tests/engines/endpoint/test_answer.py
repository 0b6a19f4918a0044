"""Tokens and moments of a streamed answer whose every chunk has a known time."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.engines.endpoint.playing_server import event, token, usage
from workbench.engines.endpoint.answer import AnswerError, ServerTimes, streamed_answer
from workbench.engines.endpoint.connection import Reply

STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def reply(events: Sequence[object], sent_s: float = 100.0, **about: Any) -> Reply:
    """Each event a second after the one before it; the end comes with the last."""
    pieces = [(sent_s + 1 + i, event(each)) for i, each in enumerate([*events, b"[DONE]"])]
    return Reply(**{"sent_s": sent_s, "status": 200, "headers": STREAM, "pieces": pieces, **about})


def test_the_first_usable_token_ends_ttft_and_a_chunk_is_no_token() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}
    empty = {"choices": [{"index": 0, "delta": {"content": ""}}]}
    said = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Hi", " all of you", "!")]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    found = streamed_answer(reply([role, empty, *said, last, usage(7, 20, 4)]))
    assert found.ttft_s == 3.0
    assert found.last_s - found.first_s == 2.0
    assert (found.tokens, found.prompt_tokens, found.cached_tokens) == (7, 20, 4)
    # Of seven tokens in three chunks the first holds one to five.
    assert (found.first_least, found.first_most, found.first_tokens, found.steps) == (1, 5, 2, 5)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "content"])
def test_a_token_of_reasoning_is_usable(name: str) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {name: "so"}}]}] * 2
    assert streamed_answer(reply([*chunks, {**token(""), **usage(2, 1)}])).ttft_s == 1.0


def test_tokens_are_counted_by_their_ids_where_usage_is_missing() -> None:
    found = streamed_answer(reply([token("", token_ids=[1, 2]), token("ab", token_ids=[3]), token("", token_ids=[4])]))
    assert (found.tokens, found.first_tokens, found.steps) == (4, 2, 2)


def test_text_held_back_until_its_bytes_are_whole_is_of_several_tokens() -> None:
    timed = {"cache_n": 3, "prompt_n": 13, "prompt_ms": 40.0, "predicted_n": 2, "predicted_ms": 10.0}
    later = {**timed, "predicted_n": 4, "predicted_ms": 30.0}
    found = streamed_answer(reply([{**token(), "timings": timed}, {**token(), "timings": later}, usage(4, 16)]))
    assert (found.first_tokens, found.steps, found.cached_tokens) == (2, 2, 3)
    assert found.server == ServerTimes(None, 0.040, 0.030)


@pytest.mark.parametrize(
    ("chunks", "tokens", "between", "steps"),
    [
        (20, 20, (1, 1), 19),
        (5, 20, (1, 16), 16),
        (19, 20, (1, 2), 19),
        (2, 20, (1, 19), 10),
        (30, 20, (1, 1), 19),
    ],
)
def test_where_nothing_counts_the_first_chunk_it_is_taken_for_an_even_share(
    chunks: int, tokens: int, between: tuple[int, int], steps: int
) -> None:
    found = streamed_answer(reply([*[token()] * chunks, usage(tokens, 8)]))
    assert (found.first_least, found.first_most, found.steps) == (*between, steps)


@pytest.mark.parametrize(
    ("tokens", "between", "steps"), [(20, (4, 4), 16), (40, (4, 24), 32), (21, (4, 5), 17), (18, (2, 4), 14)]
)
def test_chunks_that_come_at_one_moment_are_one(tokens: int, between: tuple[int, int], steps: int) -> None:
    pieces = [(101.0 + i, event(token()) * 4) for i in range(5)] + [(106.0, event(usage(tokens, 8)) + event(b"[DONE]"))]
    found = streamed_answer(Reply(100.0, 0.0, 200, STREAM, pieces))
    assert (found.first_least, found.first_most, found.steps) == (*between, steps)


def test_usage_told_with_every_chunk_counts_the_tokens_of_the_first() -> None:
    found = streamed_answer(reply([{**token("abc"), **_used(3)}, {**token("de"), **_used(5)}]))
    assert (found.tokens, found.first_tokens, found.steps) == (5, 3, 2)


def _used(tokens: int) -> dict[str, Any]:
    return {"usage": {"completion_tokens": tokens, "prompt_tokens": 8}}


def test_a_packed_answer_is_refused_by_its_encoding() -> None:
    packed = Reply(status=200, headers={**STREAM, "content-encoding": "gzip"}, pieces=[(1.0, b"\x1f\x8b\x08")])
    with pytest.raises(AnswerError, match="came in 'gzip'"):
        streamed_answer(packed)


def test_a_server_s_own_metrics_tell_its_queue() -> None:
    metrics = {"time_to_first_token_ms": 85.0, "generation_time_ms": 1240.0, "queue_time_ms": 12.0}
    found = streamed_answer(reply([token(), token(), {**usage(2, 1), "metrics": metrics}]))
    assert found.server == ServerTimes(0.012, 0.085, 1.240)


def test_an_event_in_pieces_came_when_its_line_was_whole() -> None:
    text = event(token()) + event(token()) + event(usage(2, 1)) + event(b"[DONE]")
    cuts = [0, 5, len(event(token())) - 1, len(event(token())) + 4, len(text)]
    pieces = [(float(i), text[a:b]) for i, (a, b) in enumerate(pairwise(cuts), 1)]
    found = streamed_answer(Reply(0.0, 0.0, 200, STREAM, pieces))
    assert (found.first_s, found.last_s) == (2.0, 4.0)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([token(), b"{not json"], "is no JSON"),
        ([token(), b"[1, 2]"], "is no object"),
        ([token(), {"error": {"message": "CUDA is out of memory"}}], "CUDA is out of memory"),
        ([token(""), usage(0, 3)], "no usable token"),
        ([token(), token()], "doesn't say how many tokens"),
    ],
)
def test_what_gives_no_figure_is_refused_with_its_reason(events: Sequence[object], words: str) -> None:
    with pytest.raises(AnswerError, match=words):
        streamed_answer(reply(events))


def test_a_stream_without_its_end_broke_off() -> None:
    short = reply([token(), token(), usage(2, 1)])
    short.pieces.pop()
    with pytest.raises(AnswerError, match="broke off after 2 chunks"):
        streamed_answer(short)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error": {"message": "Incorrect key sk-echoed"}}', "refuses the key"),
        (404, b'{"error": {"message": "no such model"}}', "HTTP 404: 'no such model'"),
        (429, b'{"message": "slow down"}', "HTTP 429: 'slow down'"),
        (500, b"<html>oh</html>", "HTTP 500: '<html>oh</html>'"),
        (302, b"", "only the named endpoint is asked"),
        (503, b"", "HTTP 503: nothing"),
    ],
)
def test_a_status_that_is_no_success_says_which_and_why(status: int, body: bytes, words: str) -> None:
    with pytest.raises(AnswerError, match=words.replace("(", r"\(")) as raised:
        streamed_answer(Reply(status=status, pieces=[(0.0, body)]))
    assert "sk-echoed" not in str(raised.value)
