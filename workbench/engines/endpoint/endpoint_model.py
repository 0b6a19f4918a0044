"""The engine of an endpoint: requests of exact length, alone or several at once, each timed in its phases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from workbench.engines.endpoint.address import Address, parse_address
from workbench.engines.endpoint.answer import Answer, AnswerError, ServerTimes, json_of, streamed_answer, whole_answer
from workbench.engines.endpoint.connection import Client, Exchanged, ExchangeError, Reply, Request
from workbench.engines.endpoint.key import Key, key_of_environment
from workbench.engines.endpoint.metrics_page import MetricsPage, read_metrics_page, times_between
from workbench.engines.endpoint.prompts import calibrated_words, random_ids, random_words
from workbench.engines.endpoint.server import Server, ServerKind, find_server
from workbench.engines.engine import (
    BatchTiming,
    BoxRates,
    EngineLabels,
    Host,
    PointError,
    RequestTiming,
    SeenByClient,
    Streams,
)
from workbench.engines.timed_only import TimedOnly
from workbench.errors import SettingsError
from workbench.experiments.engine_plan import UNTOLD
from workbench.experiments.engine_settings import AUTO, CHAT, COMPLETIONS, EndpointSettings
from workbench.experiments.plan import LoadPlan
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.runner import CancelToken
from workbench.runs.basis import Basis
from workbench.runs.measured_device import ASSUMED_READ, assumed_compute
from workbench.tracks import hardware_named

NO_TIMES = ServerTimes()
LATE_S, LATE_SHARE = 0.003, 0.25
"""A client later than both, the second as a share of a step, can't keep up."""
QUANTILE = 0.99
MOST_PROMPTS = 1_000_003
"""Of one batch: seeds are so far apart that those of its prompts are no other batch's."""


def load_endpoint(planned: LoadPlan, cancel: CancelToken, key: Key | None = None) -> "EndpointModel":
    """Find out what answers at the plan's endpoint; raises SettingsError where nothing does."""
    settings = planned.settings.endpoint
    address = parse_address(settings.url)
    key = key_of_environment() if key is None else key
    if not key.is_sendable:
        raise SettingsError("The key holds characters that no request can carry. Set WORKBENCH_API_KEY again.")
    client = Client(address, key, settings.timeout_s)
    try:
        server = find_server(client, address, settings.served_model, cancel)
        rates, basis = _rates(settings, planned.resident.main_type)
        told = planned.settings.is_told
        labels = EngineLabels(
            engine=str(server.kind),
            engine_version=server.version,
            quantisation=planned.model.quantisation if told else UNTOLD,
            dtype=f"{settings.cache_type} cache" if told else UNTOLD,
            device=settings.hardware or UNTOLD,
            threads=0,
            model=planned.model.name if told else server.model,
            host=Host(machine=_machine(settings, address), basis=basis, is_here=False),
        )
        return EndpointModel(planned.resident, settings, address, client, server, key, labels, rates)
    except BaseException:
        client.close()
        raise


class Prompt(msgspec.Struct, frozen=True):
    """A prompt of so many tokens, as ids or as words."""

    tokens: int
    content: list[int] | str


