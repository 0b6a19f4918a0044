"""Rows with planted costs, and what their ladder must find of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.fakes import a_row
from workbench.runs.ladder import Ladder
from workbench.runs.row import BATCH, Row

W, K, B, C = 2.4e9, 230_000, 24e9, 200e9
FIXED_S, PER_BYTE_S, PER_SEQUENCE_S = 0.012, 1.5 / B, 0.004
CONTEXTS, BATCHES = (16, 256, 1024, 4096), (1, 2, 4, 8)


def a_step(t: int, b: int = 1, extra_s: float = 0.0, **about: Any) -> Row:
    kt = K * t * b
    seconds = (W + kt) / B + FIXED_S + PER_BYTE_S * kt + PER_SEQUENCE_S * (b - 1) + extra_s
    beside: dict[str, Any] = {"read_gb_per_s": B / 1e9, "peak_gflop_per_s": C / 1e9, "kind": BATCH, "step_flop": 0}
    return a_row(
        prompt_tokens=t,
        context_tokens=t,
        batch=b,
        step_ms=seconds * 1e3,
        weight_bytes=int(W),
        cache_bytes=kt,
        bytes_per_step=int(W) + kt,
        **(beside | about),
    )


def a_prefill(n: int, c0: float = 0.02, c1: float = 1e-4, c2: float = 2e-8, **about: Any) -> Row:
    F = 1e9 * n + 1e5 * n * n
    seconds = max(W / B, F / C) + c0 + c1 * n + c2 * n * n
    return a_row(
        prompt_tokens=n,
        context_tokens=n,
        ttft_ms=seconds * 1e3,
        tpot_ms=100.0,
        weight_bytes=int(W),
        prefill_flop=int(F),
        peak_gflop_per_s=C / 1e9,
        **({"read_gb_per_s": B / 1e9} | about),
    )


def grid() -> Sequence[Row]:
    return [a_step(t, b) for t in CONTEXTS for b in BATCHES]


def seconds(ladder: Ladder) -> dict[str, float]:
    return {rung.name: rung.time.value for rung in ladder.terms}


def adds_up(ladder: Ladder) -> bool:
    total = ladder.ceiling.value + sum(rung.time.value for rung in ladder.terms)
    return total == pytest.approx(ladder.measured.value, rel=1e-12)
