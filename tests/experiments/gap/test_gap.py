"""Taking a pass apart on an engine whose parts take known times: what it says, in which order, and what it keeps."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.fake_grid import a_calibration, a_cell
from tests.fakes import FAKE_PARTS_S, READ_RATE, FakeModel, FakePass, fake_load
from workbench.engines.engine import BoxRates, PointError
from workbench.errors import SettingsError
from workbench.experiments.events import (
    Event,
    Finished,
    LadderMeasured,
    PointFailed,
    Predicted,
    Progress,
    RowMeasured,
    Started,
)
from workbench.experiments.gap import gap as gap_module
from workbench.experiments.gap import ladder as ladder_arithmetic
from workbench.experiments.gap.gap import CHANGED, gap
from workbench.experiments.gap.gap_plan import LEAST_ROUNDS
from workbench.experiments.gap.parts import Dissection, InPlace, Part, Sample
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import GapSettings
from workbench.experiments.window import TimedWindow
from workbench.hardware.machine import this_machine
from workbench.runner import CancelToken, drive
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, Ladder
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

SETTINGS = GapSettings(model="smollm2-135m", context=64, device="cpu", seconds=1e-9)
"""So few seconds that the least number of rounds is measured."""
W, K = 134_515_008 * 4, 23_040 * 2


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_arithmetic, "RESAMPLES", 20)


class ToldPass(FakePass):
    """Writes down what is asked of it, and tells how many times a part was timed alone."""

    def __init__(self, on_alone: Callable[[int], None] = lambda count: None, times: float = 1.0) -> None:
        super().__init__({part: times * seconds for part, seconds in FAKE_PARTS_S.items()}, times * 0.020)
        self.asked: list[str] = []
        self.on_alone = on_alone

    def whole(self) -> Sample:
        self.asked.append("whole")
        return super().whole()

    def without(self, parts: Sequence[Part]) -> Sample:
        self.asked.append(f"without {parts[0]}" if len(parts) == 1 else "without all")
        return super().without(parts)

    def in_place(self) -> InPlace:
        self.asked.append("in place")
        return InPlace(super().whole(), self.parts_s)

    def alone(self, part: Part) -> Sample:
        self.asked.append(f"alone {part}")
        self.on_alone(sum(text.startswith("alone") for text in self.asked))
        return super().alone(part)


def loading(full: FakePass, **about: Any) -> Load:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        return FakeModel(made.model, made.labels, full=full, **about)

    return load


def events(
    load: Load | None = None, settings: GapSettings = SETTINGS, cancel: CancelToken | None = None
) -> list[Event]:
    return list(gap(settings, load or fake_load(), TimedWindow())(cancel or CancelToken()))


def ladders(seen: list[Event]) -> list[Ladder]:
    return [event.ladder for event in seen if isinstance(event, LadderMeasured)]


def the_row(seen: list[Event]) -> RowMeasured:
    return next(event for event in seen if isinstance(event, RowMeasured))


def test_a_ladder_comes_after_each_round_and_once_more_before_the_row() -> None:
    seen = events()
    kinds = [type(event) for event in seen if not isinstance(event, Progress)]
    assert kinds == [Started, Predicted, *[LadderMeasured] * (LEAST_ROUNDS + 1), RowMeasured, Finished]
    assert [ladder.rounds for ladder in ladders(seen)] == [*range(1, LEAST_ROUNDS + 1), LEAST_ROUNDS]
    stages = [event.stage for event in seen if isinstance(event, Progress)]
    assert stages[1:3] == ["reading the box's rates", "recording the pass"]
    measuring = [event for event in seen if isinstance(event, Progress) and event.stage == "measuring"]
    assert [event.repeat for event in measuring] == [*range(1, LEAST_ROUNDS + 1)]
    assert measuring[0].left_s is None
    assert measuring[1].left_s is not None


def test_more_time_gives_more_rounds_up_to_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_module, "MOST_ROUNDS", 7)
    assert ladders(events(settings=replace(SETTINGS, seconds=1e9)))[-1].rounds == 7


def test_each_part_is_left_out_between_two_whole_passes_in_an_order_that_turns_with_every_round() -> None:
    full = ToldPass()
    events(loading(full))
    rounds = "\n".join(full.asked).split("without all")
    assert len(rounds) == LEAST_ROUNDS + 1
    for count, asked in enumerate(rounds[:-1]):
        parts = list(Part) if count % 2 else list(reversed(Part))
        told = [line for line in asked.splitlines() if line]
        left_out = (line for part in parts for line in (f"without {part}", "whole"))
        assert told == [*(f"alone {part}" for part in parts), "in place", "whole", *left_out]


def test_of_a_long_pass_only_what_can_be_told_is_left_out_and_three_share_their_whole_passes() -> None:
    full = ToldPass(times=10.0)
    ladder = ladders(events(loading(full)))[-1]
    asked = full.asked[: full.asked.index("without all")]
    assert [line for line in asked if not line.startswith("alone")] == [
        "in place",
        *(f"without {part}" for part in (Part.ELEMENTWISE, Part.CACHE, Part.ATTENTION)),
        "whole",
        *(f"without {part}" for part in (Part.HEAD, Part.WEIGHTS)),
        "whole",
    ]
    sampling = next(rung for rung in ladder.rungs if rung.name == Part.SAMPLING)
    assert [way.name for way in sampling.time.inputs] == ["alone, replayed", "in place"]
    assert sampling.time.value == pytest.approx(0.01)


def test_passes_of_very_different_times_are_told() -> None:
    class Uneven(ToldPass):
        def whole(self) -> Sample:
            sample = super().whole()
            return replace(sample, wall_s=sample.wall_s * (4 if self.asked.count("whole") == 3 else 1))

    (told,) = [note for note in ladders(events(loading(Uneven())))[-1].notes if "slowest" in note]
    assert "took 4.0 times the median" in told
    assert not any("slowest" in note for note in ladders(events())[-1].notes)


def test_the_row_is_of_the_whole_passes_and_every_one_is_kept() -> None:
    found = the_row(events())
    row, samples = found.row, found.samples
    assert (row.kind, row.prompt_tokens, row.context_tokens, row.batch, row.status) == ("gap", 64, 65, 1, "ok")
    assert samples.tpot_s == pytest.approx([0.285] * LEAST_ROUNDS * (1 + len(Part)))
    assert row.repeats == len(samples.tpot_s)
    assert row.step_ms == pytest.approx(285.0)
    assert row.ttft_ms is None
    assert row.decode_tokens_per_s == pytest.approx(1 / 0.285)
    assert row.bytes_per_step == pytest.approx(W + 65 * K, rel=1e-3)


def test_of_a_prefill_the_row_has_a_ttft_and_no_step() -> None:
    found = the_row(events(settings=replace(SETTINGS, prefill=True, batch=2)))
    row, samples = found.row, found.samples
    assert (row.context_tokens, row.batch, row.tpot_ms, row.total_tokens_per_s) == (64, 2, None, None)
    assert row.ttft_ms == pytest.approx(285.0)
    assert row.prompt_tokens_per_s == pytest.approx(2 * 64 / 0.285)
    assert samples.tpot_s == ()
    assert len(samples.ttft_s) == row.repeats


def test_the_ceiling_is_the_bytes_at_the_best_rate_known_and_all_add_up() -> None:
    ladder = ladders(events())[-1]
    assert ladder.ceiling.value == pytest.approx((W + 65 * K) / READ_RATE, rel=2e-3)
    total = ladder.ceiling.value + sum(rung.time.value for rung in ladder.terms)
    assert total == pytest.approx(ladder.measured.value, rel=1e-12)
    assert ladder.verdict.startswith("The step takes 285.0 ms")
    assert ladder.notes == ()


def test_a_ladder_is_the_same_quantity_while_it_is_measured_and_when_it_is_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = iter((1.0, 1.5))
    rates = FakeModel.box_rates

    def faster_at_the_end(self: FakeModel) -> BoxRates:
        found, times = rates(self), next(calls)
        return replace(found, read=replace(found.read, value=found.read.value * times))

    monkeypatch.setattr(FakeModel, "box_rates", faster_at_the_end)
    *_, live, finished = ladders(events())
    assert next(calls, None) is None
    assert finished.ceiling.value == live.ceiling.value
    assert [rung.time.value for rung in finished.rungs] == [rung.time.value for rung in live.rungs]


def test_a_probe_that_found_a_quieter_box_sets_the_ceiling_and_the_rest_is_below_it() -> None:
    usual = ladders(events())[-1]
    with Store() as store:
        store.add_calibration(
            replace(a_calibration(a_cell(gb_s=2 * READ_RATE / 1e9)), machine=str(this_machine()), device="cpu")
        )
    quiet = ladders(events())[-1]
    assert quiet.ceiling.value == pytest.approx(usual.ceiling.value / 2)
    other = next(rung for rung in quiet.rungs if rung.name == BELOW_QUIET)
    assert other.time.value == pytest.approx(usual.ceiling.value / 2)


def test_a_track_with_a_vendor_begins_the_ladder_at_his_figures() -> None:
    ladder = ladders(events(settings=replace(SETTINGS, track="rtx-5090")))[-1]
    assert ladder.rungs[0].name == BELOW_VENDOR
    assert ladder.ceiling.value < ladders(events())[-1].ceiling.value / 10
    assert BELOW_VENDOR not in [rung.name for rung in ladders(events())[-1].rungs]


def test_row_and_ladder_are_kept_as_they_come() -> None:
    at_row: list[Ladder | None] = []
    with Store() as store:

        def listen(event: Event) -> None:
            if isinstance(event, RowMeasured):
                at_row.append(store.ladder(event.row.run_id))

        drive(gap(SETTINGS, fake_load(), TimedWindow()), CancelToken(), store, listen)
        run = store.run("last")
        assert (run.status, run.rows, run.points) == (RunStatus.FINISHED, 1, ((64, 1),))
        assert at_row == [store.ladder(run.run_id)]
        assert at_row[0] is not None
        store.remove_run(run.run_id)
        assert store.ladder(run.run_id) is None


def test_a_pass_that_can_not_be_taken_apart_is_a_row_that_says_why() -> None:
    seen = events(loading(FakePass(FAKE_PARTS_S, 0.020), failing_prompts=frozenset({64})))
    failed = next(event for event in seen if isinstance(event, PointFailed))
    assert (failed.row.status, failed.reason) == ("failed: out of memory", "out of memory")
    assert ladders(seen) == []
    assert isinstance(seen[-1], Finished)
    assert seen[-1].status is RunStatus.FINISHED


def test_a_pass_that_fails_among_the_rounds_keeps_the_ladder_of_those_before() -> None:
    def fail(count: int) -> None:
        if count > 2 * len(Part):
            raise PointError("out of memory")

    seen = events(loading(ToldPass(fail)))
    assert [ladder.rounds for ladder in ladders(seen)] == [1, 2]
    assert isinstance(seen[-2], PointFailed)


def test_cancelled_between_two_passes_it_keeps_the_ladder_so_far() -> None:
    cancel = CancelToken()

    def stop(count: int) -> None:
        if count == 2 * len(Part) + 2:
            cancel.cancel()

    full = ToldPass(stop)
    with Store() as store:
        drive(gap(SETTINGS, loading(full), TimedWindow()), cancel, store, lambda event: None)
        run = store.run("last")
        ladder = store.ladder(run.run_id)
    assert sum(text.startswith("alone") for text in full.asked) == 2 * len(Part) + 2
    assert (run.status, run.rows) == (RunStatus.INTERRUPTED, 0)
    assert run.note == "stopped before the ladder was complete"
    assert ladder is not None
    assert ladder.rounds == 2


def test_outputs_that_changed_are_noted() -> None:
    assert CHANGED in ladders(events(loading(FakePass(FAKE_PARTS_S, 0.020, same=False))))[-1].notes


def test_without_a_narrow_model_the_framework_is_timed_two_ways_and_that_is_noted() -> None:
    class NoNarrow(FakeModel):
        def dissect(self, *about: Any, **named: Any) -> Dissection:
            return replace(super().dissect(*about, **named), narrow=None)

    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        made = fake_load()(planned, cancel)
        return NoNarrow(made.model, made.labels)

    ladder = ladders(events(load))[-1]
    assert any("negligible width" in note for note in ladder.notes)
    framework = next(rung for rung in ladder.rungs if rung.name == ladder_arithmetic.FRAMEWORK)
    assert len(framework.time.inputs) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context": 0}, "context is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"seconds": 0.0}, "seconds of measuring"),
        ({"context": 1_000_000}, "Use a context up to"),
    ],
)
def test_what_can_not_be_measured_is_refused_before_anything_is_loaded(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        events(settings=replace(SETTINGS, **changed))


def test_on_a_known_ladder_only_what_is_asked_for_is_tried() -> None:
    known = ladders(events())[-1]
    full = ToldPass()
    settings = replace(SETTINGS, levers=("preallocated-cache",))
    seen = list(gap(settings, loading(full), TimedWindow(), known)(CancelToken()))
    assert full.asked == []
    assert not any(isinstance(event, RowMeasured) for event in seen)
    first, last = ladders(seen)[0], ladders(seen)[-1]
    assert (first, last.run_id, last.measured) == (known, known.run_id, known.measured)
    assert known.run_id
    assert known.measured_at.endswith("Z")
    assert last.levers[0].measured_saving_s is not None
