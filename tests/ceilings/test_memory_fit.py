"""What must be resident: the card of 12 GB, the longest context, the largest batch, and what a run holds besides."""

import pytest

from tests.ceilings.figures import DENSE, FP16, FP32, GB, GPT_OSS, Figures, digits_of, exact, memory, small
from workbench.ceilings import memory_fit
from workbench.ceilings.memory_fit import Fit, longest_prompt, memory_need
from workbench.experiments.batch_plan import Point, need_at
from workbench.experiments.settings import BatchSettings
from workbench.models.model import DTYPE_BYTES
from workbench.models.resolve import resolve

FULL_CONTEXT = 32_768


def card() -> Fit:
    return memory_fit.fit(exact(DENSE), FULL_CONTEXT, 1, FP16, memory(12))


FIGURES: Figures = {
    "weights": ("5", lambda: card().weight_bytes.value),
    "cache": ("4.8", lambda: card().kv_bytes.value),
    # Printed 2.2, from the rounded 5 and 4.8; the bytes leave 2.14.
    "free": ("2.1", lambda: card().free_bytes.value),
    "total": ("12", lambda: card().memory_bytes.value),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_a_card_of_12_gb_at_the_full_context(figure: str) -> None:
    printed, computed = FIGURES[figure]
    assert digits_of(printed, computed() / GB) == printed


def test_parts_of_the_card_sum_to_it() -> None:
    found = card()
    assert found.fits
    assert found.weight_bytes.value + found.kv_bytes.value + found.free_bytes.value == found.memory_bytes.value


def test_the_longest_context_is_the_last_that_fits() -> None:
    found = memory_fit.fit(exact(DENSE), FULL_CONTEXT, 2, FP16, memory(8))
    longest = found.longest_context
    assert longest == (8_000_000_000 - 5_027_784_512) // (2 * 147_456)
    assert memory_fit.needed(exact(DENSE), longest, FP16, 2).value <= 8 * GB
    assert memory_fit.needed(exact(DENSE), longest + 1, FP16, 2).value > 8 * GB


def test_the_longest_context_is_the_models_limit_where_memory_holds_it() -> None:
    assert memory_fit.longest_context(exact(DENSE), FP16, 1, 100 * GB) == 40_960


def test_the_largest_batch_is_the_last_that_fits() -> None:
    most = memory_fit.largest_batch(exact(GPT_OSS), 4_096, FP16, 128 * GB)
    assert most is not None
    assert memory_fit.needed(exact(GPT_OSS), 4_096, FP16, most).value <= 128 * GB
    assert memory_fit.needed(exact(GPT_OSS), 4_096, FP16, most + 1).value > 128 * GB


def test_nothing_fits_where_the_weights_do_not() -> None:
    found = memory_fit.fit(exact(GPT_OSS), 4_096, 1, FP16, memory(32))
    assert not found.fits
    assert found.free_bytes.value < 0
    assert found.longest_context == 0
    assert found.largest_batch == 0


def test_sequences_without_a_cache_cost_nothing() -> None:
    assert memory_fit.largest_batch(exact(DENSE), 0, FP16, 12 * GB) is None


def test_memory_is_weights_cache_and_what_a_pass_holds() -> None:
    model = small()
    need = memory_need(model, 4_096, 17, FP32)
    assert need.weights == 2_384_199_680
    assert need.cache == 4_113 * 229_376
    assert need.appended == pytest.approx(0.6 * need.cache, abs=1)
    assert need.total == need.weights + need.cache + need.appended + need.activations + need.engine
    half = memory_need(small().in_dtype("bfloat16"), 4_096, 17, 2)
    assert half.appended < 0.1 * half.cache


SWEPT = [
    ("smollm2-135m", 4_096, "float32", 1.375),
    ("smollm2-135m", 1_024, "float32", 1.040),
    ("smollm2-135m", 256, "bfloat16", 0.683),
    ("smollm2-135m", 4_096, "bfloat16", 0.833),
    ("qwen3-0.6b", 2_048, "float32", 3.729),
    ("qwen3-0.6b", 2_048, "bfloat16", 1.925),
    ("qwen3-1.7b", 256, "bfloat16", 3.922),
    ("llama-3.2-1b", 512, "float32", 5.485),
]
"""Peaks in GB of processes that swept prompts up to so many tokens, on a box without an accelerator."""


@pytest.mark.parametrize(("model", "prompt", "dtype", "peak"), SWEPT)
def test_the_need_of_a_sweep_is_within_five_per_cent_of_the_peaks_measured(
    model: str, prompt: int, dtype: str, peak: float
) -> None:
    need = memory_need(resolve(model).in_dtype(dtype), prompt, 17, DTYPE_BYTES[dtype])
    assert need.total / 1e9 == pytest.approx(peak, rel=0.05)


def test_the_longest_prompt_is_the_last_that_fits() -> None:
    model = small()
    available = 4_000_000_000
    n = longest_prompt(model, 17, FP32, available)
    assert memory_need(model, n, 17, FP32).total <= available < memory_need(model, n + 1, 17, FP32).total
    assert longest_prompt(model, 17, FP32, 1_000_000) == 0


PEAKS = {
    ("smollm2-135m", "float32"): {
        (2, 1): 0.928,
        (2, 8): 0.928,
        (2, 32): 0.952,
        (256, 1): 0.944,
        (256, 8): 1.177,
        (256, 32): 1.620,
        (1024, 1): 1.020,
        (1024, 8): 1.448,
        (1024, 32): 2.974,
    },
    ("qwen3-0.6b", "float32"): {(2, 1): 2.767, (2, 32): 2.873, (256, 8): 3.380, (256, 32): 5.248},
}
"""GB at the peak of a process that decodes one batch of a context and of so many sequences, as tests/benchmarks has
measured it with batch_memory (two cores, torch 2.13, transformers 5.24)."""


@pytest.mark.parametrize(
    ("model", "dtype", "context", "batch"),
    [(*model, *point) for model, points in PEAKS.items() for point in points],
)
def test_a_batch_is_predicted_within_a_tenth_of_its_peak_and_hardly_short(
    model: str, dtype: str, context: int, batch: int
) -> None:
    settings = BatchSettings(model=model, dtype=dtype, contexts=(context,), batches=(batch,), steps=3, device="cpu")
    predicted = need_at(settings, resolve(model).in_dtype(dtype), Point(context, batch)).total / GB
    assert 0.98 <= predicted / PEAKS[model, dtype][context, batch] <= 1.10


def test_a_larger_batch_never_needs_less() -> None:
    settings = BatchSettings(model="qwen3-0.6b", device="cpu")
    resident = resolve("qwen3-0.6b").in_dtype("float32")
    for context in (1, 2, 100, 256, 4_096):
        needs = [need_at(settings, resident, Point(context, b)).beside_loaded for b in (*range(1, 300), 2_048, 4_096)]
        assert needs == sorted(needs)
