"""What holds of every model on every box: drawn at random, the same draws each time."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.ceilings.random_models import (
    arithmetic_rates,
    bandwidths,
    batches,
    boxes,
    contexts,
    element_bytes,
    memories,
    models,
    shares,
)
from workbench.ceilings import decode, experts, kv_cache, memory_fit, prefill, roofline, split
from workbench.ceilings.batch import Limit, ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.latency import Stopwatch, latency
from workbench.models.model import Model
from workbench.quantity import Quantity

ROUNDING = 1e-5
"""Bytes of experts are whole: a rate may differ by a byte of the megabytes that the smallest model reads."""

every = settings(derandomize=True, deadline=None, max_examples=60)


@every
@given(models(), boxes, contexts, contexts, batches, element_bytes)
def test_a_ceiling_never_rises_with_context(model: Model, box: Box, t: int, further: int, b: int, size: float) -> None:
    now, later = ceiling(model, t, b, size, box), ceiling(model, t + further, b, size, box)
    assert later.tokens_per_second_each.value <= now.tokens_per_second_each.value
    assert later.memory_needed_bytes.value >= now.memory_needed_bytes.value


@every
@given(models(), boxes, contexts, batches, batches, element_bytes)
def test_a_larger_batch_slows_each_sequence_and_never_the_total(
    model: Model, box: Box, t: int, b: int, more: int, size: float
) -> None:
    few, many = ceiling(model, t, b, size, box), ceiling(model, t, b + more, size, box)
    assert many.tokens_per_second_each.value <= few.tokens_per_second_each.value
    assert many.tokens_per_second_total.value >= few.tokens_per_second_total.value * (1 - ROUNDING)
    assert many.memory_needed_bytes.value >= few.memory_needed_bytes.value


@every
@given(models(), arithmetic_rates, contexts, batches, batches, element_bytes, st.floats(1.001, 1e3))
def test_the_total_is_flat_once_arithmetic_binds(
    model: Model, C: Quantity, t: int, b: int, more: int, size: float, past: float
) -> None:
    ridge = roofline.decode_intensity(model, t, size, b).value / past
    box = Box(replace(C, name="bandwidth", value=C.value / ridge), C)
    few, many = (ceiling(model, t, sequences, size, box) for sequences in (b, b + more))
    assert few.bound is many.bound is Limit.ARITHMETIC
    assert many.tokens_per_second_total.value == pytest.approx(few.tokens_per_second_total.value, rel=ROUNDING)


@every
@given(models())
def test_a_token_reads_no_more_than_is_resident(model: Model) -> None:
    W = decode.weights_read(model).value
    assert pytest.approx(model.read_bytes_per_token, abs=len(model.groups) + 1) == W
    assert model.resident_bytes >= W
    assert model.read_parameters <= model.parameters


@every
@given(models(), batches, batches)
def test_weights_read_grow_with_the_batch_up_to_all_that_can_be_read(model: Model, b: int, more: int) -> None:
    few, many = decode.weights_read(model, b).value, decode.weights_read(model, b + more).value
    rows = (b + more) * model.embedding_row_bytes
    assert few <= many <= model.shared_read_bytes + model.routed_expert_bytes + rows
    assert many - rows <= model.resident_bytes


@every
@given(models(), batches)
def test_experts_touched_lie_between_those_of_one_token_and_all(model: Model, b: int) -> None:
    touched = experts.touched(model, b)
    assert (touched is None) is (model.routed_expert_bytes == 0)
    if touched is not None:
        assert model.experts_used * (1 - 1e-12) <= touched.value <= model.experts
        assert touched.value <= b * model.experts_used * (1 + 1e-12)


@every
@given(models(), contexts, contexts, batches, element_bytes)
def test_a_cache_grows_with_the_context_and_in_proportion_to_the_batch(
    model: Model, t: int, further: int, b: int, size: float
) -> None:
    one = kv_cache.cache_bytes(model, t, size)
    assert one <= kv_cache.cache_bytes(model, t + further, size)
    assert kv_cache.cache_bytes(model, t, size, b) == b * one


@every
@given(models(), contexts, element_bytes, bandwidths, bandwidths, shares, shares)
def test_a_split_lies_between_its_two_memories(
    model: Model, t: int, size: float, one: Quantity, other: Quantity, f: float, g: float
) -> None:
    slow, fast = sorted((one, other), key=lambda B: B.value)
    f, g = sorted((f, g))
    less, more = (split.split(model, t, size, fast, slow, share) for share in (f, g))
    all_fast, all_slow = (split.split(model, t, size, fast, slow, share) for share in (0.0, 1.0))
    rates = [s.tokens_per_second.value for s in (all_slow, more, less, all_fast)]
    assert rates == pytest.approx(sorted(rates), rel=1e-12)
    for end, B in ((all_fast, fast), (all_slow, slow)):
        alone = ceiling(model, t, 1, size, Box(B)).tokens_per_second_each.value
        assert end.tokens_per_second.value == pytest.approx(alone)
    times = less.seconds_per_step.value / all_fast.seconds_per_step.value
    assert less.slowdown.value == pytest.approx(times)


@every
@given(models(), arithmetic_rates, bandwidths, contexts, batches, element_bytes)
def test_what_is_attainable_is_under_both_roofs(
    model: Model, C: Quantity, B: Quantity, t: int, b: int, size: float
) -> None:
    I = roofline.decode_intensity(model, t, size, b)
    reach = roofline.attainable(I, C, B).value
    assert reach <= C.value
    assert reach <= B.value * I.value
    assert reach in (C.value, B.value * I.value)
    seconds = decode.step_seconds(model, t, size, B, C, b).value
    assert decode.step_flop(model, t, b).value / seconds == pytest.approx(reach)


@every
@given(models(), arithmetic_rates, bandwidths, contexts, batches, element_bytes)
def test_beyond_the_ridge_arithmetic_binds_and_before_it_bytes(
    model: Model, C: Quantity, B: Quantity, t: int, b: int, size: float
) -> None:
    ratio = roofline.decode_intensity(model, t, size, b).value / roofline.ridge(C, B).value
    assume(abs(ratio - 1) > 1e-9)
    assert (ceiling(model, t, b, size, Box(B, C)).bound is Limit.ARITHMETIC) is (ratio > 1)


@every
@given(models(), arithmetic_rates, bandwidths, contexts, element_bytes)
def test_the_batch_at_the_ridge_is_the_first_beyond_it(
    model: Model, C: Quantity, B: Quantity, t: int, size: float
) -> None:
    first = roofline.batch_at_ridge(model, t, size, C, B)
    ridge = roofline.ridge(C, B).value

    def intensity(b: int) -> float:
        return roofline.decode_intensity(model, t, size, b).value

    if first is None:
        assert intensity(roofline.LARGEST_BATCH) < ridge
    else:
        assert intensity(first) >= ridge
        assert first == 1 or intensity(first - 1) < ridge


@every
@given(models(), arithmetic_rates, bandwidths, st.integers(1, 200_000), st.integers(0, 200_000))
def test_a_longer_prompt_never_takes_less(model: Model, C: Quantity, B: Quantity, n: int, further: int) -> None:
    shorter, longer = (prefill.seconds(model, length, B, C) for length in (n, n + further))
    assert longer.value >= shorter.value
    assert shorter.value == max(prefill.flop(model, n).value / C.value, decode.weights_read(model, n).value / B.value)


@every
@given(models(), arithmetic_rates, bandwidths)
def test_at_the_crossover_the_two_clocks_agree(model: Model, C: Quantity, B: Quantity) -> None:
    found = prefill.crossover(model, B, C)
    N = prefill.multiplied_parameters(model)

    def turned(n: int) -> bool:
        return 2 * N * n / C.value >= decode.weights_read(model, n).value / B.value

    if found is None:
        assert not turned(prefill.LONGEST_PROMPT)
    else:
        n = math.ceil(found.value)
        assert turned(n + 1)
        assert n <= 2 or not turned(n - 2)


@every
@given(models(), batches, element_bytes, memories)
def test_the_longest_context_is_the_last_that_fits(model: Model, b: int, size: float, M: Quantity) -> None:
    longest = memory_fit.longest_context(model, size, b, M.value)

    def fits(t: int) -> bool:
        return memory_fit.needed(model, t, size, b).value <= M.value

    if longest is None:
        assert model.context_limit is None
        assert fits(memory_fit.LONGEST_CONTEXT)
    else:
        assert longest == 0 or fits(longest)
        assert longest == model.context_limit or not fits(longest + 1)


@every
@given(models(), contexts, element_bytes, memories)
def test_the_largest_batch_is_the_last_that_fits(model: Model, t: int, size: float, M: Quantity) -> None:
    most = memory_fit.largest_batch(model, t, size, M.value)

    def fits(b: int) -> bool:
        return memory_fit.needed(model, t, size, b).value <= M.value

    if most is None:
        assert fits(10**6)
        assert kv_cache.cache_bytes(model, t, size) == 0
    else:
        assert most == 0 or fits(most)
        assert not fits(most + 1)


@every
@given(models(), contexts, batches, element_bytes, memories)
def test_a_fit_adds_up_and_agrees_with_the_ceiling(model: Model, t: int, b: int, size: float, M: Quantity) -> None:
    found = memory_fit.fit(model, t, b, size, M)
    assert found.weight_bytes.value + found.kv_bytes.value == found.memory_needed_bytes.value
    assert found.fits is (found.free_bytes.value >= 0)
    there = ceiling(model, t, b, size, Box(Quantity("B", 1e9, M.unit, M.origin), M=M))
    assert there.fits is found.fits
    assert (there.bound is Limit.MEMORY) is not found.fits


@every
@given(models())
def test_deviations_of_the_shortcut_sum_to_the_count_less_the_shortcut(model: Model) -> None:
    found = experts.shortcut(model)
    assert found.counted.value == model.read_bytes_per_token
    difference = found.counted.value - found.shortcut.value
    total = math.fsum(deviation.bytes for deviation in found.deviations)
    assert total == pytest.approx(difference, abs=len(model.groups) + 1, rel=1e-6)
    sizes = [abs(deviation.bytes) for deviation in found.deviations]
    assert sizes == sorted(sizes, reverse=True)


seconds = st.floats(1e-3, 1e4)


@every
@given(st.integers(1, 10**6), st.integers(2, 10**5), seconds, seconds, st.floats(0, 0.99))
def test_identities_of_one_request(n: int, n_output: int, ttft: float, decoding: float, waiting: float) -> None:
    read = Stopwatch(n, n_output, ttft, ttft + decoding, waiting * ttft)
    found = latency(read)
    end, tpot = found.end_to_end_s.value, found.tpot_ms.value / 1e3
    assert end == pytest.approx(found.ttft_s.value + tpot * (n_output - 1))
    assert found.decode_tokens_per_s.value * tpot == pytest.approx(1)
    assert found.prompt_tokens_per_s.value * (ttft - read.waited_s) == pytest.approx(n)
    assert found.stopwatch_tokens_per_s.value * end == pytest.approx(n_output)
    # One token of the answer belongs to prefill: the stopwatch is slower wherever TTFT is longer than one step.
    assume(abs(ttft - tpot) > 1e-9 * ttft)
    assert (found.stopwatch_tokens_per_s.value < found.decode_tokens_per_s.value) is (ttft > tpot)
