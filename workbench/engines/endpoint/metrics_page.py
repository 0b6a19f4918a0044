"""What a server's metrics page says of its requests: sums of seconds by phase, from which two pages give the means.

Sources: vLLM, docs/design/metrics; SGLang, docs/references/production_metrics; text-generation-inference,
docs/reference/metrics; llama.cpp, tools/server/README (its page has totals of both phases, and no queue). Behind Ray a
name has ray_ before it, and its colon is an underscore.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.engines.endpoint.answer import ServerTimes

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(\{[^}]*\})?\s+(\S+)")
_METHOD = re.compile(r'[{,]\s*method="(\w+)"')
_BEFORE = "ray_"


@dataclass(frozen=True)
class _Names:
    """What a server calls its histograms of seconds; empty where it has none."""

    queue: str = ""
    prefill: str = ""
    decode: str = ""
    first_token: str = ""
    whole: str = ""
    passes: str = ""
    """Seconds of passes of a batch under the label method, prefill or decode: of one request alone they are its own."""


VLLM = _Names(
    "vllm_request_queue_time_seconds",
    "vllm_request_prefill_time_seconds",
    "vllm_request_decode_time_seconds",
    "vllm_time_to_first_token_seconds",
    "vllm_e2e_request_latency_seconds",
)
SGLANG = _Names(
    queue="sglang_queue_time_seconds",
    first_token="sglang_time_to_first_token_seconds",
    whole="sglang_e2e_request_latency_seconds",
)
TGI = _Names(queue="tgi_request_queue_duration", whole="tgi_request_duration", passes="tgi_batch_inference_duration")
KNOWN = (VLLM, SGLANG, TGI)


@dataclass(frozen=True)
class MetricsPage:
    """A page at one moment: each series without its labels, those of all labels added; of a method also apart."""

    sums: Mapping[str, float]

    def names(self) -> _Names | None:
        """Whose histograms are on it; None for a server that isn't known."""
        return next((names for names in KNOWN if f"{names.whole}_count" in self.sums), None)


def read_metrics_page(text: str) -> MetricsPage:
    """A page in Prometheus's text format; lines that are no sample are passed over."""
    sums: dict[str, float] = {}
    for name, value in _samples(text):
        sums[name] = sums.get(name, 0.0) + value
    return MetricsPage(sums)


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if (found := _SAMPLE.match(line)) is not None:
            try:
                value = float(found[3])
            except ValueError:
                continue
            name = found[1].removeprefix(_BEFORE).replace(":", "_")
            # A bucket counts what others count too.
            if not name.endswith("_bucket"):
                yield name, value
                if (method := _METHOD.search(found[2] or "")) is not None:
                    yield f"{name} {method[1]}", value


def times_between(before: MetricsPage, after: MetricsPage, requests: int) -> ServerTimes | None:
    """Mean seconds of the phases of the requests between two pages; None where others' requests are among them."""
    names = after.names()
    if names is None or _grown(before, after, f"{names.whole}_count") != requests:
        return None

    def mean(name: str) -> float | None:
        counted = _grown(before, after, f"{name}_count") if name else 0
        return _grown(before, after, f"{name}_sum") / counted if counted else None

    queue, first, whole = mean(names.queue), mean(names.first_token), mean(names.whole)
    prefill, decode = mean(names.prefill), mean(names.decode)
    if names.passes and requests == 1:
        prefill, decode = (_grown(before, after, f"{names.passes}_sum {method}") for method in ("prefill", "decode"))
    if prefill is None and first is not None and queue is not None:
        prefill = max(0.0, first - queue)
    if decode is None and first is not None and whole is not None:
        decode = max(0.0, whole - first)
    return ServerTimes(queue, prefill, decode)


def _grown(before: MetricsPage, after: MetricsPage, name: str) -> float:
    return after.sums.get(name, 0.0) - before.sums.get(name, 0.0)