class EndpointModel(TimedOnly):
    """A model behind a server, asked over HTTP by the thread that measures."""

    def __init__(
        self,
        model: Model,
        settings: EndpointSettings,
        address: Address,
        client: Client,
        server: Server,
        key: Key,
        labels: EngineLabels,
        rates: BoxRates,
        is_streamed: bool = True,
    ) -> None:
        super().__init__(model)
        self.labels = labels
        self._settings = settings
        self._address = address
        self._client = client
        self._server = server
        self._key = key
        self._rates = rates
        self._is_streamed = is_streamed
        self._api = settings.api
        self._prompt: Prompt | None = None
        self._calibrated: dict[int, int] = {}
        self._has_metrics = server.kind is not ServerKind.LLAMA_CPP

    def box_rates(self) -> BoxRates:
        """B and C of the hardware named, of as many devices as there are; stand-ins where none is."""
        return self._rates

    def read_again(self) -> Quantity:
        """B, which does not change."""
        return self._rates.read

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Make the next prompt; the first of a length by words is calibrated by the server's own count."""
        self._prompt = self.new_prompt(prompt_tokens, seed, CancelToken())

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """One request, alone at the server as far as this client knows."""
        assert self._prompt is not None, "prepare comes before request"
        (timing,), _ = self._timed([self._prompt], new_tokens, [0.0], cancel)
        return timing

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Requests of these lengths at once, or arriving at the rate that is set; a sample is a request's own step."""
        prompts = self.new_prompts(lengths, seed, cancel)
        rate = self._settings.rate
        arrivals = [0.0 if rate is None else i / rate for i in range(len(prompts))]
        timings, streams = self._timed(prompts, steps + 1, arrivals, cancel)
        prefill_s = max(
            sent_s + (each.seen.ttft_s or 0.0)
            for sent_s, each in zip(streams.sent_s, timings, strict=True)
            if each.seen is not None
        )
        return BatchTiming(prefill_s, tuple(each.tpot_s for each in timings), streams=streams)

    def close(self) -> None:
        """Nothing of it is held here."""
        self._client.close()

    def _timed(
        self, prompts: Sequence[Prompt], new_tokens: int, arrivals: Sequence[float], cancel: CancelToken
    ) -> tuple[list[RequestTiming], Streams]:
        """Send prompts and read their answers; PointError where one of them fails, with the first reason."""
        before = self._metrics(cancel)
        beside = self._others_words(cancel)
        answers, lag_s = self.exchanged(prompts, new_tokens, arrivals, cancel)
        after = None if before is None else self._metrics(cancel)
        paged = None if before is None or after is None else times_between(before, after, len(answers))
        if paged is not None and len(answers) > 1:
            # A mean of all would pass for the figure of each, and hide how far they lie apart.
            paged = ServerTimes(queue_s=paged.queue_s)
        timings = [
            self._timing(answer, prompt, new_tokens, paged) for answer, prompt in zip(answers, prompts, strict=True)
        ]
        first = min(answer.sent_s for answer in answers)
        streams = Streams(
            timings=tuple(timings),
            sent_s=tuple(answer.sent_s - first for answer in answers),
            span_s=max(answer.last_s for answer in answers) - first,
            lag_s=_quantile([*lag_s, *(answer.late_s for answer in answers)]),
            slots=self._server.slots,
        )
        remarks = tuple(filter(None, (beside, _late_words(streams))))
        noted = [_noted(timing, remarks) for timing in timings]
        return noted, replace(streams, timings=tuple(noted))

    def exchanged(
        self,
        prompts: Sequence[Prompt],
        new_tokens: int,
        arrivals: Sequence[float],
        cancel: CancelToken,
        extras: Sequence[Mapping[str, Any]] | None = None,
    ) -> tuple[list[Answer], Sequence[float]]:
        """The answers to prompts sent at these times, with what each asks besides, and how late the client ran.

        Raises PointError where one of them fails.
        """
        more = [{}] * len(prompts) if extras is None else extras
        requests = [
            Request(self._route, self._body(prompt, new_tokens, self._is_streamed, **each), after)
            for prompt, after, each in zip(prompts, arrivals, more, strict=True)
        ]
        exchanged = self._client.exchange(requests, cancel, self._is_streamed)
        return self._answers(exchanged), exchanged.lag_s

    def _answers(self, exchanged: Exchanged) -> list[Answer]:
        answers, failed = [], []
        for reply in exchanged.replies:
            try:
                if isinstance(reply, ExchangeError):
                    raise reply
                answers.append(streamed_answer(reply) if self._is_streamed else whole_answer(reply))
            except (ExchangeError, AnswerError) as error:
                failed.append(self._key.hidden_in(str(error)))
        if failed:
            of = f"{len(failed):,} of {len(exchanged.replies):,} streams failed: " if len(exchanged.replies) > 1 else ""
            raise PointError(f"{of}{failed[0]}")
        return answers

    def _timing(self, answer: Answer, prompt: Prompt, new_tokens: int, paged: ServerTimes | None) -> RequestTiming:
        if answer.tokens < 2:
            raise PointError(f"the answer ended after {answer.tokens:,} of {new_tokens:,} tokens: no step to time")
        server = paged if answer.server == NO_TIMES and paged is not None else answer.server
        prefill_s = answer.ttft_s if server.prefill_s is None else server.prefill_s
        decode_s, end_s = answer.last_s - answer.first_s, answer.last_s - answer.sent_s
        if self._is_streamed and (decode_s <= 0 or answer.steps < 1):
            raise PointError(
                f"all {answer.tokens:,} tokens came at one moment: the server, or a proxy before it, does not stream"
            )
        queue_s = server.queue_s
        if queue_s is None and server.prefill_s is not None:
            before_s = answer.ttft_s if self._is_streamed else end_s - (server.decode_s or 0.0)
            queue_s = max(0.0, before_s - server.prefill_s)
        counted, asked = answer.prompt_tokens, prompt.tokens
        seen = SeenByClient(
            ttft_s=answer.ttft_s if self._is_streamed else None,
            tpot_s=decode_s / answer.steps if self._is_streamed else None,
            end_s=end_s,
            tokens=answer.tokens,
            queue_s=queue_s,
            prompt_tokens=counted,
            cached_tokens=answer.cached_tokens,
            by_server=server.prefill_s is not None or server.decode_s is not None,
            notes=tuple(_notes(self._server, answer, asked, new_tokens, server)),
            chunks=len(answer.chunks_s),
            first_tokens=answer.first_tokens,
            tpot_between_s=_between(answer, decode_s) if self._is_streamed else None,
        )
        if server.decode_s:
            # The server's clock begins at the first token, whatever the first chunk brought.
            return RequestTiming(prefill_s, server.decode_s, max(1, answer.tokens - 1), seen)
        return RequestTiming(prefill_s, decode_s, answer.steps, seen)

    def new_prompts(self, lengths: Sequence[int], seed: int, cancel: CancelToken) -> list[Prompt]:
        """A prompt of each of these lengths, no two of them alike."""
        return [self.new_prompt(n, seed * MOST_PROMPTS + i, cancel) for i, n in enumerate(lengths)]

    def new_prompt(self, n: int, seed: int, cancel: CancelToken) -> Prompt:
        """A prompt of n tokens that no cache holds; PointError where the server can't be asked how long one is."""
        if self._api == AUTO:
            self._api = self._found_api(cancel)
        if self._api == COMPLETIONS and self._server.takes_ids:
            vocabulary = self._server.vocabulary or self.model.vocabulary or None
            return Prompt(n, random_ids(n, vocabulary, seed))
        if n not in self._calibrated:
            self._calibrated[n] = calibrated_words(n, lambda count: self._tokens_of(random_words(count, seed), cancel))
        return Prompt(n, random_words(self._calibrated[n], seed))

    def _found_api(self, cancel: CancelToken) -> str:
        """Completions, which take a bare prompt, where the server has them; chat otherwise."""
        prompt = Prompt(1, [1] if self._server.takes_ids else "the")
        try:
            reply = self._client.ask(Request(self._address.api(COMPLETIONS), self._body(prompt, 1)), cancel)
        except ExchangeError as error:
            raise PointError(self._key.hidden_in(str(error))) from None
        return CHAT if reply.status in (404, 405, 501) else COMPLETIONS

    def _tokens_of(self, words: str, cancel: CancelToken) -> int:
        """Tokens of a prompt of words, template and all, by the server's count."""
        try:
            reply = self._client.ask(Request(self._route, self._body(Prompt(0, words), 1, stream=False)), cancel)
            usage = json_of(reply).get("usage")
        except (ExchangeError, AnswerError) as error:
            raise PointError(self._key.hidden_in(str(error))) from None
        except AttributeError:
            usage = None
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(count, int):
            raise PointError("the server doesn't count the prompt's tokens, so that no length can be set")
        return count

    @property
    def _route(self) -> str:
        return self._address.api("chat/completions" if self._api == CHAT else "completions")

    def _body(self, prompt: Prompt, new_tokens: int, stream: bool = True, **more: Any) -> bytes:
        asked: dict[str, Any] = {
            "model": self._server.model,
            "max_tokens": new_tokens,
            "temperature": 0,
            "stream": stream,
            **self._server.extras,
            **more,
        }
        if stream:
            asked["stream_options"] = self._server.stream_options
        if self._api == CHAT:
            asked["messages"] = [{"role": "user", "content": prompt.content}]
        else:
            asked["prompt"] = prompt.content
        return msgspec.json.encode(asked)

    def _others_words(self, cancel: CancelToken) -> str:
        """A sentence where llama.cpp's slots show that others' requests run before ours are sent."""
        if self._server.kind is not ServerKind.LLAMA_CPP:
            return ""
        try:
            slots = json_of(self._client.ask(Request(self._address.root("slots")), cancel))
        except (ExchangeError, AnswerError):
            return ""
        listed = slots if isinstance(slots, list) else []
        busy = any(isinstance(slot, dict) and slot.get("is_processing") for slot in listed)
        return "requests of others ran on the server when these were sent" if busy else ""

    def _metrics(self, cancel: CancelToken) -> MetricsPage | None:
        """The server's metrics page; None for a server without one that is known, which is asked once."""
        if not self._has_metrics:
            return None
        try:
            reply: Reply = self._client.ask(Request(self._address.root("metrics")), cancel)
        except ExchangeError:
            return None
        page = read_metrics_page(reply.body.decode("utf-8", "replace")) if reply.status == 200 else None
        self._has_metrics = page is not None and page.names() is not None
        return page if self._has_metrics else None


