"""Taking an HTTP answer out of its framing, whatever the pieces it comes in."""

import pytest

from workbench.engines.endpoint.connection import _Chunks

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
