"""One HTTP/1.1 request at a time on a connection of its own, with the moment at which each piece of its answer came.

The clock is read as the bytes are, in the event loop's own callback: 100 streams of 50 tokens a second are 5,000
pieces, and a client that hands each through layers of tasks first reads the clock late and takes a core.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench.engines.endpoint.address import Address
from workbench.engines.endpoint.key import Key
from workbench.runner import CancelToken

Clock = Callable[[], float]
_T = TypeVar("_T")
LOOK_S = 0.1
"""How often a waiting client looks whether it was cancelled or has waited too long."""
TICK_S = 0.02
"""How often it looks whether it is late itself."""
MOST_BYTES = 64_000_000
MOST_SILENCES = 20
"""Times the time-out that a whole answer may take: a server that only says that it is alive says so for ever."""
CONNECTED_AHEAD_S = 0.25
"""Before a request is due: servers close connections on which nothing comes."""
MOST_HEAD_BYTES = 64_000
LINE_END = b"\n"
"""Of HTTP it is CR LF; a lone LF may be taken for it (RFC 9112, section 2.2), and small servers write it."""
HEAD_END = re.compile(rb"\r?\n\r?\n")
LAST_EVENT = re.compile(rb"(?:^|\n)data: ?\[DONE\]\s*$")
"""What ends a stream of the OpenAI API, whether or not the answer ends there too. A model may write the word itself."""
TAIL_BYTES = 64


class ExchangeError(Exception):
    """A request that got no whole answer; its message says why."""


@dataclass(frozen=True)
class Request:
    """What is asked of a server."""

    path: str
    body: bytes = b""
    sent_after_s: float = 0.0
    """When it is sent, counted from the first of those sent together."""


@dataclass
class Reply:
    """What came back: its status, headers, and each piece of its body with the moment it came.

    `problem` says why the body is not whole; empty where it is.
    """

    sent_s: float = 0.0
    late_s: float = 0.0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended_s: float = 0.0
    problem: str = ""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(piece for _, piece in self.pieces)


class _Chunks:
    """The body of a chunked answer, taken out of its framing as it comes."""

    def __init__(self) -> None:
        self._held = b""
        self._left = 0
        self._is_after_data = False
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in what came; raises ValueError for what is no chunk."""
        taken: list[bytes] = []
        held = self._held + data
        while held and not self.ended:
            if self._left:
                part = held[: self._left]
                taken.append(part)
                self._left -= len(part)
                held = held[len(part) :]
                self._is_after_data = not self._left
            else:
                length, end, rest = held.partition(LINE_END)
                if not end:
                    if len(held) > MOST_HEAD_BYTES:
                        raise ValueError("a chunk without its length")
                    break
                held = rest
                if self._is_after_data:
                    if length.strip():
                        raise ValueError("a chunk longer than it says")
                    self._is_after_data = False
                    continue
                self._left = int(length.partition(b";")[0], 16)
                if self._left < 0:
                    raise ValueError("a chunk of negative length")
                self.ended = self._left == 0
        self._held = held
        return b"".join(taken)


