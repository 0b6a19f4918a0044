"""What requests to a server add to a row: the client's clock beside the server's, waiting, concurrency, goodput."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from workbench.engines.engine import BatchTiming, RequestTiming, SeenByClient, Streams
from workbench.experiments.engine_settings import EndpointSettings
from workbench.quantity import Origin, Quantity, Unit
from workbench.runs.row import Row

BY_SERVER, BY_CLIENT = "the server's clock", "the client's clock"


def with_requests(row: Row, timings: Sequence[RequestTiming]) -> Row:
    """The row with what its requests showed beyond their two phases; as it is where an engine asks no server."""
    seen = [timing.seen for timing in timings if timing.seen is not None]
    if not seen:
        return row
    columns = _seen_columns(seen)
    counted = [each.prompt_tokens for each in seen if each.prompt_tokens is not None]
    if counted and row.ttft_ms:
        # Words are not always as many tokens as were asked.
        columns["prompt_tokens_per_s"] = median(counted) / (row.ttft_ms / 1e3)
    return _noted(replace(row, **columns), seen)


def with_streams(row: Row, passes: Sequence[BatchTiming], settings: EndpointSettings) -> Row:
    """The row with what simultaneous requests showed; as it is where an engine asks no server."""
    streams = [each.streams for each in passes if each.streams is not None]
    seen = [timing.seen for each in streams for timing in each.timings if timing.seen is not None]
    if not seen:
        return row
    columns = _seen_columns(seen) | {
        "total_tokens_per_s": median(map(_decoded_rate, streams)),
        "output_tokens_per_s": median(sum(_tokens(each)) / each.span_s for each in streams),
        "mean_streams": fmean(_mean_streams(each) for each in streams),
        "client_lag_ms": max(each.lag_s for each in streams) * 1e3,
        "arrivals_per_s": settings.rate,
    }
    if settings.ttft_limit_ms is not None or settings.tpot_limit_ms is not None:
        good = sum(_is_good(each, settings) for each in seen)
        columns |= {
            "goodput_share": good / len(seen),
            "goodput_per_s": good / sum(each.span_s for each in streams),
        }
    return _noted(replace(row, **columns), seen, _queued(streams))


def goodput(rows: Sequence[Row]) -> Iterator[Quantity]:
    """For each batch that was held to limits, the share of its requests that kept within them."""
    for row in rows:
        if row.status == "ok" and row.goodput_share is not None and row.goodput_per_s is not None:
            yield Quantity(
                f"{row.goodput_share * 100:.0f} % of the requests of batch {row.batch:,} after {row.prompt_tokens:,} "
                f"tokens kept within the limits, {row.goodput_per_s:.3g} a second",
                row.goodput_share,
                Unit.SHARE,
                Origin.MEASURED,
                "goodput",
            )


def _seen_columns(seen: Sequence[SeenByClient]) -> dict[str, Any]:
    cached = [each.cached_tokens for each in seen if each.cached_tokens is not None]
    return {
        "timed_by": BY_SERVER if all(each.by_server for each in seen) else BY_CLIENT,
        "queue_ms": _median_ms(each.queue_s for each in seen),
        "client_ttft_ms": _best_ms(each.ttft_s for each in seen),
        "client_tpot_ms": _best_ms(each.tpot_s for each in seen),
        "client_ttft_median_ms": _median_ms(each.ttft_s for each in seen),
        "client_tpot_median_ms": _median_ms(each.tpot_s for each in seen),
        "end_to_end_ms": _median_ms(each.end_s for each in seen),
        "cached_tokens": max(cached) if cached else None,
    }


def _best_ms(seconds: Iterable[float | None]) -> float | None:
    """The least, as ttft_ms and tpot_ms are: the two clocks are compared by the same statistic."""
    return min((each * 1e3 for each in seconds if each is not None), default=None)


def _median_ms(seconds: Iterable[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return median(known) * 1e3 if known else None


def _tokens(streams: Streams) -> list[int]:
    return [timing.seen.tokens for timing in streams.timings if timing.seen]


def _decoded_rate(streams: Streams) -> float:
    """Tokens after those each stream began with, over the time from the first stream's first to the last one's last."""
    sent = zip(streams.sent_s, streams.timings, strict=True)
    first = min(sent_s + (timing.seen.ttft_s or 0.0) for sent_s, timing in sent if timing.seen)
    at_first = sum(timing.seen.first_tokens for timing in streams.timings if timing.seen)
    return (sum(_tokens(streams)) - at_first) / (streams.span_s - first)


def _mean_streams(streams: Streams) -> float:
    """Requests under way at a moment, on average."""
    return sum(timing.seen.end_s for timing in streams.timings if timing.seen) / streams.span_s


def _is_good(seen: SeenByClient, settings: EndpointSettings) -> bool:
    """Whether a request kept within both limits, by what its user saw."""
    ttft, tpot = settings.ttft_limit_ms, settings.tpot_limit_ms
    in_ttft = ttft is None or (seen.ttft_s is not None and seen.ttft_s * 1e3 <= ttft)
    return in_ttft and (tpot is None or (seen.tpot_s is not None and seen.tpot_s * 1e3 <= tpot))


def _queued(streams: Sequence[Streams]) -> Iterable[str]:
    slots = next((each.slots for each in streams if each.slots is not None), None)
    most = max(len(each.timings) for each in streams)
    if slots is not None and most > slots:
        yield f"the server runs {slots:,} requests at once: of {most:,} the rest waited"


def _chunk_words(seen: Sequence[SeenByClient]) -> Iterator[str]:
    """What must be known of TPOT by the client where chunks and tokens are not as many."""
    streamed = [each for each in seen if each.chunks]
    tokens, chunks = sum(each.tokens for each in streamed), sum(each.chunks for each in streamed)
    bounds = [each.tpot_between_s for each in streamed if each.tpot_between_s is not None]
    if bounds:
        low, high = min(low for low, _ in bounds) * 1e3, max(high for _, high in bounds) * 1e3
        yield (
            f"{tokens:,} tokens came in {chunks:,} chunks, and nothing tells how many the first ones held: TPOT by the "
            f"client's clock is between {low:.4g} and {high:.4g} ms, and given for chunks of one size"
        )
    elif chunks > tokens:
        yield f"{chunks:,} chunks came for {tokens:,} tokens: some hold a part of one"
    elif tokens > chunks or any(each.first_tokens > 1 for each in streamed):
        yield (
            f"{tokens:,} tokens came in {chunks:,} chunks: TPOT by the client's clock is over the tokens after those "
            "that came first"
        )


def _noted(row: Row, seen: Sequence[SeenByClient], more: Iterable[str] = ()) -> Row:
    notes = dict.fromkeys([*(note for each in seen for note in each.notes), *_chunk_words(seen), *more])
    return replace(row, flags="; ".join(filter(None, [row.flags, *notes])))
