"""The selfcheck on an engine of known timings: what is compared with what, and when it can't tell."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes import FakeModel, fake_load
from workbench.engines.engine import BatchTiming
from workbench.errors import SettingsError
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.selfcheck.blocks import CONTEXT, REQUESTS, STEPS, Hold, SteppedModel, steps_alone
from workbench.experiments.selfcheck.comparison import APP, Compared, Condition, Verdict, overall, verdict
from workbench.experiments.selfcheck.selfcheck import Experimented, SelfcheckSettings, selfcheck
from workbench.experiments.settings import SweepSettings
from workbench.experiments.statistics import Interval
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, Runner
from workbench.runs.store import Store

SETTINGS = SelfcheckSettings(rounds=10, most_rounds=12)


class Steps(FakeModel):
    """A model whose steps take what `step_s` says of the round and the condition it is asked in."""

    step_s: Callable[[], float]

    def batch(self, lengths: object, steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        assert (tuple(lengths), steps) == ((CONTEXT,), STEPS)  # type: ignore[arg-type]
        return BatchTiming(0.1, (self.step_s(),) * steps)


class Played:
    """Plays the app without one, and makes its steps so much slower."""

    def __init__(self, slower: Callable[[int], float]) -> None:
        self.conditions: list[Condition] = []
        self.slower = slower
        self.now: Condition | None = None
        self.played: Condition | None = None
        self.closed = False

    def load(self, planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        played = self

        class Closing(Steps):
            def close(self) -> None:
                played.closed = True

        model = Closing(made.model, made.labels)
        model.step_s = lambda: 0.050 * (1.0 if self.now is None else self.slower(len(self.conditions)))
        return model

    @contextmanager
    def held(self) -> Iterator[None]:
        self.now, self.played = None, self.now
        yield
        self.now = self.played

    def in_app(
        self,
        runner: Runner,
        condition: Condition,
        settings: SweepSettings,
        swept: Experimented,
        hold_with: Callable[[Hold], None],
    ) -> None:
        self.conditions.append(condition)
        self.now = condition
        hold_with(self.held)
        ended = threading.Event()
        errors: list[BaseException | None] = []

        def done(error: BaseException | None) -> None:
            errors.append(error)
            ended.set()

        runner.start(swept(TimedWindow()), lambda _event: None, done)
        assert ended.wait(10)
        self.now = None
        assert errors == [None]


def checked(played: Played, folder: Path, settings: SelfcheckSettings = SETTINGS) -> list[Compared]:
    runner = Runner(lambda: Store(folder / "runs.sqlite3"))
    return selfcheck(settings, played.load, runner, played.in_app, lambda _line: None)


def test_every_condition_is_measured_once_a_round_in_an_order_that_moves_on(tmp_path: Path) -> None:
    played = Played(lambda _: 1.0)
    found = checked(played, tmp_path)
    assert [each.condition for each in found] == list(Condition)
    assert {each.rounds for each in found} == {10}
    assert len(played.conditions) == 30
    assert {played.conditions[3 * n] for n in range(10)} == set(APP)
    assert played.closed


def test_the_same_steps_are_within_and_slower_ones_are_not(tmp_path: Path) -> None:
    assert overall(checked(Played(lambda _: 1.0), tmp_path)) is Verdict.WITHIN
    found = checked(Played(lambda _: 1.02), tmp_path)
    shown = next(each for each in found if each.condition is Condition.SWEEP_ON_SCREEN)
    assert shown.median_ratio == pytest.approx(1.02)
    assert shown.median_ms == pytest.approx(51.0)
    assert overall(found) is Verdict.NOT_WITHIN
    assert next(each for each in found if each.condition is Condition.HEADLESS).verdict is Verdict.WITHIN


def test_where_noise_is_too_great_it_goes_on_and_then_says_so(tmp_path: Path) -> None:
    found = checked(Played(lambda n: 0.9 if n % 2 else 1.1), tmp_path)
    assert {each.rounds for each in found} == {12}
    assert overall(found) is Verdict.TOO_NOISY


@pytest.mark.parametrize(
    ("median_ratio", "p90_ratio", "expected"),
    [
        ((0.99, 1.01), (0.99, 1.03), Verdict.WITHIN),
        ((0.99, 1.02), (0.99, 1.03), Verdict.TOO_NOISY),
        ((0.99, 1.01), (1.00, 1.04), Verdict.TOO_NOISY),
        ((1.011, 1.02), (0.99, 1.03), Verdict.NOT_WITHIN),
        ((0.99, 1.01), (1.031, 1.04), Verdict.NOT_WITHIN),
    ],
)
def test_the_verdict_is_that_of_the_intervals(
    median_ratio: tuple[float, float], p90_ratio: tuple[float, float], expected: Verdict
) -> None:
    assert verdict(Interval(*median_ratio), Interval(*p90_ratio)) is expected


def test_too_few_rounds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least 10"):
        checked(Played(lambda _: 1.0), tmp_path, SelfcheckSettings(rounds=9))
    with pytest.raises(SettingsError, match="most rounds are 5"):
        checked(Played(lambda _: 1.0), tmp_path, SelfcheckSettings(most_rounds=5))


def test_each_block_stands_between_two_bare_ones_and_the_first_is_not_kept() -> None:
    made = fake_load()(plan(SETTINGS.sweep), CancelToken())
    model = Steps(made.model, made.labels)
    taken = iter(range(1, 100))
    model.step_s = lambda: float(next(taken))
    stepped = SteppedModel(model)
    stepped.begin()
    list(steps_alone(stepped)(CancelToken()))
    blocks = stepped.taken
    assert len(blocks) == REQUESTS
    assert [block.step_s[0] for block in blocks[:2]] == [4.0, 6.0]
    assert [[bare[0] for bare in block.around] for block in blocks[:2]] == [[3.0, 5.0], [5.0, 7.0]]
    assert blocks[0].ratio == 1.0
    assert len(blocks[-1].around) == 1