class _Receiver(asyncio.Protocol):
    """Takes in one answer."""

    def __init__(self, clock: Clock, done: "asyncio.Future[None]") -> None:
        self.reply = Reply()
        self.last_s = clock()
        self._clock = clock
        self._done = done
        self._head = b""
        self._body: Callable[[bytes], bytes] | None = None
        self._chunks: _Chunks | None = None
        self._left: int | None = None
        self._taken = 0
        self._tail = b""
        self._is_stream = False

    def data_received(self, data: bytes) -> None:
        self.last_s = now = self._clock()
        try:
            if self._body is None:
                data = self._headed(data)
            if self._body is not None and data:
                self._take(now, self._body(data))
        except ValueError:
            self._end("what came is not HTTP")

    def _headed(self, data: bytes) -> bytes:
        """Read the head; what came after it, empty while it is not whole."""
        self._head += data
        while True:
            head, *following = HEAD_END.split(self._head, 1)
            if not following:
                if len(head) > MOST_HEAD_BYTES or not b"HTTP/1.".startswith(head[:7]):
                    raise ValueError("no head of an answer")
                return b""
            self._head = rest = following[0]
            lines = head.decode("latin-1").splitlines()
            version, _, status = lines[0].partition(" ")
            if not version.startswith("HTTP/1.") or not status[:3].isdigit():
                raise ValueError("no status line")
            if int(status[:3]) >= 200:
                break
        self.reply.status = int(status[:3])
        named = (line.partition(":") for line in lines[1:])
        self.reply.headers = {name.strip().lower(): value.strip() for name, _, value in named}
        self._begin_body()
        return rest

    def _begin_body(self) -> None:
        headers = self.reply.headers
        self._is_stream = "event-stream" in headers.get("content-type", "").lower()
        if "chunked" in headers.get("transfer-encoding", "").lower():
            self._chunks = _Chunks()
            self._body = self._chunks.feed
            return
        self._body = bytes
        if (length := headers.get("content-length")) is not None:
            self._left = int(length)
            if self._left == 0:
                self._end("")

    def _take(self, now: float, body: bytes) -> None:
        if body:
            self.reply.pieces.append((now, body))
            self._tail = (self._tail + body)[-TAIL_BYTES:]
            self._taken += len(body)
        if self._taken > MOST_BYTES:
            self._end(f"its answer is longer than {MOST_BYTES / 1e6:.0f} MB")
        elif (
            (self._chunks is not None and self._chunks.ended)
            or (self._left is not None and self._taken >= self._left)
            or (self._is_stream and LAST_EVENT.search(self._tail) is not None)
        ):
            self._end("")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.reply.status:
            self._end("the server closed the connection without an answer")
        elif self._chunks is not None or self._left is not None or error is not None:
            self._end("the connection broke off in the middle of the answer")
        else:
            self._end("")

    def _end(self, problem: str) -> None:
        if not self._done.done():
            self.reply.problem = problem
            self.reply.ended_s = self._clock()
            self._done.set_result(None)


_Connected = tuple[asyncio.Transport, _Receiver, "asyncio.Future[None]"]


@dataclass(frozen=True)
class Exchanged:
    """The answers of requests sent together, each or the reason there is none, and how late the client ran."""

    replies: tuple[Reply | ExchangeError, ...]
    lag_s: tuple[float, ...] = ()


