"""Levers: each ceiling that one states is reached by computing it anew, and what helps is what the bytes say."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.ceilings.figures import (
    DENSE,
    FP16,
    GPT_OSS,
    MIXTURE,
    MODELS,
    arithmetic_rate,
    bandwidth,
    box,
    exact,
    memory,
)
from tests.ceilings.random_models import batches, boxes, contexts, element_bytes, models
from workbench.ceilings import decode, kv_cache
from workbench.ceilings.batch import ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.levers import ACCEPTANCE, Lever, expected_tokens, levers
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit

SPARK = Box(bandwidth(273), arithmetic_rate(100), memory(128))
T = 4_096


def pulled(model: Model, start: str, t: int = T, b: int = 1, there: Box = SPARK) -> Lever:
    """The one lever whose name starts so."""
    (found,) = [lever for lever in levers(model, t, b, FP16, there) if lever.lever.startswith(start)]
    return found


def rate(model: Model, t: int = T, b: int = 1, size: float = FP16, there: Box = SPARK) -> float:
    return ceiling(model, t, b, size, there).tokens_per_second_each.value


def times(figure: Quantity, factor: float) -> Quantity:
    return replace(figure, value=figure.value * factor)


def test_every_lever_is_pulled_once() -> None:
    names = [lever.lever for lever in levers(exact("Qwen3-8B"), T, 1, FP16, SPARK)]
    assert len(names) == len(set(names))
    assert sorted(names) == [
        "4 drafted tokens a pass, 70% accepted (assumed)",
        "batch of 4, all sequences together",
        "cache in q4_0",
        "cache in q8_0",
        "each layer split over two such devices",
        "half the active parameters, 3.78 billion",
        "half the context, 2,048 tokens",
        "twice the arithmetic: clock, units or kernel",
        "twice the bandwidth",
        "weights in Q3_K",
    ]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("kind", "size"), [("q8_0", 34 / 32), ("q4_0", 18 / 32)])
def test_a_smaller_cache_is_the_ceiling_with_it(name: str, kind: str, size: float) -> None:
    found = pulled(exact(name), f"cache in {kind}")
    assert found.tokens_per_second.value == rate(exact(name), size=size)
    assert found.factor.value > 1.0005


@pytest.mark.parametrize("name", MODELS)
def test_half_the_context_is_the_ceiling_there(name: str) -> None:
    assert pulled(exact(name), "half the context").tokens_per_second.value == rate(exact(name), T // 2)


@pytest.mark.parametrize("name", MODELS)
def test_twice_the_bandwidth_doubles_what_waits_for_bytes(name: str) -> None:
    found = pulled(exact(name), "twice the bandwidth")
    assert found.tokens_per_second.value == rate(exact(name), there=replace(SPARK, B=times(SPARK.B, 2)))
    assert found.factor.value == pytest.approx(2)


@pytest.mark.parametrize("name", MODELS)
def test_more_arithmetic_helps_nothing_that_waits_for_bytes(name: str) -> None:
    """Twice the peak and the same bandwidth generate text at the same speed for one user."""
    found = pulled(exact(name), "twice the arithmetic")
    assert found.factor.value == 1
    assert "waits for the bytes" in found.why


def test_more_arithmetic_helps_what_waits_for_it() -> None:
    slow = replace(SPARK, C=arithmetic_rate(0.1))
    found = pulled(exact(DENSE), "twice the arithmetic", there=slow)
    assert found.factor.value == pytest.approx(2)
    assert found.why == "the step waits for its arithmetic here"
    assert pulled(exact(DENSE), "twice the bandwidth", there=slow).factor.value == 1


def test_without_an_arithmetic_rate_that_lever_is_not_there() -> None:
    assert not [lever for lever in levers(exact(DENSE), T, 1, FP16, box(273)) if "arithmetic" in lever.lever]


@pytest.mark.parametrize("name", MODELS)
def test_a_larger_batch_is_the_total_of_four_times_as_many(name: str) -> None:
    found = pulled(exact(name), "batch of 8", b=2)
    there = ceiling(exact(name), T, 8, FP16, SPARK)
    alone = ceiling(exact(name), T, 2, FP16, SPARK)
    assert found.tokens_per_second.value == pytest.approx(there.tokens_per_second_total.value)
    assert found.factor.value == pytest.approx(
        there.tokens_per_second_total.value / alone.tokens_per_second_total.value
    )


def test_a_larger_batch_is_one_that_memory_holds() -> None:
    one = pulled(exact(GPT_OSS), "a larger batch", t=131_072, there=replace(SPARK, M=memory(70)))
    assert "memory holds a batch of 1" in one.why
    assert one.factor.value <= 1.0005
    two = pulled(exact(GPT_OSS), "batch of 2", t=131_072, there=replace(SPARK, M=memory(75)))
    assert "memory holds no more" in two.why
    none = pulled(exact(GPT_OSS), "a larger batch", there=replace(SPARK, M=memory(32)))
    assert "no sequence of this context" in none.why


@pytest.mark.parametrize("name", [DENSE, MIXTURE])
def test_coarser_weights_scale_what_is_read_of_them(name: str) -> None:
    model, F16 = exact(name), exact(name).in_dtype("float16")
    W, kt = decode.weights_read(F16).value, kv_cache.cache_bytes(F16, T, FP16)
    bits = 8 * W / F16.read_parameters
    for kind, smaller in (("Q8_0", 34 / 32 * 8), ("Q4_K", 144 / 256 * 8)):
        expected = SPARK.B.value / (W * smaller / bits + kt)
        assert pulled(F16, f"weights in {kind}").tokens_per_second.value == pytest.approx(expected, rel=1e-6)
    assert not [lever for lever in levers(model, T, 1, FP16, SPARK) if lever.lever == "weights in Q8_0"]


@pytest.mark.parametrize("name", MODELS)
def test_half_the_parameters_halve_the_weights_read(name: str) -> None:
    model = exact(name)
    W, kt = decode.weights_read(model).value, kv_cache.cache_bytes(model, T, FP16)
    found = pulled(model, "half the active parameters")
    assert found.tokens_per_second.value == pytest.approx(SPARK.B.value / (W / 2 + kt), rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_drafted_tokens_share_one_pass_over_the_cache(name: str) -> None:
    model = exact(name)
    moved = decode.weights_read(model, 5).value + kv_cache.cache_bytes(model, T, FP16)
    tokens = sum(ACCEPTANCE.value**i for i in range(5))
    found = pulled(model, "4 drafted tokens")
    assert found.tokens_per_second.value == pytest.approx(tokens * SPARK.B.value / moved)
    assert ("touch more experts" in found.why) is (name != DENSE)


@pytest.mark.parametrize(("a", "d", "tokens"), [(0.0, 4, 1.0), (1.0, 4, 5.0), (0.5, 1, 1.5), (0.7, 4, 2.7731)])
def test_expected_tokens_of_a_pass(a: float, d: int, tokens: float) -> None:
    assert expected_tokens(a, d) == pytest.approx(tokens)


def test_two_devices_add_their_bandwidths() -> None:
    found = pulled(exact(MIXTURE), "each layer split")
    assert found.factor.value == pytest.approx(2)
    assert "gain nothing" in found.why


@settings(derandomize=True, deadline=None, max_examples=60)
@given(models(), contexts, batches, element_bytes, boxes)
def test_of_every_model_and_box(model: Model, t: int, b: int, size: float, there: Box) -> None:
    found = levers(model, t, b, size, there)
    factors = [lever.factor.value for lever in found]
    assert factors == sorted(factors, reverse=True)
    now = ceiling(model, t, b, size, there)
    for lever in found:
        assert lever.tokens_per_second.unit is Unit.TOKENS_PER_SECOND
        assert lever.why
        together = lever.lever.startswith("batch of")
        before = now.tokens_per_second_total if together else now.tokens_per_second_each
        assert lever.factor.value == pytest.approx(lever.tokens_per_second.value / before.value)
    pays = [lever for lever in found if not lever.lever.startswith("4 drafted")]
    assert all(lever.factor.value >= 1 - 1e-5 for lever in pays), "only drafting can cost more than it yields"
