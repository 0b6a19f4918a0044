"""A streamed answer of the OpenAI API: how many tokens it has, when the first usable one and the last came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from workbench.engines.endpoint.connection import Reply
from workbench.engines.endpoint.key import CUT

MOST_QUOTED = 160
"""Characters of a server's own words in a reason."""
DATA = b"data:"
DONE = b"[DONE]"
UNAUTHORISED = frozenset({401, 403})


class AnswerError(Exception):
    """An answer that no figure can be taken from; its message says why."""


@dataclass(frozen=True)
class ServerTimes:
    """A request by the server's own clock, in seconds; None where it doesn't say.

    `decode_s` is from the first output token to the last.
    """

    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True)
class Answer:
    """One answer: its tokens and the moments of the client's clock at which each chunk of them came.

    Of one that was not streamed only its end has a moment, and `chunks_s` is empty. At the first moment came
    `first_least` to `first_most` tokens: as many as the server says, or a range where it doesn't.
    `cached_tokens` of the prompt were not computed, None where the server doesn't say.
    """

    sent_s: float
    first_s: float
    last_s: float
    tokens: int
    chunks_s: tuple[float, ...]
    first_least: int = 1
    first_most: int = 1
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    server: ServerTimes = ServerTimes()
    late_s: float = 0.0

    @property
    def ttft_s(self) -> float:
        """From sending the request to its first usable token."""
        return self.first_s - self.sent_s

    @property
    def first_tokens(self) -> int:
        """Tokens that came at the first moment: an even share of them all, within what is known."""
        at_first = self.chunks_s.count(self.first_s)
        share = round(self.tokens * at_first / len(self.chunks_s)) if self.chunks_s else 1
        return min(max(share, self.first_least), self.first_most)

    @property
    def steps(self) -> int:
        """Tokens that came after those of the first moment."""
        return self.tokens - self.first_tokens


def streamed_answer(reply: Reply) -> Answer:
    """The answer in a reply.

    Raises AnswerError for a status that is no success, a stream that breaks off or holds no JSON, an error in it, one
    without a usable token, and one that doesn't say how many tokens it has.
    """
    check_status(reply)
    if "event-stream" not in reply.headers.get("content-type", "").lower():
        raise AnswerError(f"no stream of events came, but {_quoted(reply.body)}")
    read = _Reading()
    for moment, data in _events(reply.pieces):
        read.take(moment, data)
    if reply.problem and not read.ended:
        raise AnswerError(f"{reply.problem}, after {len(read.usable_s):,} chunks with tokens")
    if not read.ended:
        raise AnswerError(f"the stream broke off after {len(read.usable_s):,} chunks with tokens, before its end")
    return read.answer(reply)


def whole_answer(reply: Reply) -> Answer:
    """The answer in a reply that was not streamed, which disturbs the server least: its times are the server's alone.

    Raises AnswerError as `streamed_answer`, and where the server doesn't tell both phases.
    """
    check_status(reply)
    if reply.problem:
        raise AnswerError(reply.problem)
    read = _Reading()
    read.take(reply.ended_s, reply.body)
    return read.whole(reply)


def check_status(reply: Reply) -> None:
    """Raise AnswerError for a status that is no success; of a refused key the server's words may quote it."""
    if (encoding := reply.headers.get("content-encoding", "identity").lower()) != "identity":
        raise AnswerError(
            f"the answer came in {encoding!r}, which was not asked for: a proxy before the server packs it"
        )
    if 200 <= reply.status < 300:
        return
    if not reply.status:
        raise AnswerError(reply.problem)
    if reply.status in UNAUTHORISED:
        raise AnswerError(f"HTTP {reply.status}: the server refuses the key; set WORKBENCH_API_KEY or give --ask-key")
    if 300 <= reply.status < 400:
        raise AnswerError(f"HTTP {reply.status}: the server sends elsewhere, and only the named endpoint is asked")
    raise AnswerError(f"HTTP {reply.status}: {_error_words(reply.body)}")


def json_of(reply: Reply) -> Any:
    """A reply's JSON; raises AnswerError for none."""
    check_status(reply)
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise AnswerError(f"no JSON came, but {_quoted(reply.body)}") from None


