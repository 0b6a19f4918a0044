"""One request by the stopwatch: time to first token, time per output token, and what one change does to each."""

from dataclasses import dataclass

from workbench.errors import SettingsError
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed


@dataclass(frozen=True)
class Stopwatch:
    """What was read off: token counts, and seconds from sending the request to its first and to its last token.

    `waited_s` is the part of the first token's time that was no prefill (queueing, tokenising), where it is known.
    Raises SettingsError for readings that can't be.
    """

    prompt_tokens: int
    output_tokens: int
    ttft_s: float
    end_s: float
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1:
            raise SettingsError(f"The prompt has {self.prompt_tokens} tokens; it must have at least 1.")
        if self.output_tokens < 2:
            raise SettingsError(
                f"The answer has {self.output_tokens} tokens; it must have at least 2: the first belongs to prefill, "
                "so one alone says nothing of decode."
            )
        if not 0 < self.ttft_s < self.end_s < float("inf"):
            raise SettingsError(
                f"The first token came after {self.ttft_s:g} s and the last after {self.end_s:g} s; the first must "
                "come after 0 s and before the last."
            )
        if not 0 <= self.waited_s < self.ttft_s:
            raise SettingsError(
                f"{self.waited_s:g} s of waiting must be at least 0 s and less than the {self.ttft_s:g} s to the "
                "first token, which include it."
            )


@dataclass(frozen=True)
class Latency:
    """The two phases of one request apart, and the stopwatch's rate, which is that of neither."""

    ttft_s: Quantity = headed("TTFT")
    tpot_ms: Quantity = headed("TPOT ms")
    decode_tokens_per_s: Quantity = headed("decode tok/s")
    prompt_tokens_per_s: Quantity = headed("prompt tok/s")
    end_to_end_s: Quantity = headed("end to end")
    stopwatch_tokens_per_s: Quantity = headed("stopwatch tok/s")


@dataclass(frozen=True)
class Change:
    """What the request would take with one thing changed; `note` says where that is only a least time."""

    change: str = headed("change")
    ttft_s: Quantity = headed("TTFT")
    tpot_ms: Quantity = headed("TPOT ms")
    end_to_end_s: Quantity = headed("end to end")
    note: str = headed("note")


def latency(read: Stopwatch) -> Latency:
    """TTFT, TPOT, both rates and the end-to-end time of one request."""
    n, n_output = _prompt(read.prompt_tokens), _output(read)
    end, prefill, tpot = _end(read), _prefill(read), _tpot(read)
    return Latency(
        ttft_s=_first_token(read),
        tpot_ms=tpot,
        decode_tokens_per_s=arithmetic(
            "decode rate", 1e3 / tpot.value, Unit.TOKENS_PER_SECOND, formula="1 / TPOT", inputs=(tpot,)
        ),
        prompt_tokens_per_s=arithmetic(
            "prompt processing rate",
            read.prompt_tokens / prefill.value,
            Unit.TOKENS_PER_SECOND,
            formula="n_prompt / prefill",
            inputs=(n, prefill),
        ),
        end_to_end_s=end,
        stopwatch_tokens_per_s=arithmetic(
            "output over wall time, which charges the prefill to decode",
            read.output_tokens / read.end_s,
            Unit.TOKENS_PER_SECOND,
            formula="n_output / end",
            inputs=(n_output, end),
        ),
    )


def with_prompt(read: Stopwatch, n: int) -> Change:
    """A prompt of n tokens instead, its prefill in proportion; TPOT as it was, or less with a shorter context."""
    if n < 1:
        raise SettingsError(f"A prompt of {n} tokens can't be; it must have at least 1.")
    shorter = n <= read.prompt_tokens
    return _changed(
        read,
        f"prompt of {n:,} tokens",
        _prefilling(read, n),
        _tpot(read),
        "TPOT the same or slightly less: there is less cache to read"
        if shorter
        else "TTFT at least this: attention's n² term grows faster than the prompt, and TPOT with the cache",
    )


