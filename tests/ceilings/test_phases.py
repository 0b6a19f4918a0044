"""The two phases: one pass of each kind, the prompt length at which arithmetic takes over, and the small model's."""

import pytest

from tests.ceilings.figures import DENSE, FP16, FP32, GB, MIXTURE, Figures, bandwidth, box, digits_of, exact, small
from workbench.ceilings import decode, kv_cache, prefill
from workbench.ceilings.box import Box
from workbench.ceilings.prefill import Clock, prefill_ceiling
from workbench.quantity import Origin, Quantity, Unit

PROMPT = 2_048
C_SMALL = Quantity("C", 741e9, Unit.FLOP_PER_SECOND, Origin.MEASURED, "C")
# A decode step of 87.6 ms over the weights is the bandwidth that the timed run reached.
B_SMALL = Quantity("B", 2.384e9 / 0.0876, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B")


def blocks() -> int:
    return prefill.multiplied_parameters(exact(DENSE))


def step_gflop(t: int) -> float:
    return decode.attention_flop(small(), t) / 1e9


def per_prompt_token() -> float:
    return 2 * prefill.multiplied_parameters(small()) / 1e9


def per_step() -> float:
    return decode.step_flop(small(), 0).value / 1e9


FIGURES: Figures = {
    "prefill of 2,048, TFLOP in the blocks": ("28.5", lambda: 2 * blocks() * PROMPT / 1e12),
    "decode, GFLOP in the blocks": ("13.9", lambda: 2 * blocks() / 1e9),
    "decode, GB of weights": ("4.67", lambda: decode.weights_read(exact(DENSE)).value / GB),
    # Printed as 4.67 in both columns: a prompt looks up its 2,048 embedding rows, 4.7 MB more.
    "prefill, GB of weights": ("4.68", lambda: decode.weights_read(exact(DENSE), PROMPT).value / GB),
    "prefill, MB of cache written": (
        "302",
        lambda: prefill_ceiling(exact(DENSE), PROMPT, FP16, box(273)).kv_bytes_written.value / 1e6,
    ),
    "decode, bytes of cache written": ("147,456", lambda: kv_cache.cache_bytes(exact(DENSE), 1, FP16)),
    "decode, MB of cache read": ("302", lambda: kv_cache.cache_bytes(exact(DENSE), PROMPT, FP16) / 1e6),
    "Qwen3-0.6B, parameters read": ("596,049,920", lambda: small().read_parameters),
    "Qwen3-0.6B, GB of float32 weights": ("2.384", lambda: decode.weights_read(small()).value / GB),
    "Qwen3-0.6B, GFLOP a decode token": ("1.2", per_step),
    "Qwen3-0.6B, ms of a decode token's arithmetic": ("1.6", lambda: per_step() / 741 * 1e3),
    "Qwen3-0.6B, GFLOP a prompt token": ("0.88", per_prompt_token),
    "Qwen3-0.6B, GFLOP/s of the prompt of 1,024 in 1,217 ms": ("741", lambda: 1_024 * per_prompt_token() / 1.217),
    "Qwen3-0.6B, GB/s of the one-token step": ("27.2", lambda: B_SMALL.value / GB),
    "Qwen3-0.6B, bytes of cache a token": ("229,376", lambda: kv_cache.cache_bytes(small(), 1, FP32)),
    # Printed 0.47 and under 1 ms, which count a multiply-add once; two operations each, as everywhere here.
    "Qwen3-0.6B, GFLOP of attention over 4,100": ("0.94", lambda: step_gflop(4_100)),
    "Qwen3-0.6B, ms of attention over 4,100": ("1.3", lambda: step_gflop(4_100) / 741 * 1e3),
    "the mixture's block parameters": ("2,730,702,848", lambda: prefill.multiplied_parameters(exact(MIXTURE))),
    "the mixture, GFLOP in the blocks": ("5.5", lambda: 2 * prefill.multiplied_parameters(exact(MIXTURE)) / 1e9),
    # Printed 40, the quotient of the rounded 5.5 and 13.9; the blocks alone are 39.3 per cent, with the head 40.2.
    "the mixture's blocks, per cent of the dense model's": (
        "39",
        lambda: 100 * prefill.multiplied_parameters(exact(MIXTURE)) / blocks(),
    ),
    "the mixture with its head, per cent of the dense model": (
        "40",
        lambda: 100 * exact(MIXTURE).read_parameters / exact(DENSE).read_parameters,
    ),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_of_the_two_phases(figure: str) -> None:
    printed, computed = FIGURES[figure]
    assert digits_of(printed, computed()) == printed


def test_block_parameters_of_the_dense_model() -> None:
    assert blocks() == 6_946_075_648


def test_operations_of_the_blocks_differ_by_the_length_of_the_prompt() -> None:
    F = prefill.flop(exact(DENSE), PROMPT)
    parameters, n, head, attention = (figure.value for figure in F.inputs)
    assert F.value - head - attention == 2 * parameters * n == PROMPT * 2 * blocks()


def test_crossover_of_the_small_model_from_the_printed_inputs() -> None:
    W = Quantity("W", 2.384e9, Unit.BYTES, Origin.ASSUMED)
    N = Quantity("N", 0.88e9 / 2, Unit.PARAMETERS, Origin.ASSUMED)
    assert digits_of("74", prefill.crossover_tokens(W, N, bandwidth(27.2), C_SMALL).value) == "74"


def test_crossover_of_the_small_model_from_its_tensors() -> None:
    found = prefill.crossover(small(), B_SMALL, C_SMALL)
    assert found is not None
    assert digits_of("74", found.value) == "74"


@pytest.mark.parametrize(
    ("n", "clock"),
    [
        (1, Clock.BYTES),
        (16, Clock.BYTES),
        (64, Clock.BOTH),
        (74, Clock.BOTH),
        (256, Clock.MATHS),
        (1_024, Clock.MATHS),
        (4_096, Clock.MATHS),
    ],
)
def test_the_clocks_of_the_timed_prompts_trade_places_between_16_and_256(n: int, clock: Clock) -> None:
    found = prefill_ceiling(small(), n, FP32, Box(B_SMALL, C_SMALL))
    assert found.bound is clock
    assert found.arithmetic_seconds is not None
    assert found.seconds.value == max(found.arithmetic_seconds.value, found.bytes_seconds.value)


def test_more_tokens_touch_more_experts_so_a_mixtures_crossover_is_later_than_its_first_reads_say() -> None:
    model, B = exact(MIXTURE), bandwidth(273)
    C = Quantity("C", 100e12, Unit.FLOP_PER_SECOND, Origin.ASSUMED)
    found = prefill.crossover(model, B, C)
    assert found is not None
    n = round(found.value)
    assert n > decode.weights_read(model).value * C.value / (2 * prefill.multiplied_parameters(model) * B.value)
    W = decode.weights_read(model, n).value
    assert found.value == pytest.approx(W * C.value / (2 * prefill.multiplied_parameters(model) * B.value), rel=1e-3)


def test_without_c_a_prefill_has_its_bytes_clock_alone() -> None:
    found = prefill_ceiling(small(), 4_096, FP32, Box(B_SMALL))
    assert found.arithmetic_seconds is None
    assert found.crossover_tokens is None
    assert found.bound is Clock.BYTES
    assert found.seconds.value == found.bytes_seconds.value
