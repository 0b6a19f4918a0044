"""The columns that timings fill in a row: the best of them, their median, and the rates these make."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from workbench.runs.row import Row


def with_prefills(row: Row, seconds: Sequence[float]) -> Row:
    """The row with the times of its prefills, in seconds each; their rates are of the best, as in n / TTFT."""
    TTFT = min(seconds)
    return replace(
        row,
        ttft_ms=TTFT * 1e3,
        ttft_median_ms=median(seconds) * 1e3,
        prompt_tokens_per_s=row.batch * row.prompt_tokens / TTFT,
        prefill_gflop_per_s=(row.prefill_flop or 0) / TTFT / 1e9,
    )


def with_steps(row: Row, seconds: Sequence[float]) -> Row:
    """The row with the times of its steps of all sequences together, in seconds each; rates are of the median step."""
    step = median(seconds)
    return replace(
        row,
        tpot_ms=min(seconds) * 1e3,
        tpot_median_ms=step * 1e3,
        step_ms=step * 1e3,
        decode_tokens_per_s=1 / step,
        total_tokens_per_s=row.batch / step,
    )
