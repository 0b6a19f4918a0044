"""A server on loopback that answers as a test tells it to, well or badly, and remembers what it was asked."""

import json
import socketserver
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from workbench.engines.endpoint.connection import _Receiver

Body = Mapping[str, Any]
Answers = Callable[[Body, int], Iterable[bytes]]
MOST_WAIT_S = 10.0
OTHER_PROCESS_S = 0.005
"""Between two pieces for a client in another process, which can't be seen taking them in."""
MODELS: Body = {"object": "list", "data": [{"id": "a-model", "object": "model", "owned_by": "vllm"}]}


@dataclass
class Playing:
    """What the server was asked, and where it listens."""

    url: str = ""
    bodies: list[Body] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)


def head(kind: str = "text/event-stream", status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(value: object, status: str = "200 OK") -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return head("application/json", status, f"Content-Length: {len(body)}") + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(value: object) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def token(text: str = "a", **more: Any) -> Body:
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def usage(completion: int, prompt: int, cached: int | None = None) -> Body:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"choices": [], "usage": {"completion_tokens": completion, "prompt_tokens": prompt, **details}}


def streamed(events: Iterable[object]) -> Iterator[bytes]:
    yield head("text/event-stream", "200 OK", "Transfer-Encoding: chunked")
    for each in events:
        yield chunk(event(each))
    yield chunk(event(b"[DONE]")) + b"0\r\n\r\n"


def good(body: Body, _: int = 0) -> Iterator[bytes]:
    """An answer of as many tokens as were asked, to a prompt of as many as it has."""
    n, prompt = body["max_tokens"], body.get("prompt")
    length = len(prompt) if isinstance(prompt, list) else len(str(prompt or body["messages"][0]["content"]).split())
    if not body["stream"]:
        return iter([whole({"choices": [{"text": "a"}], "usage": {"completion_tokens": n, "prompt_tokens": length}})])
    last = {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
    return streamed([*(token() for _ in range(n)), last, usage(n, length, 0)])


@contextmanager
def playing(
    answers: Answers = good,
    models: Body = MODELS,
    pages: Mapping[str, bytes] | None = None,
    is_elsewhere: bool = False,
) -> Iterator[Playing]:
    """Serve until the test leaves; `answers` gets each request's body and its number among all."""
    found = Playing()
    left = threading.Event()
    lock = threading.Lock()
    taken: dict[int, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            lines = iter(lambda: self.rfile.readline().decode().strip(), "")
            asked = list(lines)
            if not asked:
                return
            method, path, _ = asked[0].split(" ")
            length = next((int(line.split(":")[1]) for line in asked if line.lower().startswith("content-length")), 0)
            raw = self.rfile.read(length)
            with lock:
                found.paths.append(path)
                found.heads.append("\n".join(asked))
            if method == "GET":
                pieces: Iterable[bytes] = [self._page(path)]
            else:
                body = json.loads(raw)
                with lock:
                    number = len(found.bodies)
                    found.bodies.append(body)
                pieces = answers(body, number)
            for piece in pieces:
                if piece is None:
                    # Says nothing more until the test is over.
                    left.wait()
                    return
                self.wfile.write(piece)
                self.wfile.flush()
                if method == "POST":
                    self._wait_until_taken()

        def _wait_until_taken(self) -> None:
            """Pieces stay pieces: the next one goes when the client has read its clock for the one before it."""
            if is_elsewhere:
                left.wait(OTHER_PROCESS_S)
            else:
                taken[self.client_address[1]].acquire(timeout=MOST_WAIT_S)

        def _page(self, path: str) -> bytes:
            if path == "/v1/models":
                return whole(models)
            if pages and path in pages:
                return head("text/plain", "200 OK", f"Content-Length: {len(pages[path])}") + pages[path]
            return whole({"error": {"message": "not found"}}, "404 Not Found")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, *_: object) -> None:
            """A client that leaves in the middle is part of the tests."""

    made, received = _Receiver.connection_made, _Receiver.data_received

    def connection_made(self: _Receiver, transport: Any) -> None:
        self.port = transport.get_extra_info("sockname")[1]  # type: ignore[attr-defined]
        made(self, transport)

    def data_received(self: _Receiver, data: bytes) -> None:
        received(self, data)
        taken[self.port].release()  # type: ignore[attr-defined]

    with (
        patch.object(_Receiver, "connection_made", connection_made),
        patch.object(_Receiver, "data_received", data_received),
        Server(("127.0.0.1", 0), Handler) as server,
    ):
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            left.set()
            server.shutdown()
