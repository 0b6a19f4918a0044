"""Ceilings of a batch: the calculator's second block, the batch table, and one step of 32 sequences."""

import pytest

from tests.ceilings.figures import (
    DENSE,
    FP16,
    FP32,
    GB,
    GPT_OSS,
    MIXTURE,
    Figures,
    arithmetic_rate,
    bandwidth,
    box,
    cells,
    digits_of,
    exact,
    memory,
    rounded,
    small,
)
from workbench.ceilings import decode, kv_cache
from workbench.ceilings.batch import Ceiling, Limit, ceiling
from workbench.ceilings.box import Box
from workbench.models.model import Model

CONTEXT = 4_096

# Sequences: each / all together, of Qwen3-8B, Qwen3-30B-A3B and gpt-oss-120b.
EACH = {
    1: ("51.7", "117.5", "72.8"),
    4: ("38.5", "42.5", "28.5"),
    16: ("19.0", "14.7", "9.6"),
    64: ("6.3", "6.2", "4.2"),
}
TOTAL = {1: ("52", "118", "73"), 4: ("154", "170", "114"), 16: ("305", "235", "153"), 64: ("403", "398", "270")}
# Where the files' exact bytes come out another last digit than the calculator's, which are rounded to a MB.
EXACT_EACH = {(MIXTURE, 1): "117.6"}

# Sequences of Qwen3-8B: GB read, each, all together, GB resident.
BATCHES = {
    1: ("5.28", "51.7", "52", "5.6"),
    4: ("7.09", "38.5", "154", "7.4"),
    16: ("14.34", "19.0", "305", "14.7"),
    64: ("43.33", "6.3", "403", "43.7"),
}
COLUMNS = ("read", "each", "total", "resident")


def at(model: Model, b: int) -> Ceiling:
    return ceiling(model, CONTEXT, b, FP16, box(273))


@pytest.mark.parametrize(("name", "b", "printed"), cells(EACH))
def test_each_sequence_from_the_calculators_own_inputs(name: str, b: int, printed: str) -> None:
    assert digits_of(printed, at(rounded(name), b).tokens_per_second_each.value) == printed


@pytest.mark.parametrize(("name", "b", "printed"), cells(EACH))
def test_each_sequence_from_the_files_bytes(name: str, b: int, printed: str) -> None:
    found = at(exact(name), b).tokens_per_second_each.value
    assert digits_of(printed, found) == EXACT_EACH.get((name, b), printed)


@pytest.mark.parametrize(("name", "b", "printed"), cells(TOTAL))
def test_all_sequences(name: str, b: int, printed: str) -> None:
    for model in (rounded(name), exact(name)):
        assert digits_of(printed, at(model, b).tokens_per_second_total.value) == printed


@pytest.mark.parametrize(("column", "b", "printed"), cells(BATCHES, COLUMNS))
def test_batch_table_of_the_dense_model(column: str, b: int, printed: str) -> None:
    found = at(exact(DENSE), b)
    figure = {
        "read": found.bytes_per_step.value / GB,
        "each": found.tokens_per_second_each.value,
        "total": found.tokens_per_second_total.value,
        "resident": found.memory_needed_bytes.value / GB,
    }[column]
    assert digits_of(printed, figure) == printed


def attention(t: int) -> float:
    return 32 * decode.attention_flop(small(), t)


# One step of 32 sequences of Qwen3-0.6B in float32, 2 and 256 tokens in each.
STEP_OF_32: Figures = {
    "weights, GB": ("2.384", lambda: decode.weights_read(small(), 32).value / GB),
    "cache at 2, GB": ("0.015", lambda: kv_cache.cache_bytes(small(), 2, FP32, 32) / GB),
    "cache at 256, GB": ("1.879", lambda: kv_cache.cache_bytes(small(), 256, FP32, 32) / GB),
    "weight multiplies, GFLOP": ("38.1", lambda: decode.step_flop(small(), 0, 32).value / 1e9),
    # Printed 0.007 and 0.94, which count a multiply-add once; two operations each, as everywhere here.
    "attention at 2, GFLOP": ("0.015", lambda: attention(2) / 1e9),
    "attention at 256, GFLOP": ("1.88", lambda: attention(256) / 1e9),
    "8 sequences' multiplies, GFLOP": ("9.5", lambda: decode.step_flop(small(), 0, 8).value / 1e9),
    "8 sequences' multiplies at 741 GFLOP/s, ms": ("13", lambda: decode.step_flop(small(), 0, 8).value / 741e9 * 1e3),
}


@pytest.mark.parametrize("figure", STEP_OF_32)
def test_one_step_of_32_sequences(figure: str) -> None:
    printed, computed = STEP_OF_32[figure]
    assert digits_of(printed, computed()) == printed


def test_a_step_of_32_is_its_multiplies_and_its_attention() -> None:
    assert decode.step_flop(small(), 256, 32).value == 32 * 2 * 596_049_920 + attention(256)


def test_bytes_of_32_sequences_nearly_double_between_2_and_256_tokens() -> None:
    few, many = (decode.bytes_per_step(small(), t, FP32, 32).value for t in (2, 256))
    assert digits_of("1.78", many / few) == "1.78"


def test_sixteen_conversations_total_about_six_times_one() -> None:
    one, sixteen = at(exact(DENSE), 1), at(exact(DENSE), 16)
    assert digits_of("14.3", sixteen.bytes_per_step.value / GB) == "14.3"
    assert digits_of("19", sixteen.tokens_per_second_each.value) == "19"
    assert digits_of("305", sixteen.tokens_per_second_total.value) == "305"
    assert digits_of("6", sixteen.tokens_per_second_total.value / one.tokens_per_second_total.value) == "6"


def test_a_batch_of_64_cuts_each_users_rate_by_eight() -> None:
    one, most = (at(exact(DENSE), b).tokens_per_second_each.value for b in (1, 64))
    assert digits_of("8", one / most) == "8"


def test_the_mixture_falls_below_the_dense_model_at_16_sequences() -> None:
    def lead(b: int) -> float:
        return at(exact(MIXTURE), b).tokens_per_second_each.value / at(exact(DENSE), b).tokens_per_second_each.value

    assert lead(1) > 2
    assert lead(4) > 1
    assert lead(16) < 1


@pytest.mark.parametrize(
    ("t", "b", "tflop", "gb", "bound"),
    [
        (0, 1, 100.0, 128.0, Limit.WEIGHTS),
        (32_768, 1, 100.0, 128.0, Limit.CACHE),
        (0, 64, 1.0, 128.0, Limit.ARITHMETIC),
        (4_096, 16, 100.0, 14.6, Limit.MEMORY),
        (4_096, 16, 100.0, 14.8, Limit.CACHE),
    ],
)
def test_the_limit_that_binds(t: int, b: int, tflop: float, gb: float, bound: Limit) -> None:
    there = Box(bandwidth(273), arithmetic_rate(tflop), memory(gb))
    found = ceiling(exact(DENSE), t, b, FP16, there)
    assert found.bound is bound
    assert found.fits is (bound is not Limit.MEMORY)


def test_without_c_and_m_bytes_alone_limit() -> None:
    found = ceiling(exact(GPT_OSS), 0, 10_000, FP16, box(273))
    assert found.fits is None
    assert found.bound is Limit.WEIGHTS
    assert found.seconds_per_step.value == found.bytes_per_step.value / 273e9