def with_faster_decode(read: Stopwatch, factor: float) -> Change:
    """Decode `factor` times faster, from fewer bytes a token or more bandwidth; prefill as it was."""
    if not 0 < factor < float("inf"):
        raise SettingsError(f"Decode {factor:g} times faster can't be; the factor must be above 0.")
    tpot = _tpot(read)
    faster = arithmetic("times decode is faster", factor, Unit.TIMES, "faster")
    less = arithmetic(tpot.name, tpot.value / factor, Unit.MILLISECONDS, "TPOT", "TPOT / faster", (tpot, faster))
    return _changed(read, f"decode {factor:g} times faster", _first_token(read), less, "")


def with_cached_prefix(read: Stopwatch, cached: int) -> Change:
    """The first `cached` tokens of the prompt found in a cache, so that only the rest is prefilled."""
    if not 0 <= cached < read.prompt_tokens:
        raise SettingsError(
            f"A cached prefix of {cached:,} tokens can't be: it must have at least 0 tokens and be shorter than the "
            f"prompt, {read.prompt_tokens:,} tokens, whose last one is always prefilled."
        )
    new = read.prompt_tokens - cached
    return _changed(
        read,
        f"{cached:,} prompt tokens cached",
        _prefilling(read, new),
        _tpot(read),
        f"TTFT at least this: the {new:,} new tokens still attend over all {read.prompt_tokens:,}",
    )


def changes(
    read: Stopwatch, *, prompt: int | None = None, faster: float | None = None, cached: int | None = None
) -> tuple[Change, ...]:
    """The request as it was, and with each one thing that is given changed."""
    found = [_changed(read, "none", _first_token(read), _tpot(read), "")]
    if prompt is not None:
        found.append(with_prompt(read, prompt))
    if faster is not None:
        found.append(with_faster_decode(read, faster))
    if cached is not None:
        found.append(with_cached_prefix(read, cached))
    return tuple(found)


def _changed(read: Stopwatch, change: str, ttft: Quantity, tpot: Quantity, note: str) -> Change:
    return Change(
        change=change,
        ttft_s=ttft,
        tpot_ms=tpot,
        end_to_end_s=arithmetic(
            "end to end",
            ttft.value + tpot.value / 1e3 * (read.output_tokens - 1),
            Unit.SECONDS,
            formula="TTFT + TPOT·(n_output − 1)",
            inputs=(ttft, tpot, _output(read)),
        ),
        note=note,
    )


def _first_token(read: Stopwatch) -> Quantity:
    return _measured("first token", read.ttft_s, "TTFT")


def _end(read: Stopwatch) -> Quantity:
    return _measured("last token", read.end_s, "end")


def _waited(read: Stopwatch) -> Quantity:
    return _measured("queueing and tokenising", read.waited_s, "waited")


def _prefill(read: Stopwatch) -> Quantity:
    return arithmetic(
        "prefill",
        read.ttft_s - read.waited_s,
        Unit.SECONDS,
        "prefill",
        "TTFT − waited",
        (_first_token(read), _waited(read)),
    )


def _prefilling(read: Stopwatch, n: int) -> Quantity:
    """The time to the first token with n tokens to prefill, in proportion."""
    prefill = _prefill(read)
    return arithmetic(
        "time to first token",
        read.waited_s + prefill.value * n / read.prompt_tokens,
        Unit.SECONDS,
        "TTFT",
        "waited + prefill·n / n_prompt",
        (_waited(read), prefill, arithmetic("tokens prefilled", n, Unit.TOKENS, "n"), _prompt(read.prompt_tokens)),
    )


def _tpot(read: Stopwatch) -> Quantity:
    return arithmetic(
        "time of each output token after the first",
        1e3 * (read.end_s - read.ttft_s) / (read.output_tokens - 1),
        Unit.MILLISECONDS,
        "TPOT",
        "(end − TTFT) / (n_output − 1)",
        (_end(read), _first_token(read), _output(read)),
    )


def _prompt(n: int) -> Quantity:
    return arithmetic("prompt", n, Unit.TOKENS, "n_prompt")


def _output(read: Stopwatch) -> Quantity:
    return arithmetic("output tokens", read.output_tokens, Unit.TOKENS, "n_output")


def _measured(name: str, seconds: float, symbol: str) -> Quantity:
    return Quantity(name, seconds, Unit.SECONDS, Origin.MEASURED, symbol, source="the stopwatch")
