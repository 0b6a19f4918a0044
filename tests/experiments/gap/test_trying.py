"""Levers on an engine whose variants take known times: order, pairs, predictions kept first, bounds, time, cancel."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FAKE_PARTS_S, FakeModel, FakePass, fake_load
from workbench.errors import SettingsError
from workbench.experiments.events import Event, Finished, LadderMeasured, Progress
from workbench.experiments.gap import gap as gap_module
from workbench.experiments.gap import ladder as ladder_arithmetic
from workbench.experiments.gap.gap import gap
from workbench.experiments.gap.gap_plan import plan_gap, round_seconds
from workbench.experiments.gap.levers import PAIRS, VARIANTS, Trial, tried
from workbench.experiments.gap.parts import Part
from workbench.experiments.gap.trying import find_fastest
from workbench.experiments.gap.variant import AS_LOADED, Agreement, Variant
from workbench.experiments.gap.winner import preset_path
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import GapSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, drive
from workbench.runs.ladder import Ladder, LeverTried
from workbench.runs.run import RunStatus
from workbench.runs.store import Store
from workbench.tracks import load_tracks, track_batch, track_settings

SETTINGS = GapSettings(model="smollm2-135m", context=64, device="cpu", seconds=1e-9)
INT8, CACHE, HALF = VARIANTS["int8-weights"], VARIANTS["preallocated-cache"], VARIANTS["bfloat16"]
COMPILED, HALF_RANGE = VARIANTS["compiled"], VARIANTS["float16"]
SLOW_CACHE_S = {**FAKE_PARTS_S, Part.CACHE: 0.060}


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ladder_arithmetic, "RESAMPLES", 20)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class Tried:
    """One run with a fake model: its events, the model, and what its store keeps."""

    def __init__(
        self,
        settings: GapSettings,
        cancel: CancelToken | None = None,
        heard: Callable[[Event, FakeModel], None] = lambda event, model: None,
        **about: object,
    ) -> None:
        self.events: list[Event] = []
        load = fake_load()

        def loaded(planned: LoadPlan, token: CancelToken) -> FakeModel:
            self.model = replace(load(planned, token), full=FakePass(SLOW_CACHE_S, 0.020), **about)  # type: ignore[arg-type]
            return self.model

        def listen(event: Event) -> None:
            self.events.append(event)
            heard(event, self.model) if hasattr(self, "model") else None

        with Store() as store:
            drive(gap(settings, loaded, TimedWindow()), cancel or CancelToken(), store, listen)
            self.kept = store.ladder(store.run("last").run_id)

    @property
    def ladders(self) -> list[Ladder]:
        return [event.ladder for event in self.events if isinstance(event, LadderMeasured)]

    @property
    def last(self) -> Ladder:
        return self.ladders[-1]


def test_predictions_are_kept_before_anything_is_tried() -> None:
    seen: list[tuple[Sequence[float | None], list[str]]] = []

    def heard(event: Event, model: FakeModel) -> None:
        if isinstance(event, LadderMeasured) and event.ladder.levers:
            with Store() as store:
                kept = store.ladder(event.run_id)
            assert kept is not None
            seen.append(([lever.measured_saving_s for lever in kept.levers], list(model.calls)))
            assert all(lever.predicted_saving_s is not None or lever.note for lever in kept.levers)

    Tried(replace(SETTINGS, levers=("all",)), heard=heard, speeds={INT8: 2.0})
    measured, calls = seen[0]
    assert set(measured) == {None}
    assert calls == []


def test_each_lever_is_predicted_from_the_rungs_it_acts_on_the_greatest_first() -> None:
    levers = Tried(replace(SETTINGS, levers=("all",))).last.levers
    predicted = {lever.name: lever.predicted_saving_s for lever in levers}
    weights_s = SLOW_CACHE_S[Part.WEIGHTS] + SLOW_CACHE_S[Part.HEAD]
    assert predicted["bfloat16"] == pytest.approx(weights_s / 2)
    assert predicted["int8-weights"] == pytest.approx(weights_s * 3 / 4)
    assert predicted["preallocated-cache"] == pytest.approx(SLOW_CACHE_S[Part.CACHE])
    known = [saving for saving in predicted.values() if saving is not None]
    assert known == sorted(known, reverse=True)
    assert levers[-1].predicted_saving_s is None
    assert "float32" not in predicted


def test_a_lever_is_timed_in_pairs_that_take_turns_after_its_outputs_were_compared() -> None:
    found = Tried(replace(SETTINGS, levers=("int8-weights",)), speeds={INT8: 2.0})
    (lever,) = found.last.levers
    name = str(INT8)
    plain, variant = "step: as loaded", f"step: {name}"
    turns = [call for call in found.model.calls if call.startswith("step")][2:]
    assert turns == [plain, variant, variant, plain] * (PAIRS // 2)
    assert found.model.calls.index(f"agreement: {name}") < found.model.calls.index(variant)
    assert lever.measured_saving_s == pytest.approx(0.125 / 2)
    assert lever.resolved
    assert len(lever.as_loaded_s) == len(lever.with_it_s) == PAIRS
    assert lever.agrees
    assert (lever.speedup, lever.ttft_ratio) == pytest.approx((2.0, 1.0))
    assert "synthetic weights" in lever.note
    assert found.model.calls[-2:] == [f"closed: {name}", "closed: as loaded"]


def test_a_saving_that_its_pairs_do_not_bound_keeps_nothing() -> None:
    trial = Trial(
        (0.03, 0.9, 0.03, 0.03, 1.3, 0.03), (0.04, 0.05, 0.04, 0.02, 0.03, 0.02), 1.0, 0, Agreement(0.0, 0.0, 1.0, 8)
    )
    assert trial.saving_s > 0
    assert not trial.saves
    lever = tried(LeverTried("bfloat16", 0.01), trial, 0, synthetic=False, disturbed="other processes took 71 %")
    assert not lever.resolved
    assert lever.disturbed


def test_the_search_combines_what_helps_and_keeps_the_winner_as_a_preset() -> None:
    settings = replace(SETTINGS, fastest_within=1e9)
    found = Tried(settings, speeds={INT8: 2.5, CACHE: 1.5, HALF: 0.5, COMPILED: 0.9})
    fastest = found.last.fastest
    assert fastest is not None
    assert fastest.name == str(INT8.with_change(CACHE))
    assert fastest.speedup == pytest.approx(3.75)
    assert found.kept == found.last
    assert fastest.preset == str(preset_path("smollm2-135m"))
    track = load_tracks().tracks["fastest smollm2-135m"]
    assert (track.models, track.sweep.dtype) == (("smollm2-135m",), "float32")
    assert "33.3 ms instead of 125.0" in track.notes[0]
    assert track_settings(track).variant == INT8.with_change(CACHE) == track_batch(track).variant


def test_a_winners_dtype_and_threads_are_what_its_preset_opens_sweeps_with() -> None:
    half_threads = Variant(threads=1)
    settings = replace(SETTINGS, fastest_within=1e9, threads=2)
    Tried(settings, speeds={HALF: 2.0, half_threads: 1.5, INT8: 0.5, COMPILED: 0.5})
    track = load_tracks().tracks["fastest smollm2-135m"]
    opened = track_settings(track)
    assert (opened.dtype, opened.threads, track_batch(track).threads) == ("bfloat16", 1, 1)
    assert opened.variant == AS_LOADED


def test_a_variant_whose_outputs_changed_never_wins_nor_is_built_on() -> None:
    found = Tried(
        replace(SETTINGS, fastest_within=1e9),
        speeds={INT8: 9.0, CACHE: 1.5, COMPILED: 0.9},
        disagreeing=frozenset({INT8}),
    )
    fastest = found.last.fastest
    assert fastest is not None
    assert fastest.name == str(CACHE)
    changed = next(lever for lever in found.last.levers if lever.name == "int8-weights")
    assert changed.agrees is False
    assert changed.speedup == pytest.approx(9.0)
    assert not [call for call in found.model.calls if "int8" in call and "cache" in call]


def test_of_changes_that_undo_each_other_only_the_better_is_built_on() -> None:
    found = Tried(replace(SETTINGS, fastest_within=1e9), speeds={HALF: 3.0, HALF_RANGE: 2.0, CACHE: 1.5, COMPILED: 0.9})
    fastest = found.last.fastest
    assert fastest is not None
    assert fastest.name == str(HALF.with_change(CACHE))
    assert not [call for call in found.model.calls if f"{HALF_RANGE}, " in call and "bfloat16" not in call]


def test_without_a_compiler_nothing_is_compiled_and_the_ladder_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    last = Tried(replace(SETTINGS, levers=("all",))).last
    assert "compiled" not in {lever.name for lever in last.levers}
    assert "torch.compile needs no-such-compiler, which isn't found" in last.notes[-1]


def test_where_nothing_is_faster_nothing_is_kept() -> None:
    found = Tried(replace(SETTINGS, fastest_within=1e9), speeds=dict.fromkeys(VARIANTS.values(), 0.5))
    fastest = found.last.fastest
    assert fastest is not None
    assert (fastest.name, fastest.speedup, fastest.preset) == ("as loaded", 1.0, "")
    assert not preset_path("smollm2-135m").exists()


@pytest.mark.parametrize("within_s", [3.0, 6.0, 12.0])
def test_no_trial_is_begun_that_would_outlast_the_time(monkeypatch: pytest.MonkeyPatch, within_s: float) -> None:
    model: list[FakeModel] = []

    def on_its_clock(sweep, ladder, within, save):  # type: ignore[no-untyped-def]
        model.append(sweep.loaded)
        return find_fastest(sweep, ladder, within, save, clock=lambda: sweep.loaded.now)

    monkeypatch.setattr(gap_module, "find_fastest", on_its_clock)
    found = Tried(replace(SETTINGS, fastest_within=within_s), speeds={INT8: 2.0, CACHE: 1.5})
    fastest = found.last.fastest
    assert fastest is not None
    assert 0 < fastest.seconds <= within_s
    left_out = [lever for lever in found.last.levers if lever.note.startswith("no time was left")]
    assert left_out
    assert all(lever.measured_saving_s is None for lever in left_out)


def test_a_refused_variant_is_told_and_the_rest_is_tried() -> None:
    found = Tried(replace(SETTINGS, levers=("all",)), refused=frozenset({INT8}))
    by_name = {lever.name: lever for lever in found.last.levers}
    assert "can't be run here: it needs 9.0 GB" in by_name["int8-weights"].note
    assert by_name["int8-weights"].measured_saving_s is None
    assert by_name["bfloat16"].measured_saving_s == pytest.approx(0.0)


def test_without_memory_for_the_plain_pass_the_ladder_says_that_nothing_could_be_tried() -> None:
    found = Tried(replace(SETTINGS, fastest_within=10.0), refused=frozenset({AS_LOADED}))
    assert "no lever could be tried" in found.last.notes[-1]


def test_cancelling_a_search_keeps_what_it_found() -> None:
    cancel = CancelToken()

    def heard(event: Event, model: FakeModel) -> None:
        if isinstance(event, Progress) and event.stage.startswith("trying") and event.point == 2:
            cancel.cancel()

    found = Tried(replace(SETTINGS, fastest_within=1e9), cancel, heard, speeds={INT8: 2.0})
    end = found.events[-1]
    assert isinstance(end, Finished)
    assert end.status is RunStatus.INTERRUPTED
    assert found.kept is not None
    assert found.kept.fastest is not None
    assert found.kept.fastest.speedup == pytest.approx(2.0)
    assert found.model.closed


def test_a_lever_mistyped_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="bfloat16"):
        Tried(replace(SETTINGS, levers=("bfloat61",)))


def test_the_plan_counts_the_search_into_its_seconds() -> None:
    searching = plan_gap(replace(SETTINGS, fastest_within=300.0))
    assert searching.seconds == pytest.approx(plan_gap(SETTINGS).seconds + 300.0)


def test_a_search_without_time_is_refused() -> None:
    with pytest.raises(SettingsError, match="more than none"):
        plan_gap(replace(SETTINGS, fastest_within=0.0))


def test_changes_add_up() -> None:
    both = INT8.with_change(CACHE)
    assert both == Variant(stored=INT8.stored, cache=CACHE.cache)
    assert AS_LOADED.with_change(INT8) == INT8
    assert str(both) == "int8 weights, preallocated cache"


def test_the_plan_holds_the_least_rounds_and_says_where_they_take_longer_than_asked() -> None:
    short, long = plan_gap(replace(SETTINGS, seconds=0.5)), plan_gap(replace(SETTINGS, seconds=1e4))
    assert short.seconds > short.least_s > 0.5
    assert "5 rounds are the least" in short.longer_words
    assert long.longer_words == ""
    assert long.seconds - short.seconds == pytest.approx(1e4 - short.least_s)


def test_a_short_pass_is_run_once_more_for_each_time_it_is_timed() -> None:
    beside = round_seconds(0.0)
    short, long = round_seconds(0.1) - beside, round_seconds(0.2) - beside
    assert short == pytest.approx(long)
