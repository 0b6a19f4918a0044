"""Where doubling the batch stops paying, from rows alone."""

import pytest

from tests.fakes import a_row
from workbench.ceilings.batch import Limit
from workbench.runs.doubling import Doubling, doublings, figure
from workbench.runs.row import BATCH, Row

TEXT = {2: (11.3, 26.2, 46.9, 60.8, 96.1, 136.1), 256: (11.3, 21.6, 38.4, 45.8, 77.6, 73.8)}
"""Total rates of the first text at 1 to 32 sequences."""


def batch_row(context: int, batch: int, total: float | None, bound: str = "arithmetic") -> Row:
    return a_row(kind=BATCH, prompt_tokens=context, batch=batch, total_tokens_per_s=total, bound_by=bound)


def test_the_texts_longer_context_stops_at_16_and_the_shorter_does_not() -> None:
    rows = [batch_row(t, 1 << i, rate) for t, rates in TEXT.items() for i, rate in enumerate(rates)]
    (end,) = doublings(rows)
    assert (end.context, end.batch, end.limit) == (256, 16, Limit.CACHE)
    assert end.gain == pytest.approx(73.8 / 77.6)
    found = figure(end)
    assert (found.value, found.inputs[0].value) == (16, end.gain)
    assert [step.value for step in found.inputs[1:]] == pytest.approx([0.2274, 0.0686], abs=1e-4)
    assert "256 tokens each, because of cache reads" in found.name


@pytest.mark.parametrize(("total", "ends"), [(110.1, False), (109.9, True)])
def test_a_doubling_pays_from_ten_per_cent_on(total: float, ends: bool) -> None:
    assert bool(doublings([batch_row(2, 1, 100.0), batch_row(2, 2, total)])) is ends


def test_batches_further_apart_count_by_the_double() -> None:
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 8, 134.0)]) == ()
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 8, 133.0)])[0].batch == 1


def test_the_limit_is_the_one_of_the_batch_that_no_longer_pays() -> None:
    rows = [batch_row(2, 8, 100.0, "weight reads"), batch_row(2, 16, 101.0, "arithmetic")]
    assert doublings(rows)[0].limit is Limit.ARITHMETIC


def test_a_step_that_grows_as_with_the_shortest_context_is_not_the_caches_doing() -> None:
    short = [batch_row(2, 8, 100.0), batch_row(2, 16, 105.0)]
    longer = [batch_row(256, 8, 90.0), batch_row(256, 16, 92.0)]
    assert [end.limit for end in doublings([*short, *longer])] == [Limit.ARITHMETIC, Limit.ARITHMETIC]
    far_longer = [batch_row(256, 8, 50.0), batch_row(256, 16, 48.0)]
    assert [end.limit for end in doublings([*far_longer, *short])] == [Limit.CACHE, Limit.ARITHMETIC]


def test_a_refused_batch_ends_it_and_a_failed_one_says_nothing() -> None:
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 2, None, "memory")]) == (Doubling(2, 1, Limit.MEMORY, None),)
    assert doublings([batch_row(2, 1, 100.0), batch_row(2, 2, None)]) == ()
