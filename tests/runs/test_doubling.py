"""How far doubling the batch pays, from rows alone."""

from dataclasses import replace

import pytest

from tests.fakes import a_row
from workbench.ceilings.batch import Limit
from workbench.runs.doubling import Doubling, doublings, figure
from workbench.runs.row import BATCH, Row

TEXT = {2: (11.3, 26.2, 46.9, 60.8, 96.1, 136.1), 256: (11.3, 21.6, 38.4, 45.8, 77.6, 73.8)}
"""Total rates of the first text at 1 to 32 sequences."""


def batch_row(context: int, batch: int, total: float | None, bound: str = "arithmetic") -> Row:
    return a_row(kind=BATCH, prompt_tokens=context, batch=batch, total_tokens_per_s=total, bound_by=bound)


def test_the_texts_longer_context_stops_at_16_by_its_caches_and_the_shorter_still_pays() -> None:
    rows = [batch_row(t, 1 << i, rate) for t, rates in TEXT.items() for i, rate in enumerate(rates)]
    shorter, longer = doublings(rows)
    assert (shorter.context, shorter.batch, shorter.limit, shorter.stops) == (2, 32, Limit.ARITHMETIC, False)
    assert (longer.context, longer.batch, longer.limit, longer.stops) == (256, 16, Limit.CACHE, True)
    assert longer.gain == pytest.approx(73.8 / 77.6)
    found = figure(longer)
    assert (found.value, found.inputs[0].value) == (16, longer.gain)
    assert [step.value for step in found.inputs[1:]] == pytest.approx([0.2274, 0.0686], abs=1e-4)
    assert found.name.startswith("256 tokens each: past batch 16 doubling stops paying, because of cache reads: ")
    assert found.name.endswith("the measured step grew by 227 ms, by 68.6 ms with the shortest context")
    assert figure(shorter).name.startswith("2 tokens each: doubling pays to batch 32; arithmetic lengthens the step: ")


def test_where_every_doubling_pays_the_cause_is_that_of_the_whole_growth() -> None:
    """Steps of the Qwen3-0.6B shape on two cores: 140 to 463 ms with 2 tokens each, 151 to 840 ms with 256."""
    steps = {2: {1: 0.140, 16: 0.382, 32: 0.463}, 256: {1: 0.151, 16: 0.538, 32: 0.840}}
    rows = [batch_row(t, b, b / step) for t, of_batch in steps.items() for b, step in of_batch.items()]
    assert [(each.limit, each.stops) for each in doublings(rows)] == [(Limit.ARITHMETIC, False), (Limit.CACHE, False)]
    assert doublings(rows)[1].growth_s == pytest.approx(0.689)


@pytest.mark.parametrize(("total", "stops"), [(110.1, False), (109.9, True)])
def test_a_doubling_pays_from_ten_per_cent_on(total: float, stops: bool) -> None:
    (found,) = doublings([batch_row(2, 1, 100.0), batch_row(2, 2, total)])
    assert (found.stops, found.batch) == (stops, 1 if stops else 2)


def test_batches_further_apart_count_by_the_double() -> None:
    assert not doublings([batch_row(2, 1, 100.0), batch_row(2, 8, 134.0)])[0].stops
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 8, 133.0)])[0].stops


def test_the_limit_is_the_one_of_the_batch_that_no_longer_pays() -> None:
    rows = [batch_row(2, 8, 100.0, "weight reads"), batch_row(2, 16, 101.0, "arithmetic")]
    assert doublings(rows)[0].limit is Limit.ARITHMETIC


def test_a_step_that_grows_as_with_the_shortest_context_is_not_the_caches_doing() -> None:
    short = [batch_row(2, 8, 100.0), batch_row(2, 16, 105.0)]
    longer = [batch_row(256, 8, 90.0), batch_row(256, 16, 92.0)]
    assert [end.limit for end in doublings([*short, *longer])] == [Limit.ARITHMETIC, Limit.ARITHMETIC]
    far_longer = [batch_row(256, 8, 50.0), batch_row(256, 16, 48.0)]
    assert [end.limit for end in doublings([*far_longer, *short])] == [Limit.CACHE, Limit.ARITHMETIC]


def test_weight_reads_of_a_mixture_are_its_experts_and_of_a_dense_model_no_cause() -> None:
    rows = [batch_row(2, 8, 100.0, "weight reads"), batch_row(2, 16, 101.0, "weight reads")]
    assert "because of the engine" in doublings(rows)[0].sentence
    mixture = [replace(row, experts_expected=float(row.batch)) for row in rows]
    assert "more sequences touch more experts" in doublings(mixture)[0].sentence


def test_a_refused_batch_ends_it_and_a_failed_one_says_nothing() -> None:
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 2, None, "memory")]) == (
        Doubling(2, 1, Limit.MEMORY, True, None, refused=2),
    )
    far = [batch_row(2, 1, 100.0), batch_row(2, 100_000, None, "memory")]
    assert doublings(far)[0].sentence == (
        "2 tokens each: past batch 1 doubling stops, because of memory: batch 100,000 does not fit"
    )
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 2, None)]) == ()


def test_doubling_that_stopped_paying_before_memory_ran_out_is_not_memorys_doing() -> None:
    rows = [batch_row(2, 1, 100.0), batch_row(2, 2, 101.0), batch_row(2, 4, None, "memory")]
    assert [(each.batch, each.limit) for each in doublings(rows)] == [(1, Limit.ARITHMETIC)]


@pytest.mark.parametrize(("half_ms", "unsure"), [(0.1, False), (5.0, True)])
def test_a_doubling_whose_gain_may_be_enough_is_not_said_to_stop_paying(half_ms: float, unsure: bool) -> None:
    rows = [
        replace(batch_row(2, b, b / ms * 1e3), tpot_low_ms=ms - half_ms, tpot_high_ms=ms + half_ms)
        for b, ms in ((8, 80.0), (16, 150.0))
    ]
    (found,) = doublings(rows)
    assert found.stops
    assert (found.unsure is not None) is unsure
    assert ("may stop paying" in found.verdict) is unsure


@pytest.mark.parametrize(("half_ms", "unsure"), [(0.1, False), (9.0, True)])
def test_a_doubling_that_may_not_pay_is_not_said_to(half_ms: float, unsure: bool) -> None:
    rows = [
        replace(batch_row(2, b, b / ms * 1e3), tpot_low_ms=ms - half, tpot_high_ms=ms + half)
        for b, ms, half in ((4, 70.0, 0.1), (8, 80.0, half_ms), (16, 130.0, half_ms))
    ]
    (found,) = doublings(rows)
    assert not found.stops
    assert ("can't tell whether it does past batch 8, where the total rate grew" in found.verdict) is unsure
    assert found.verdict.endswith("arithmetic lengthens the step")


def test_what_a_batch_came_to_before_it_failed_is_no_evidence() -> None:
    rows = [batch_row(16, 1, 10.0), batch_row(16, 2, 20.0), replace(batch_row(16, 4, 12.0), status="failed: no answer")]
    (found,) = doublings(rows)
    assert (found.batch, found.stops) == (2, False)
