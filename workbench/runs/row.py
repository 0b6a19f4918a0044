"""One measured point: the schema from which the table, the JSON, the CSV and the store are all made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from workbench.quantity import Origin, Unit
from workbench.runs.column import Column, described, figure, foretold, interval, label, predicted_end

PREFILL_DECODE, BATCH, GAP = "prefill_decode", "batch", "gap"
"""The kinds of experiment that rows come from."""


_ARITHMETIC: Mapping[str, Any] = {"origin": Origin.ARITHMETIC}
_SIX_LABELS = ("model", "quantisation", "dtype", "engine", "machine")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One point of a run, under its six labels: model, quantisation or dtype, context, batch, engine, machine.

    None is "not measured"; zero is zero, but a failed point's prompt that nobody told. `ttft_ms` and `tpot_ms` are the
    best of the repeats, their medians stand beside them. In a batch sweep the repeats are its steps, and rates are of
    the median step, `step_ms`.
    Raises ValueError where a label is empty.
    """

    run_id: str = label("run", "the run this row belongs to")
    started_at: str = label("started", "when the point was begun, UTC")
    kind: str = label("kind", "which experiment")
    machine: str = label("machine", "the box: processor, cores, memory")
    track: str = label("track", "hardware track")
    engine: str = label("engine", "what ran the model")
    engine_version: str = label("engine version", "its version")
    model: str = label("model", "the model's name")
    architecture: str = label("architecture", "the model's family")
    quantisation: str = label("quantisation", "how the weights are stored, and whether they were dequantised")
    dtype: str = label("dtype", "element type of weights and cache as run")
    device: str = label("device", "where it ran")
    threads: int = label("threads", "threads torch used")
    weights: str = label("weights", "real or synthetic")
    prompt_tokens: int = field(
        metadata=described(
            "prompt",
            "tokens of the prompt",
            unit=Unit.TOKENS,
            symbol="n",
            in_batch={"heading": "context", "meaning": "tokens each sequence holds before the steps, their mean"},
            **_ARITHMETIC,
        )
    )
    context_tokens: int = field(
        metadata=described(
            "context", "tokens in the cache at the middle decode step", unit=Unit.TOKENS, symbol="t", **_ARITHMETIC
        )
    )
    batch: int = field(metadata=described("batch", "sequences in a step", symbol="b", **_ARITHMETIC))
    new_tokens: int = field(
        metadata=described("new tokens", "output tokens, the first of them from prefill", **_ARITHMETIC)
    )
    repeats: int = field(metadata=described("repeats", "repeats measured", **_ARITHMETIC))
    ttft_ms: float | None = figure(
        "TTFT ms", "time to first token: prefill of the whole prompt; best repeat", unit=Unit.MILLISECONDS
    )
    ttft_median_ms: float | None = figure("TTFT median", "median of the repeats", unit=Unit.MILLISECONDS)
    prompt_tokens_per_s: float | None = figure(
        "prompt tok/s",
        "prompt tokens per second of prefill",
        unit=Unit.TOKENS_PER_SECOND,
        formula="n / TTFT",
        inputs=("prompt_tokens", "ttft_ms"),
    )
    prefill_gflop_per_s: float | None = figure(
        "GFLOP/s",
        "operations per second of prefill: 2·N·n, the head once, attention's n² term",
        unit=Unit.GFLOP_PER_SECOND,
        formula="F / TTFT",
        inputs=("prefill_flop", "ttft_ms"),
    )
    tpot_ms: float | None = figure(
        "TPOT ms",
        "time per output token after the first; best repeat",
        unit=Unit.MILLISECONDS,
        formula="decode time / (new tokens - 1)",
        inputs=("new_tokens",),
        in_batch={"meaning": "the shortest of the steps", "formula": "", "inputs": ()},
    )
    tpot_median_ms: float | None = figure(
        "TPOT median",
        "median of the repeats",
        unit=Unit.MILLISECONDS,
        in_batch={"meaning": "median of the steps"},
    )
    decode_tokens_per_s: float | None = figure(
        "tok/s",
        "decode rate of each sequence",
        unit=Unit.TOKENS_PER_SECOND,
        formula="1 / TPOT",
        inputs=("tpot_ms",),
        in_batch={"heading": "tok/s each", "formula": "1 / step", "inputs": ("step_ms",)},
    )
    total_tokens_per_s: float | None = figure(
        "total tok/s",
        "decode rate of all sequences together",
        unit=Unit.TOKENS_PER_SECOND,
        formula="b / TPOT",
        inputs=("batch", "tpot_ms"),
        in_batch={"formula": "b / step", "inputs": ("batch", "step_ms")},
    )
    bytes_per_step: int | None = figure(
        "read/step",
        "bytes one decode step must read: weights, and the cache at the middle step",
        unit=Unit.BYTES,
        formula="W + k·t",
        inputs=("weight_bytes", "cache_bytes"),
        in_batch={"formula": "W + b·k·t"},
        **_ARITHMETIC,
    )
    ceiling_tokens_per_s: float | None = figure(
        "ceiling tok/s",
        "the most this box could decode",
        unit=Unit.TOKENS_PER_SECOND,
        formula="B / (W + k·t)",
        inputs=("ceiling_read_gb_per_s", "bytes_per_step"),
        in_batch={"meaning": "the most this box could decode of each sequence", "formula": "B / (W + b·k·t)"},
        **_ARITHMETIC,
    )
    ceiling_share: float | None = figure(
        "of ceiling",
        "share of the ceiling the decode reached",
        unit=Unit.SHARE,
        formula="decode rate / ceiling",
        inputs=("decode_tokens_per_s", "ceiling_tokens_per_s"),
    )
    ceiling_basis: str | None = figure("basis", "what the ceiling's bandwidth rests on")
    predicted_ttft_ms: float | None = figure(
        "predicted TTFT",
        "predicted before measuring",
        unit=Unit.MILLISECONDS,
        from_operations=foretold("TTFT"),
        **_ARITHMETIC,
    )
    predicted_tpot_ms: float | None = figure(
        "predicted TPOT",
        "predicted before measuring",
        unit=Unit.MILLISECONDS,
        in_batch={
            "heading": "predicted step",
            "meaning": "predicted before measuring, with C as this box gives it to that many rows",
            "formula": "max((W + b·k·t) / B, F / C_b)",
            "inputs": ("bytes_per_step", "read_before_gb_per_s", "step_flop", "few_rows_gflop_per_s"),
        },
        from_operations=foretold("TPOT"),
        **_ARITHMETIC,
    )
    bound_by: str | None = figure(
        "prefill bound",
        "the clock that binds the prefill: bytes, maths, or both while neither is twice the other",
        formula="F / C against W / B",
        inputs=("prefill_flop", "peak_gflop_per_s", "weight_bytes", "read_gb_per_s"),
        in_batch={
            "heading": "calculated limit",
            "meaning": "what limits the step by calculation: reading weights or caches, arithmetic of so few rows, or "
            "memory. The sentences under the table go by how much longer the measured step grew, and can name another",
            "formula": "F / C_b against W / B and b·k·t / B",
            "inputs": ("step_flop", "few_rows_gflop_per_s", "weight_bytes", "cache_bytes", "read_gb_per_s"),
        },
        **_ARITHMETIC,
    )
    ui_share: float | None = figure(
        "UI share", "CPU time of the screen and the monitor inside the timed windows", unit=Unit.SHARE
    )
    other_load: float | None = figure(
        "other load", "share of all cores other processes and steal took in the timed windows", unit=Unit.SHARE
    )
    status: str = field(default="ok", metadata=described("status", "ok, or why there is no figure"))
    flags: str = field(default="", metadata=described("flags", "what to know before trusting the row"))
    ttft_floor_ms: float | None = figure(
        "TTFT floor",
        "the least the prefill could take",
        unit=Unit.MILLISECONDS,
        formula="max(F / C, W / B)",
        inputs=("prefill_flop", "peak_gflop_per_s", "weight_bytes", "read_gb_per_s"),
        **_ARITHMETIC,
    )
    prefill_flop: int | None = figure(
        "FLOP",
        "operations of the prefill",
        unit=Unit.FLOP,
        symbol="F",
        formula="2·N·n + head + attention",
        inputs=("prefill_parameters", "prompt_tokens", "head_flop", "attention_flop"),
        **_ARITHMETIC,
    )
    weight_bytes: int | None = figure("weights", "weights one step reads", unit=Unit.BYTES, symbol="W", **_ARITHMETIC)
    read_gb_per_s: float | None = figure(
        "B",
        "rate at which this box read the model's own weights around this point: the better of before and after it",
        unit=Unit.GB_PER_SECOND,
        symbol="B",
    )
    peak_gflop_per_s: float | None = figure(
        "C",
        "rate of a large matrix product of the model's own shape when the run began",
        unit=Unit.GFLOP_PER_SECOND,
        symbol="C",
    )
    resident_bytes: int | None = figure(
        "resident", "memory of the process at its peak during this point", unit=Unit.BYTES
    )
    predicted_resident_bytes: int | None = figure(
        "predicted resident", "memory predicted before loading", unit=Unit.BYTES, **_ARITHMETIC
    )

    prefill_parameters: int | None = figure(
        "N",
        "parameters each prompt token is multiplied by, without the output head",
        unit=Unit.PARAMETERS,
        symbol="N",
        **_ARITHMETIC,
    )
    head_flop: int | None = figure(
        "head FLOP", "operations of the output head, for the last position only", unit=Unit.FLOP, **_ARITHMETIC
    )
    attention_flop: int | None = figure(
        "attention FLOP", "operations of attention, 4·heads·head_dim a layer and pair", unit=Unit.FLOP, **_ARITHMETIC
    )
    cache_bytes: int | None = figure(
        "cache/step",
        "cache one step reads at the middle step",
        unit=Unit.BYTES,
        symbol="k·t",
        in_batch={"meaning": "cache of all sequences one step reads at the middle step", "symbol": "b·k·t"},
        **_ARITHMETIC,
    )
    ceiling_read_gb_per_s: float | None = figure(
        "B of ceiling", "the read rate the ceiling rests on", unit=Unit.GB_PER_SECOND, symbol="B"
    )
    read_before_gb_per_s: float | None = figure("B before", "the read rate before this point", unit=Unit.GB_PER_SECOND)
    read_after_gb_per_s: float | None = figure("B after", "the read rate after this point", unit=Unit.GB_PER_SECOND)
    calibrated_gb_per_s: float | None = figure(
        "B calibrated", "the read rate of this box's last probe", unit=Unit.GB_PER_SECOND
    )
    vendor_gb_per_s: float | None = figure(
        "B vendor", "the bandwidth printed for the track's device", unit=Unit.GB_PER_SECOND, origin=Origin.VENDOR
    )

    step_ms: float | None = figure(
        "step ms", "time of a decode step of all sequences; median of the steps", unit=Unit.MILLISECONDS, symbol="step"
    )
    prefill_ms: float | None = figure(
        "prefill ms", "prefill of all sequences of the batch, in as many passes as memory asks", unit=Unit.MILLISECONDS
    )
    step_flop: int | None = figure(
        "FLOP/step", "operations of one step of all sequences", unit=Unit.FLOP, symbol="F", **_ARITHMETIC
    )
    experts_touched: float | None = figure(
        "experts touched", "experts of a layer that one step read, counted at the router; mean of the layers"
    )
    experts_expected: float | None = figure(
        "experts expected",
        "experts of a layer that one step reads where every token chooses uniformly",
        formula="E·(1 − (1 − e/E)^b)",
        inputs=("batch",),
        **_ARITHMETIC,
    )
    memory_needed_bytes: int | None = figure(
        "memory needed",
        "weights and every sequence's cache at its longest",
        unit=Unit.BYTES,
        formula="weights + b·k·context",
        **_ARITHMETIC,
    )
    few_rows_gflop_per_s: float | None = figure(
        "C of b rows",
        "rate at which this box's last probe multiplied as many rows as there are sequences",
        unit=Unit.GFLOP_PER_SECOND,
        symbol="C_b",
    )
    sitting: int = field(
        default=1,
        metadata=described("sitting", "which sitting of the run measured it: 1 the first, 2 the first resumed"),
    )
    judgement: str | None = figure(
        "judged", "ok, noisy, drifting, implausibly low, disturbed or above ceiling: the gravest of the flags' reasons"
    )
    dropped: int | None = figure(
        "dropped",
        "repeats dropped before those measured: each more than 5 % slower than the one after it",
        in_batch={"meaning": "steps dropped before those measured: each more than 5 % slower than the one after it"},
        **_ARITHMETIC,
    )
    ttft_low_ms: float | None = interval("TTFT from", "TTFT", "low")
    ttft_high_ms: float | None = interval("TTFT to", "TTFT", "high")
    tpot_low_ms: float | None = interval("TPOT from", "TPOT", "low")
    tpot_high_ms: float | None = interval("TPOT to", "TPOT", "high")
    stolen_share: float | None = figure(
        "stolen", "share of all cores the hypervisor took for others during the point", unit=Unit.SHARE
    )
    swapped_bytes: int | None = figure("swapped", "bytes that went to or from swap during the point", unit=Unit.BYTES)
    clock_share: float | None = figure(
        "clock",
        "the processor's clock at the end of the point, as a share of the highest seen in this run",
        unit=Unit.SHARE,
    )
    discarded: int | None = figure(
        "discarded",
        "timings discarded and taken again, because the process or the machine stood still meanwhile",
        **_ARITHMETIC,
    )

    predicted_ttft_low_ms: float | None = predicted_end("TTFT from", "TTFT", "low")
    predicted_ttft_high_ms: float | None = predicted_end("TTFT to", "TTFT", "high")
    predicted_tpot_low_ms: float | None = predicted_end("TPOT from", "TPOT", "low")
    predicted_tpot_high_ms: float | None = predicted_end("TPOT to", "TPOT", "high")
    extrapolated_from: str | None = figure(
        "extrapolated from", "slices from whose times the whole model's follow; memory and B are those of the larger"
    )
    whole_resident_bytes: int | None = figure(
        "whole's memory",
        "memory of a run of the whole model at its peak: the slice's, and weights and caches of the layers it lacks",
        unit=Unit.BYTES,
        **_ARITHMETIC,
    )
    predicted_from: str | None = figure(
        "predicted from", "what the predictions rest on; after a semicolon, what makes them doubtful"
    )
    timed_by: str | None = figure("timed by", "whose clock the phases are by, where a server ran the model")
    queue_ms: float | None = figure(
        "queue ms", "before the prefill began: queueing, tokenising, and the network; median", unit=Unit.MILLISECONDS
    )
    client_ttft_ms: float | None = figure(
        "client TTFT",
        "from sending a request to its first usable token, by the client; best request",
        unit=Unit.MILLISECONDS,
    )
    client_tpot_ms: float | None = figure(
        "client TPOT", "time per output token after the first, by the client; best request", unit=Unit.MILLISECONDS
    )
    end_to_end_ms: float | None = figure(
        "end to end", "from sending a request to its last token, by the client; median", unit=Unit.MILLISECONDS
    )
    output_tokens_per_s: float | None = figure(
        "output tok/s", "all output tokens over the whole time of their requests", unit=Unit.TOKENS_PER_SECOND
    )
    mean_streams: float | None = figure("streams", "requests under way at a moment, on average")
    arrivals_per_s: float | None = figure("arrivals/s", "requests sent a second; empty where all were sent at once")
    goodput_per_s: float | None = figure("good/s", "requests a second that kept within the limits of TTFT and TPOT")
    goodput_share: float | None = figure(
        "good", "share of the requests that kept within the limits of TTFT and TPOT", unit=Unit.SHARE
    )
    cached_tokens: int | None = figure(
        "cached", "prompt tokens that the server took from a cache; the most of any request", unit=Unit.TOKENS
    )
    client_lag_ms: float | None = figure(
        "client late", "how late the client ran: 99th percentile", unit=Unit.MILLISECONDS
    )
    depth_tokens: int | None = figure(
        "depth",
        "tokens already in the cache before the prompt, or before the first of steps that were timed alone",
        unit=Unit.TOKENS,
        **_ARITHMETIC,
    )
    client_ttft_median_ms: float | None = figure(
        "client TTFT median", "median of the requests' TTFT by the client", unit=Unit.MILLISECONDS
    )
    client_tpot_median_ms: float | None = figure(
        "client TPOT median", "median of the requests' TPOT by the client", unit=Unit.MILLISECONDS
    )

    @property
    def is_steps_alone(self) -> bool:
        """Whether it is of decode steps that go on from a cache of `depth_tokens`, timed without a prompt."""
        return self.status == "ok" and self.depth_tokens is not None and self.ttft_ms is None

    def __post_init__(self) -> None:
        for name in _SIX_LABELS:
            if not str(getattr(self, name)).strip():
                raise ValueError(f"a row without its label {name!r} is not shown or stored")
        if self.context_tokens < 1 or self.batch < 1:
            raise ValueError("a row without its context and batch is not shown or stored")


def _columns() -> tuple[Column, ...]:
    types = {"str": str, "int": int, "float": float}
    return tuple(
        Column(f.name, types[str(f.type.__name__ if isinstance(f.type, type) else f.type).split(" ")[0]], **f.metadata)
        for f in fields(Row)
    )


COLUMNS: tuple[Column, ...] = _columns()
COLUMN: Mapping[str, Column] = {column.name: column for column in COLUMNS}
POINT_COLUMNS: Mapping[str, tuple[str, ...]] = {
    PREFILL_DECODE: ("prompt_tokens",),
    BATCH: ("prompt_tokens", "batch"),
    GAP: ("prompt_tokens", "batch"),
}
"""The columns that tell the points of a run apart."""


def point_of(row: Row) -> tuple[int, ...]:
    """Which point of its run a row is of."""
    return tuple(getattr(row, name) for name in POINT_COLUMNS[row.kind])


def column_of(name: str, kind: str) -> Column:
    """A column as rows of that kind have it."""
    column = COLUMN[name]
    return column.in_batch_sweep() if kind == BATCH else column