def _between(answer: Answer, decode_s: float) -> tuple[float, float] | None:
    """The least and the most that TPOT can be; None where the tokens after the first moment are known."""
    if answer.first_least == answer.first_most:
        return None
    return decode_s / (answer.tokens - answer.first_least), decode_s / (answer.tokens - answer.first_most)


def _notes(server: Server, answer: Answer, asked: int, new_tokens: int, told: ServerTimes) -> list[str]:
    """What a reader must know of one request."""
    notes = []
    if told == NO_TIMES:
        notes.append("only wall time is known: queueing, tokenising and the network are inside TTFT")
    if answer.cached_tokens:
        notes.append(f"{answer.cached_tokens:,} prompt tokens came from a cache: TTFT is not of the whole prompt")
    elif answer.cached_tokens is None and not server.tells_cached:
        notes.append("the server doesn't say whether it caches prompts; each prompt was new")
    if answer.prompt_tokens is not None and answer.prompt_tokens != asked:
        notes.append(f"the server counts {answer.prompt_tokens:,} prompt tokens where {asked:,} were asked")
    if answer.tokens != new_tokens:
        notes.append(f"answers of {answer.tokens:,} tokens where {new_tokens:,} were asked")
    return notes


def _noted(timing: RequestTiming, remarks: tuple[str, ...]) -> RequestTiming:
    if not remarks or timing.seen is None:
        return timing
    return replace(timing, seen=replace(timing.seen, notes=(*timing.seen.notes, *remarks)))