class Client:
    """Sends requests to one address and no other: it follows no redirect and asks no proxy.

    `timeout_s` bounds the connecting, and each silence of the server; nothing else is waited for.
    """

    def __init__(self, address: Address, key: Key, timeout_s: float, clock: Clock = time.perf_counter) -> None:
        self._address = address
        self._key = key
        self._timeout_s = timeout_s
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        self._tls = ssl.create_default_context() if address.is_encrypted else None

    def exchange(self, requests: Sequence[Request], cancel: CancelToken, watches_pace: bool = True) -> Exchanged:
        """Connect all, then send each at its time and take in all answers; raises Cancelled within a tenth of a second.

        Nothing is read or written between a request's clock and its bytes: connecting, and the handshake of https, come
        before it. With `watches_pace` it wakes often to see how late it runs itself.
        """
        return self._loop.run_until_complete(self._exchange(requests, cancel, watches_pace))

    def ask(self, request: Request, cancel: CancelToken) -> Reply:
        """The whole answer to one request; raises ExchangeError where there is none."""
        (reply,) = self.exchange([request], cancel).replies
        if isinstance(reply, ExchangeError):
            raise reply
        if reply.problem:
            raise ExchangeError(reply.problem)
        return reply

    def close(self) -> None:
        """End the event loop; nothing is connected by then."""
        self._loop.close()

    async def _exchange(self, requests: Sequence[Request], cancel: CancelToken, watches_pace: bool) -> Exchanged:
        lag: list[float] = []
        opened: list[asyncio.Transport] = []
        at_once = [one for one in requests if one.sent_after_s <= CONNECTED_AHEAD_S]
        watching: asyncio.Future[None] | None = None
        try:
            connected = iter(await self._watched([self._connected(opened) for _ in at_once], cancel))
            begin = self._clock()
            if watches_pace:
                watching = asyncio.ensure_future(self._watch_own_pace(lag))
            answers = [
                self._answered(one, next(connected), begin)
                if one.sent_after_s <= CONNECTED_AHEAD_S
                else self._answered_later(one, opened, begin)
                for one in requests
            ]
            replies = await self._watched(answers, cancel)
        finally:
            if watching is not None:
                watching.cancel()
            for transport in opened:
                transport.abort()
            # One turn of the loop, in which the closed connections end.
            await asyncio.sleep(0)
        return Exchanged(tuple(replies), tuple(lag))

    async def _watched(self, coming: Sequence[Coroutine[Any, Any, _T]], cancel: CancelToken) -> list[_T]:
        """What all of them come to; cancelled as soon as the run is."""
        tasks = [asyncio.ensure_future(each) for each in coming]
        waiting = set(tasks)
        try:
            while waiting:
                cancel.check()
                _, waiting = await asyncio.wait(waiting, timeout=LOOK_S)
        finally:
            for task in waiting:
                task.cancel()
        return [task.result() for task in tasks]

    async def _answered_later(
        self, request: Request, opened: list[asyncio.Transport], begin: float
    ) -> Reply | ExchangeError:
        """As `_answered`, on a connection that is made shortly before the request is due."""
        await asyncio.sleep(max(0.0, begin + request.sent_after_s - CONNECTED_AHEAD_S - self._clock()))
        return await self._answered(request, await self._connected(opened), begin)

    async def _connected(self, opened: list[asyncio.Transport]) -> _Connected | ExchangeError:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        name = self._address.host if self._tls else None
        try:
            async with asyncio.timeout(self._timeout_s):
                transport, receiver = await loop.create_connection(
                    lambda: _Receiver(self._clock, done),
                    self._address.host,
                    self._address.port,
                    ssl=self._tls,
                    server_hostname=name,
                )
        except TimeoutError:
            return ExchangeError(f"no connection to {self._address} within {self._timeout_s:g} s")
        except ConnectionRefusedError:
            return ExchangeError(f"{self._address} refused the connection: nothing listens there")
        except ssl.SSLError as error:
            return ExchangeError(f"no secure connection to {self._address}: {error.reason or error}")
        except OSError as error:
            return ExchangeError(f"{self._address} can't be reached: {error.strerror or error}")
        opened.append(transport)
        return transport, receiver, done

    async def _answered(
        self, request: Request, connected: _Connected | ExchangeError, begin: float
    ) -> Reply | ExchangeError:
        if isinstance(connected, ExchangeError):
            return connected
        transport, receiver, done = connected
        due = begin + request.sent_after_s
        while (left := due - self._clock()) > 0:
            await asyncio.sleep(left)
        reply = receiver.reply
        message = self._message(request)
        reply.sent_s = receiver.last_s = self._clock()
        reply.late_s = reply.sent_s - due if request.sent_after_s else 0.0
        transport.write(message)
        while not done.done():
            now = self._clock()
            left_s = min(receiver.last_s + self._timeout_s, reply.sent_s + MOST_SILENCES * self._timeout_s) - now
            if left_s <= 0:
                return ExchangeError(self._timed_out(reply, now))
            await asyncio.wait([done], timeout=left_s)
        return reply

    def _timed_out(self, reply: Reply, now: float) -> str:
        if now - reply.sent_s >= MOST_SILENCES * self._timeout_s:
            return f"timed out: its answer had no end within {MOST_SILENCES * self._timeout_s:g} s"
        what = "nothing more of its answer" if reply.status else "no answer"
        return f"timed out: {what} came for {self._timeout_s:g} s"

    def hidden(self, text: str) -> str:
        """A server's words without the key, which it may have repeated."""
        return self._key.hidden_in(text)

    def _message(self, request: Request) -> bytes:
        head = (
            f"{'POST' if request.body else 'GET'} {request.path} HTTP/1.1\r\nHost: {self._address.host_header}\r\n"
            f"Accept-Encoding: identity\r\nConnection: close\r\n{self._key.header()}"
        )
        if request.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n"
        return f"{head}\r\n".encode() + request.body

    async def _watch_own_pace(self, lag: list[float]) -> None:
        """How much later than asked the loop came back, again and again."""
        with suppress(asyncio.CancelledError):
            while True:
                asked = self._clock()
                await asyncio.sleep(TICK_S)
                lag.append(max(0.0, self._clock() - asked - TICK_S))
