"""Weights over two memories: the slowdown table, and the same through a model's split."""

import pytest

from tests.ceilings.figures import DENSE, FP16, MIXTURE, bandwidth, cells, digits_of, exact
from workbench.ceilings import split
from workbench.ceilings.batch import ceiling
from workbench.ceilings.box import Box
from workbench.errors import SettingsError

# Per cent of the bytes on the slower memory: slower by 5, 10 and 20 times.
SLOWDOWNS = {
    5: ("1.20", "1.45", "1.95"),
    10: ("1.40", "1.90", "2.90"),
    25: ("2.00", "3.25", "5.75"),
    50: ("3.00", "5.50", "10.50"),
}
TIMES = {"5 times": 5, "10 times": 10, "20 times": 20}


@pytest.mark.parametrize(("times", "per_cent", "printed"), cells(SLOWDOWNS, tuple(TIMES)))
def test_the_slowdown_table(times: str, per_cent: int, printed: str) -> None:
    assert digits_of(printed, split.slowdown(per_cent / 100, TIMES[times])) == printed


@pytest.mark.parametrize(("times", "per_cent", "printed"), cells(SLOWDOWNS, tuple(TIMES)))
def test_the_slowdown_of_a_models_step(times: str, per_cent: int, printed: str) -> None:
    B = bandwidth(1_000)
    together = split.split(exact(DENSE), 4_096, FP16, B, bandwidth(1_000 / TIMES[times]), 0.0)
    found = split.split(exact(DENSE), 4_096, FP16, B, bandwidth(1_000 / TIMES[times]), per_cent / 100)
    assert digits_of(printed, found.slowdown.value) == printed
    assert digits_of(printed, found.seconds_per_step.value / together.seconds_per_step.value) == printed
    assert digits_of(printed, together.tokens_per_second.value / found.tokens_per_second.value) == printed


def test_all_on_one_memory_is_that_memorys_ceiling() -> None:
    fast, slow = bandwidth(1_792), bandwidth(89.6)
    for f, B in ((0.0, fast), (1.0, slow)):
        found = split.split(exact(MIXTURE), 4_096, FP16, fast, slow, f)
        alone = ceiling(exact(MIXTURE), 4_096, 1, FP16, Box(B))
        assert found.tokens_per_second.value == pytest.approx(alone.tokens_per_second_each.value)


def test_of_a_mixture_only_the_experts_a_token_reads_are_split() -> None:
    found = split.split(exact(MIXTURE), 0, FP16, bandwidth(100), bandwidth(10), 0.5)
    assert found.fast_bytes.value + found.slow_bytes.value == exact(MIXTURE).read_bytes_per_token


@pytest.mark.parametrize("f", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_outside_0_to_1_is_refused(f: float) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        split.split(exact(DENSE), 0, FP16, bandwidth(100), bandwidth(10), f)
