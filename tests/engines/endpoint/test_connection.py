"""Taking an HTTP answer out of its framing, whatever the pieces it comes in."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.engines.endpoint.playing_server import Body, head, playing, whole
from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.connection import Client, ExchangeError, Reply, Request, _Chunks
from workbench.engines.endpoint.key import Key
from workbench.runner import CancelToken

PLAIN = b"Wikipedia in \r\nchun"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_chunks_are_taken_out_of_their_framing(size: int) -> None:
    framed = b"4;note=1\r\nWiki\r\nd\r\npedia in \r\nch\r\n2\r\nun\r\n0\r\n\r\n"
    chunks = _Chunks()
    found = b"".join(chunks.feed(framed[i : i + size]) for i in range(0, len(framed), size))
    assert found == PLAIN
    assert chunks.ended


@pytest.mark.parametrize("framed", [b"xyz\r\n", b"-5\r\nabcde", b"\r\n\r\n"])
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
