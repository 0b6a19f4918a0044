"""The roofline: ridge, intensity, the ceiling in one line, and what stops a growing batch."""

import math

import pytest

from tests.ceilings.figures import DENSE, FP16, Figures, arithmetic_rate, bandwidth, digits_of, exact, memory, rounded
from workbench.ceilings import roofline
from workbench.ceilings.batch import ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.roofline import Side
from workbench.models.presets import preset_model
from workbench.quantity import Origin, Quantity, Unit

C, B = arithmetic_rate(1_000), bandwidth(3_000)
LARGE = rounded("70B in FP16")
TWO_BYTES = Quantity("bytes a parameter", 2, Unit.BYTES, Origin.ASSUMED)


def decode_share() -> float:
    return roofline.point("decode", 1, roofline.intensity(1, TWO_BYTES), C, B).share_of_peak.value


FIGURES: Figures = {
    "70B in fp16, tokens/s": ("21", lambda: ceiling(LARGE, 0, 1, FP16, Box(B)).tokens_per_second_each.value),
    "ridge": ("333", lambda: roofline.ridge(C, B).value),
    "intensity of decode at batch 1": ("1", lambda: roofline.intensity(1, TWO_BYTES).value),
    "orders of magnitude to the ridge": ("2.5", lambda: math.log10(roofline.ridge(C, B).value)),
    "per cent of the peak at batch 1": ("0.3", lambda: 100 * decode_share()),
    # Printed as roughly 1,000; by the text's own formula, 2·n / b, it is 2,000.
    "intensity of a prompt of 2,000": ("2,000", lambda: roofline.intensity(2_000, TWO_BYTES).value),
    "batch at the ridge": ("333", lambda: roofline.tokens_at_ridge(TWO_BYTES, C, B).value),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_of_the_text(figure: str) -> None:
    printed, computed = FIGURES[figure]
    assert digits_of(printed, computed()) == printed


@pytest.mark.parametrize("b", [1, 7, 333])
def test_at_two_bytes_a_parameter_the_intensity_is_the_batch(b: int) -> None:
    assert roofline.intensity(b, TWO_BYTES).value == b


@pytest.mark.parametrize(
    ("work", "tokens", "bound"),
    [
        ("decode", 1, Side.MEMORY),
        ("decode", 333, Side.MEMORY),
        ("decode", 334, Side.COMPUTE),
        ("prefill", 2_000, Side.COMPUTE),
    ],
)
def test_one_request_crosses_the_ridge(work: str, tokens: int, bound: Side) -> None:
    found = roofline.point(work, tokens, roofline.intensity(tokens, TWO_BYTES), C, B)
    assert found.bound is bound
    assert (found.attainable_flop_per_second.value == C.value) is (bound is Side.COMPUTE)


def test_hundreds_of_long_sequences_need_hundreds_of_gigabytes_so_memory_caps_the_batch_first() -> None:
    model, t = preset_model("llama-3.1-70b"), 4_096
    M = memory(320)
    found = roofline.roofline(model, C, B, batches=[1], prompts=[2_000], t=t, element_bytes=FP16, M=M)
    assert found.batch_in_memory is not None
    assert found.tokens_at_ridge is not None
    assert 0 < found.batch_in_memory < found.tokens_at_ridge.value
    assert found.memory_first
    cache = 333 * t * 2 * 80 * 8 * 128 * 2
    assert digits_of("447", cache / 1e9) == "447"


def test_long_caches_keep_a_batch_from_ever_being_compute_bound() -> None:
    model = exact(DENSE)
    assert roofline.batch_at_ridge(model, 32_768, FP16, C, B) is None
    found = roofline.batch_at_ridge(model, 0, FP16, C, B)
    assert found is not None
    ridge = roofline.ridge(C, B).value
    assert roofline.decode_intensity(model, 0, FP16, found).value >= ridge
    assert roofline.decode_intensity(model, 0, FP16, found - 1).value < ridge


def test_points_of_a_model_count_its_whole_step() -> None:
    model = exact(DENSE)
    found = roofline.roofline(model, C, B, batches=[1, 16], prompts=[2_048], t=4_096, element_bytes=FP16)
    assert [(p.work, p.tokens) for p in found.points] == [("decode", 1), ("decode", 16), ("prefill", 2_048)]
    assert found.points[0].intensity.value == roofline.decode_intensity(model, 4_096, FP16, 1).value
    assert found.points[2].bound is Side.COMPUTE
    assert found.bytes_per_parameter.value == pytest.approx(4_671_768_832 / 7_568_405_504)