class _Reading:
    """What the chunks of a stream have said so far."""

    def __init__(self) -> None:
        self.usable_s: list[float] = []
        self.ended = False
        self._ids: list[int] = []
        self._counted: int | None = None
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._metrics: Mapping[str, Any] = {}

    def take(self, moment: float, data: bytes) -> None:
        """Take in the data of one event."""
        if data == DONE:
            self.ended = True
            return
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise AnswerError(f"a chunk of the stream is no JSON: {_quoted(data)}") from None
        if not isinstance(chunk, dict):
            raise AnswerError(f"a chunk of the stream is no object: {_quoted(data)}")
        if chunk.get("error"):
            raise AnswerError(f"the server ended the stream with an error: {_error_words(data)}")
        self._usage = _mapping(chunk.get("usage")) or self._usage
        self._timings = _mapping(chunk.get("timings")) or self._timings
        self._metrics = _mapping(chunk.get("metrics")) or self._metrics
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            # Some tell with every chunk how many tokens there are so far.
            counted = _count(self._timings.get("predicted_n")) or _count(self._usage.get("completion_tokens"))
            self._take_choice(moment, _mapping(choice), counted)

    def _take_choice(self, moment: float, choice: Mapping[str, Any], counted: int | None) -> None:
        self.ended = self.ended or bool(choice.get("finish_reason"))
        delta = _mapping(choice.get("delta"))
        ids = choice.get("token_ids")
        count = len(ids) if isinstance(ids, list) else 0
        texts = (choice.get("text"), *(delta.get(name) for name in ("content", "reasoning_content", "reasoning")))
        if count or any(isinstance(text, str) and text for text in texts) or delta.get("tool_calls"):
            self.usable_s.append(moment)
            self._ids.append(count)
            # Bytes that are no whole character yet are held back: the first text may be of several tokens.
            if moment == self.usable_s[0]:
                self._counted = sum(self._ids) or counted

    def whole(self, reply: Reply) -> Answer:
        """All that came in one piece; raises AnswerError where the server doesn't tell its tokens and both phases."""
        tokens = _count(self._usage.get("completion_tokens"))
        server = _server_times(self._timings, self._metrics)
        if not tokens or server.prefill_s is None or server.decode_s is None:
            raise AnswerError("the server tells neither its tokens nor its times")
        return Answer(
            sent_s=reply.sent_s,
            first_s=reply.ended_s,
            last_s=reply.ended_s,
            tokens=tokens,
            chunks_s=(),
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            cached_tokens=_count(self._timings.get("cache_n")),
            server=server,
        )

    def answer(self, reply: Reply) -> Answer:
        """The whole of it; raises AnswerError where nothing usable came or nothing counts its tokens."""
        usage, timings = self._usage, self._timings
        tokens = _count(usage.get("completion_tokens")) or sum(self._ids) or _count(timings.get("predicted_n"))
        if not self.usable_s:
            raise AnswerError(f"the answer has no usable token{f' among its {tokens:,}' if tokens else ''}")
        if not tokens:
            raise AnswerError(
                "the server doesn't say how many tokens it gave: neither usage nor token ids are in its stream, and "
                "chunks are no tokens"
            )
        details = _mapping(usage.get("prompt_tokens_details"))
        cached = _count(timings.get("cache_n"))
        least, most = self._first_between(tokens)
        return Answer(
            sent_s=reply.sent_s,
            first_s=self.usable_s[0],
            last_s=self.usable_s[-1],
            tokens=tokens,
            chunks_s=tuple(self.usable_s),
            first_least=least,
            first_most=most,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            cached_tokens=_count(details.get("cached_tokens")) if cached is None else cached,
            server=_server_times(timings, self._metrics),
            late_s=reply.late_s,
        )

    def _first_between(self, tokens: int) -> tuple[int, int]:
        """The least and the most of the tokens that can have come at the first moment.

        A chunk holds a token or more; where there are more chunks than tokens, some hold a part of one.
        """
        if self._counted:
            return self._counted, self._counted
        at_first = self.usable_s.count(self.usable_s[0])
        beyond = tokens - len(self.usable_s)
        least = max(1, at_first + min(beyond, 0))
        return least, max(least, min(at_first + max(beyond, 0), tokens - 1))


def _server_times(timings: Mapping[str, Any], metrics: Mapping[str, Any]) -> ServerTimes:
    """What the answer itself tells.

    Sources: llama.cpp, tools/server (its decode runs from the first token, which prefill gave, to the last); vLLM,
    docs/features/per_request_metrics (its time to first token begins when the request was scheduled).
    """
    if timings:
        return ServerTimes(None, _seconds(timings.get("prompt_ms")), _seconds(timings.get("predicted_ms")))
    return ServerTimes(
        _seconds(metrics.get("queue_time_ms")),
        _seconds(metrics.get("time_to_first_token_ms")),
        _seconds(metrics.get("generation_time_ms")),
    )


def _events(pieces: Sequence[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The data of each event and the moment its line was whole."""
    held = b""
    for moment, piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            if line.startswith(DATA):
                yield moment, line[len(DATA) :].strip()
    if held.startswith(DATA) and held[len(DATA) :].strip() == DONE:
        yield pieces[-1][0], DONE


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _seconds(value: Any) -> float | None:
    return value / 1e3 if isinstance(value, int | float) and value >= 0 else None


def _error_words(body: bytes) -> str:
    """A server's own words for what is wrong."""
    try:
        found = _mapping(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _quoted(body)
    error = found.get("error", found.get("message", found.get("detail")))
    message = _mapping(error).get("message", error)
    return _quoted(str(message).encode()) if message else _quoted(body)


def _quoted(body: bytes) -> str:
    """The beginning of what came, on one line of printable text."""
    text = body[: 4 * MOST_QUOTED].decode("utf-8", "replace")
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not plain:
        return "nothing"
    is_cut = len(plain) > MOST_QUOTED or len(body) > 4 * MOST_QUOTED
    return repr(f"{plain[: MOST_QUOTED - 1]}{CUT}" if is_cut else plain)
