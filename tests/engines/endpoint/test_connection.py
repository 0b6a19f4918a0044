"""Taking an HTTP answer out of its framing, whatever the pieces it comes in."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.engines.endpoint.playing_server import Body, chunk, event, head, playing, token, usage, whole
from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.answer import streamed_answer
from workbench.engines.endpoint.connection import Client, ExchangeError, Reply, Request, _Chunks
from workbench.engines.endpoint.key import Key
from workbench.runner import CancelToken

PLAIN = b"Wikipedia in \r\nchun"


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b" \r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_chunks_are_taken_out_of_their_framing(size: int, end: bytes) -> None:
    framed = end.join([b"4;note=1", b"Wiki", b"D", b"pedia in \r\nch", b"002", b"un", b"0", b"Trailer: 1", b"", b""])
    chunks = _Chunks()
    found = b"".join(chunks.feed(framed[i : i + size]) for i in range(0, len(framed), size))
    assert found == PLAIN
    assert chunks.ended


@pytest.mark.parametrize("framed", [b"xyz\r\n", b"-5\r\nabcde", b"\r\n\r\n", b"1\r\nabc\r\n"])
def test_what_is_no_chunk_is_refused(framed: bytes) -> None:
    with pytest.raises(ValueError, match=r"chunk|int"):
        _Chunks().feed(framed)


def test_a_server_that_only_says_it_lives_is_given_up() -> None:
    ticks = count()

    def lives_on(body: Body, number: int) -> Iterator[bytes]:
        yield head()
        while True:
            yield b": ping\n\n"

    with playing(lives_on) as server:
        client = Client(parse_address(server.url), Key(), 0.05, clock=lambda: next(ticks) * 0.01)
        try:
            (found,) = client.exchange([Request("/v1/completions", b"{}")], CancelToken()).replies
        finally:
            client.close()
    assert isinstance(found, ExchangeError)
    assert "no end within 1 s" in str(found)


def test_a_request_that_is_due_later_is_sent_when_it_is_due_and_not_before() -> None:
    with playing(lambda *_: [whole({})]) as server:
        client = Client(parse_address(server.url), Key(), 60.0)
        try:
            requests = [Request("/v1/completions", b"{}", after) for after in (0.0, 0.3)]
            first, later = client.exchange(requests, CancelToken()).replies
        finally:
            client.close()
    assert isinstance(first, Reply)
    assert isinstance(later, Reply)
    assert later.sent_s > first.sent_s
    assert later.late_s >= 0


STREAMED = event(token()) + event(token(" [DONE] ")) + event(usage(2, 8)) + event(b"[DONE]")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + STREAMED,
        b"HTTP/1.1 200 OK\nContent-Type: Text/Event-Stream\n\n" + STREAMED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + head() + STREAMED,
        head() + STREAMED.replace(b"\n", b"\r\n"),
        head() + b": comment\nevent: message\nid: 1\n" + STREAMED.replace(b"data: ", b"data:").rstrip(),
        head("text/event-stream", "200 OK", "Transfer-Encoding: chunked")
        + b"".join(chunk(STREAMED[i : i + 9]) for i in range(0, len(STREAMED), 9))
        + b"0\r\n\r\n",
    ],
)
def test_an_answer_is_read_however_a_server_frames_it(answer: bytes) -> None:
    with playing(lambda *_: [answer[i : i + 25] for i in range(0, len(answer), 25)]) as server:
        client = Client(parse_address(server.url), Key(), 5.0)
        try:
            (found,) = client.exchange([Request("/v1/completions", b"{}")], CancelToken()).replies
        finally:
            client.close()
    assert isinstance(found, Reply)
    assert streamed_answer(found).tokens == 2
