"""When a point has been measured often enough, and what was only its warm-up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle

import pytest

from tests.fakes import FakeModel, fake_load
from workbench.engines.engine import RequestTiming
from workbench.errors import SettingsError
from workbench.experiments import measured_run, window
from workbench.experiments.events import Event, Progress, RowMeasured
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.repeats import Repeats, half_width_share, warm_ups
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.hardware.load import Load
from workbench.runner import CancelToken

QUIET = (1.000, 1.001, 0.999)
NOISY = (1.00, 1.20, 0.90, 1.10, 1.05, 0.95)
TPOT_SHARE = 0.04
AUTO = Repeats(least=3, most=30, precision=0.02, most_s=10.0)


def test_a_quiet_point_ends_with_the_least_repeats_and_a_noisy_one_goes_on() -> None:
    assert not AUTO.enough([QUIET[:2]], 1.0)
    assert AUTO.enough([QUIET], 1.0)
    assert not AUTO.enough([NOISY], 1.0)
    assert not AUTO.enough([NOISY, QUIET * 2], 1.0)


def test_a_noisy_point_ends_at_either_limit_but_never_under_the_least() -> None:
    assert AUTO.enough([NOISY * 5], 1.0)
    assert AUTO.enough([NOISY], 10.0)
    assert not AUTO.enough([NOISY[:2]], 100.0)


def test_a_fixed_count_is_that_count_however_noisy() -> None:
    five = Repeats(5, 5)
    assert [five.enough([NOISY[:n]], 0.0) for n in (4, 5)] == [False, True]
    assert [five.expected([NOISY[:n]], 1.0) for n in (0, 4)] == [5, 5]


def test_what_is_expected_follows_the_interval_and_the_limits() -> None:
    assert AUTO.expected([()], 0.1) == 3
    assert AUTO.expected([QUIET], 0.1) == 3
    share = half_width_share([NOISY])
    assert AUTO.expected([NOISY], 0.001) == min(30, int(6 * (share / 0.02) ** 2))
    assert AUTO.expected([NOISY], 1.0) == 10
    assert AUTO.most_in(40.0) == 3
    assert half_width_share([QUIET, QUIET[:1]]) == float("inf")


@pytest.mark.parametrize(
    ("totals", "dropped"),
    [
        ((1.0, 1.0, 1.0), 0),
        ((1.04, 1.0, 1.0), 0),
        ((1.5, 1.0, 1.0), 1),
        ((2.0, 1.5, 1.0, 1.0), 2),
        ((3.0, 2.0, 1.5, 1.0), 2),
        ((1.0, 1.5, 1.0), 0),
        ((9.0, 6.0, 4.0, 4.0), 1),
        ((1.0,), 0),
        ((), 0),
    ],
)
def test_what_is_dropped_is_slower_than_what_follows_and_little_of_a_long_one(
    totals: Sequence[float], dropped: int
) -> None:
    assert warm_ups([(total,) for total in totals]) == dropped


def test_a_slow_first_token_is_a_warm_up_though_the_whole_is_steady() -> None:
    assert warm_ups([(0.2, 1.0), (0.1, 1.0), (0.1, 1.0)]) == 1


# In a sweep


@pytest.fixture(autouse=True)
def quiet_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does while the tests run, rows are judged as on one with nothing else to do."""
    monkeypatch.setattr(window, "_between", lambda *_: Disturbance())
    monkeypatch.setattr(measured_run, "load_between", lambda before, after: Load(0.0, 0.0, None, 1 << 34, None))


def loaded_with(timings: Callable[[int], Iterator[float]]) -> Callable[[LoadPlan, CancelToken], FakeModel]:
    """A model whose requests of each prompt take these seconds, in turn, for each phase; its warm-up is not of them."""

    class Timed(FakeModel):
        def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
            prompt, seed = self.prepared[-1]
            if not seed:
                return RequestTiming(1.0, 1.0, new_tokens - 1)
            seconds = next(series.setdefault(prompt, timings(prompt)))
            return RequestTiming(seconds, TPOT_SHARE * seconds * (new_tokens - 1), new_tokens - 1)

    series: dict[int, Iterator[float]] = {}

    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        return Timed(made.model, made.labels)

    return load


def measured(timings: Callable[[int], Iterator[float]], **changed: object) -> tuple[list[RowMeasured], list[Event]]:
    settings = SweepSettings(model="smollm2-135m", prompts=(1, 64), new_tokens=3, **changed)  # type: ignore[arg-type]
    seen = list(sweep(settings, loaded_with(timings), TimedWindow())(CancelToken()))
    return [event for event in seen if isinstance(event, RowMeasured)], seen


def test_a_sweep_repeats_its_noisy_point_more_often_than_its_quiet_one() -> None:
    rows, seen = measured(lambda prompt: cycle(NOISY if prompt == 1 else QUIET))
    noisy, quiet = (event.row for event in rows)
    assert (noisy.repeats, quiet.repeats) == (30, 3)
    assert (noisy.judgement, quiet.judgement) == ("noisy", "ok")
    last = [event for event in seen if isinstance(event, Progress) and event.prompt_tokens == 1][-1]
    assert last.repeat == last.repeats == 30


def test_what_was_dropped_is_kept_and_counts_for_nothing() -> None:
    def timings(prompt: int) -> Iterator[float]:
        yield from (2.0, 1.5)
        yield from cycle(QUIET)

    rows, _ = measured(timings, repeats=4, most_seconds=1.0)
    row, samples = rows[0].row, rows[0].samples
    assert (row.repeats, row.dropped) == (4, 2)
    assert samples.dropped_ttft_s == (2.0, 1.5)
    assert samples.dropped_tpot_s == pytest.approx((2.0 * TPOT_SHARE, 1.5 * TPOT_SHARE))
    assert samples.ttft_s == (*QUIET, QUIET[0])
    assert row.ttft_median_ms == pytest.approx(1000.0)


def test_the_least_time_counts_three_repeats_and_the_most_is_within_the_limits() -> None:
    fixed, auto = (SweepSettings(model="smollm2-135m", prompts=(1,), repeats=n) for n in (3, "auto"))
    assert plan(auto).seconds > plan(fixed).seconds
    assert plan(auto).seconds < plan(fixed).seconds + 11.0
    assert plan(replace(auto, most_repeats=3)).seconds == plan(fixed).seconds


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"precision": 0.0}, "precision is 0 %"),
        ({"precision": 2.0}, "precision is 200 %"),
        ({"most_repeats": 2}, "at least 3"),
        ({"most_seconds": 0.0}, "above zero"),
        ({"repeats": 0}, "at least 1"),
    ],
)
def test_what_can_not_be_reached_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        plan(SweepSettings(model="smollm2-135m", **changed))  # type: ignore[arg-type]
