"""The two clocks, against figures that the texts print for Qwen3-0.6B and Qwen3-8B shapes."""

import pytest

from workbench.ceilings import decode, kv_cache, prefill
from workbench.models.resolve import resolve
from workbench.quantity import Origin, Quantity, Unit

FP32 = 4


def rate(value: float, unit: Unit) -> Quantity:
    return Quantity("rate", value, unit, Origin.ASSUMED)


B = rate(27.2e9, Unit.BYTES_PER_SECOND)
C = rate(741e9, Unit.FLOP_PER_SECOND)


def test_bytes_of_a_step_grow_with_the_context() -> None:
    model = resolve("qwen3-0.6b").in_dtype("float32")
    assert decode.bytes_per_step(model, 0, FP32).value == 2_384_199_680
    assert kv_cache.cache_bytes(model, 1, FP32) == 229_376
    assert decode.bytes_per_step(model, 4_100, FP32).value == 2_384_199_680 + 4_100 * 229_376


def test_operations_are_two_for_each_multiply_and_add() -> None:
    model = resolve("qwen3-0.6b")
    assert decode.attention_flop(model, 4_100) == 4 * 28 * 16 * 128 * 4_100
    assert decode.step_flop(model, 0).value == 2 * 596_049_920
    assert 2 * prefill.multiplied_parameters(model) == pytest.approx(0.88e9, rel=0.005)


def test_prefill_attends_to_what_came_before_and_runs_the_head_once() -> None:
    model = resolve("qwen3-0.6b")
    n = 5
    attention = sum(decode.attention_flop(model, seen) for seen in range(1, n + 1))
    assert prefill.attention_flop(model, n) == attention
    head = 2 * 151_936 * 1_024
    assert prefill.flop(model, n).value == 2 * prefill.multiplied_parameters(model) * n + head + attention


def test_sliding_layers_attend_to_their_window_only() -> None:
    model = resolve("gpt-oss-120b")
    n = 300
    assert prefill.attention_flop(model, n) == sum(decode.attention_flop(model, seen) for seen in range(1, n + 1))


def test_the_slower_clock_sets_the_time() -> None:
    model = resolve("qwen3-0.6b").in_dtype("float32")
    W = model.read_bytes_per_token
    assert prefill.seconds(model, 1, B, C).value == pytest.approx(W / B.value)
    assert prefill.seconds(model, 4_096, B, C).value == pytest.approx(prefill.flop(model, 4_096).value / C.value)
    assert decode.step_seconds(model, 100, FP32, B, C).value == pytest.approx((W + 100 * 229_376) / B.value)
