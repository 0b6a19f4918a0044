"""The client of endpoints against a server whose tokens have a known schedule: 1, 10 and 100 streams of 50 tokens/s.

The server runs in a process of its own and notes when it really sent each token, on the clock that both share, so
that its own lateness on a busy box is not the client's. TTFT and TPOT are compared stream by stream; the client's CPU
time is that of its thread from the first request to the last token.
"""

import asyncio
import json
import multiprocessing
import random
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from statistics import median, quantiles

from tests.benchmarks.report import print_bar, spread
from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.answer import Answer, streamed_answer
from workbench.engines.endpoint.connection import Client, Reply, Request
from workbench.engines.endpoint.key import Key
from workbench.runner import CancelToken

STREAMS, REPEATS = (1, 10, 100), {1: 20, 10: 4, 100: 2}
TOKENS, STEP_S = 150, 0.020
LEAST_TTFT_S, MOST_TTFT_S = 0.05, 0.25
MEDIAN_MS, WORST_MS, CORES = 1.0, 3.0, 0.5


class Scheduled(asyncio.Protocol):
    """Sends its tokens at their times, each in a chunk of its own, and at the end when it did."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.asked = b""
        self.sent: list[float] = []

    def data_received(self, data: bytes) -> None:
        self.asked += data
        head, end, body = self.asked.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split()[0]):
            return
        seed = json.loads(body)["seed"]
        kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.transport.write(kind)
        loop = asyncio.get_running_loop()
        self.loop, self.next_s = loop, loop.time() + random.Random(seed).uniform(LEAST_TTFT_S, MOST_TTFT_S)
        loop.call_at(self.next_s, self.send)

    def send(self) -> None:
        text = json.dumps({"choices": [{"index": 0, "text": " word", "finish_reason": None}]}).encode()
        self.sent.append(time.perf_counter())
        self.transport.write(chunk(b"data: " + text + b"\n\n"))
        if len(self.sent) < TOKENS:
            self.next_s += STEP_S
            self.loop.call_at(self.next_s, self.send)
            return
        usage = {"choices": [], "usage": {"completion_tokens": TOKENS, "prompt_tokens": 1}, "sent": self.sent}
        self.transport.write(chunk(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def serve(told: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Scheduled, "127.0.0.1", 0, backlog=512)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def sent_by(reply: Reply) -> Sequence[float]:
    """When the server sent each token, as it says at its end."""
    line = next(line for line in reply.body.split(b"\n") if b'"sent"' in line)
    found: list[float] = json.loads(line.removeprefix(b"data: "))["sent"]
    return found


def errors_ms(answer: Answer, sent: Sequence[float]) -> tuple[float, float]:
    """By how much TTFT and TPOT differ from those that the server's own moments make."""
    ttft = answer.ttft_s - (sent[0] - answer.sent_s)
    tpot = (answer.last_s - answer.first_s) / answer.steps - (sent[-1] - sent[0]) / (TOKENS - 1)
    return abs(ttft) * 1e3, abs(tpot) * 1e3


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    client = Client(parse_address(f"http://127.0.0.1:{ours.recv()}"), Key(), 30.0)
    try:
        for streams in STREAMS:
            measure(client, streams)
    finally:
        client.close()
        process.terminate()


def measure(client: Client, streams: int) -> None:
    ttft: list[float] = []
    tpot: list[float] = []
    cores: list[float] = []
    lag: list[float] = []
    for repeat in range(REPEATS[streams]):
        requests = [
            Request("/v1/completions", json.dumps({"seed": repeat * 1000 + i}).encode()) for i in range(streams)
        ]
        began, cpu = time.perf_counter(), time.thread_time()
        exchanged = client.exchange(requests, CancelToken())
        cores.append((time.thread_time() - cpu) / (time.perf_counter() - began))
        lag += exchanged.lag_s
        for reply in exchanged.replies:
            assert isinstance(reply, Reply), reply
            off = errors_ms(streamed_answer(reply), sent_by(reply))
            ttft.append(off[0])
            tpot.append(off[1])
    print(
        f"{streams} streams: client {max(cores):.3f} of a core at most; "
        f"its loop late, ms: {spread([1e3 * s for s in lag])}"
    )
    for name, off_ms in (("TTFT", ttft), ("TPOT", tpot)):
        worst = max(off_ms) if len(off_ms) < 20 else quantiles(off_ms, n=100)[-1]
        print_bar(
            f"{streams} streams, {name} off in the median, ms",
            median(off_ms),
            f"≤ {MEDIAN_MS}",
            median(off_ms) <= MEDIAN_MS,
        )
        print_bar(
            f"{streams} streams, {name} off at the 99th percentile, ms", worst, f"≤ {WORST_MS}", worst <= WORST_MS
        )
    if streams == max(STREAMS):
        print_bar("cores the client takes", median(cores), f"< {CORES}", median(cores) < CORES)


if __name__ == "__main__":
    main()