def _late_words(streams: Streams) -> str:
    """A sentence where this client could not keep up; without a figure, so that it is told once."""
    steps = [each.seen.tpot_s for each in streams.timings if each.seen and each.seen.tpot_s]
    if streams.lag_s > max(LATE_S, LATE_SHARE * min(steps, default=0.0)):
        return (
            "this client couldn't keep up: it read its clock late by more than a quarter of a step. "
            "Measure from a quieter machine, or fewer streams"
        )
    return ""


def _quantile(late_s: Sequence[float]) -> float:
    ordered = sorted(late_s)
    return ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))] if ordered else 0.0


def _rates(settings: EndpointSettings, dtype: str) -> tuple[BoxRates, Basis | None]:
    """B and C of the devices named, added, and what they rest on; None with stand-ins where nothing is known."""
    if not settings.hardware:
        return BoxRates(ASSUMED_READ, assumed_compute(1)), None
    device = hardware_named(settings.hardware)
    read, product = device.bandwidth, device.compute_for(dtype) or assumed_compute(1)
    basis = {Origin.MEASURED: Basis.CALIBRATION, Origin.VENDOR: Basis.VENDOR}.get(read.origin)
    if settings.devices > 1:
        read, product = _added(read, settings.devices), _added(product, settings.devices)
    return BoxRates(read, product), basis


def _added(rate: Quantity, devices: int) -> Quantity:
    count = arithmetic("devices", devices, Unit.COUNT, "d")
    return replace(
        rate,
        name=f"{rate.name}, of {devices} devices",
        value=rate.value * devices,
        formula=f"d·{rate.symbol}",
        inputs=(count, rate),
        source=f"{rate.source}, of each of {devices}",
    )


def _machine(settings: EndpointSettings, address: Address) -> str:
    """The label of the box behind the server."""
    if not settings.hardware:
        return f"behind {address}"
    title = THIS_MACHINE if settings.hardware == THIS_MACHINE else hardware_named(settings.hardware).title
    return f"{title} behind {address}" if settings.devices == 1 else f"{settings.devices} × {title} behind {address}"
