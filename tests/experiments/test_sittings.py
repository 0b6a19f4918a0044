"""A run gone on with: its missing points alone, with its settings, on what it was begun with."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeModel, a_row, fake_load
from tests.models_on_disk import TINY_CONFIG
from workbench.engines.engine import EngineLabels
from workbench.errors import SettingsError, StoreError
from workbench.experiments import sittings
from workbench.experiments.batch import batch_sweep
from workbench.experiments.events import Event, Finished, RowMeasured
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import LoadPlan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, GapSettings, SweepSettings
from workbench.experiments.sittings import Earlier, earlier_sittings, kept_settings, missing
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, Experiment, drive
from workbench.runs.row import BATCH, point_of
from workbench.runs.run import Run, RunStatus
from workbench.runs.store import Store

SETTINGS = SweepSettings(model="smollm2-135m", prompts=(1, 16, 64), repeats=2, new_tokens=3)
BATCHES = BatchSettings(model="smollm2-135m", contexts=(2, 8), batches=(1, 4), steps=3)


def experiment(settings: SweepSettings | BatchSettings, load: Load, earlier: Earlier | None = None) -> Experiment:
    if isinstance(settings, BatchSettings):
        return batch_sweep(settings, load, TimedWindow(), earlier)
    return sweep(settings, load, TimedWindow(), earlier)


def stopped_after(rows: int, settings: SweepSettings | BatchSettings) -> Run:
    """A run in the store that was cancelled when it had so many rows."""
    token, heard = CancelToken(), list[Event]()

    def listener(event: Event) -> None:
        heard.append(event)
        if sum(isinstance(each, RowMeasured) for each in heard) == rows:
            token.cancel()

    with Store() as store:
        drive(experiment(settings, fake_load()), token, store, listener)
        return store.run("last")


def resume(name: str = "last", load: Load | None = None) -> list[Event]:
    heard: list[Event] = []
    with Store() as store:
        earlier = earlier_sittings(store, name)
        drive(experiment(earlier.settings, load or fake_load(), earlier), CancelToken(), store, heard.append)
    return heard


@pytest.mark.parametrize(
    ("settings", "points"),
    [(SETTINGS, [(1,), (16,), (64,)]), (BATCHES, [(2, 1), (2, 4), (8, 1), (8, 4)])],
    ids=["sweep", "batch"],
)
def test_only_the_missing_points_are_measured_and_say_their_sitting(
    settings: SweepSettings | BatchSettings, points: list[tuple[int, ...]]
) -> None:
    begun = stopped_after(1, settings)
    assert (begun.status, begun.rows, begun.sitting) == (RunStatus.INTERRUPTED, 1, 1)
    heard = resume()
    assert [point_of(event.row) for event in heard if isinstance(event, RowMeasured)] == points[1:]
    with Store() as store:
        run, rows = store.run("last"), store.rows(begun.run_id)
    assert (run.run_id, run.status, run.sitting) == (begun.run_id, RunStatus.FINISHED, 2)
    assert run.started_at == begun.started_at
    assert run.resumed_at[0] >= run.started_at
    assert [point_of(row) for row in rows] == points
    assert [row.sitting for row in rows] == [1, *[2] * (len(points) - 1)]


def test_a_figure_of_the_whole_run_rests_on_the_rows_of_every_sitting() -> None:
    stopped_after(1, BATCHES)
    (finished,) = [event for event in resume() if isinstance(event, Finished)]
    assert [figure.name.partition(" ")[0] for figure in finished.figures] == ["2", "8"]


def test_a_third_sitting_goes_on_from_the_second() -> None:
    begun = stopped_after(1, SETTINGS)
    token = CancelToken()
    with Store() as store:
        earlier = earlier_sittings(store, "last")

        def listener(event: Event) -> None:
            if isinstance(event, RowMeasured):
                token.cancel()

        drive(experiment(earlier.settings, fake_load(), earlier), token, store, listener)
    resume()
    with Store() as store:
        assert [row.sitting for row in store.rows(begun.run_id)] == [1, 2, 3]


@pytest.mark.parametrize("settings", [SETTINGS, replace(BATCHES, mixed=True, threads=1)], ids=["sweep", "batch"])
def test_settings_come_back_from_the_store_as_they_were(settings: SweepSettings | BatchSettings) -> None:
    assert kept_settings(stopped_after(1, settings)) == settings


def test_settings_of_another_version_are_read_by_name() -> None:
    run = stopped_after(1, SETTINGS)
    plain = {**run.settings, "a setting of the future": 3}
    del plain["repeats"]
    assert kept_settings(replace(run, settings=plain)) == replace(SETTINGS, repeats=SweepSettings.repeats)


def test_settings_that_cannot_be_read_and_kinds_that_are_not_resumed_are_refused() -> None:
    run = stopped_after(1, SETTINGS)
    with pytest.raises(SettingsError, match="can't be read"):
        kept_settings(replace(run, settings={"prompts": "many"}))
    with pytest.raises(SettingsError, match="'of the future'"):
        kept_settings(replace(run, kind="of the future"))


def test_a_ladder_is_measured_as_a_whole_and_not_resumed() -> None:
    run = stopped_after(0, SETTINGS)
    with Store() as store:
        gap = replace(run, run_id="g", kind="gap", settings=GapSettings(model=SETTINGS.model).plain())
        store.add_run(gap)
        store.end_run("g", RunStatus.INTERRUPTED, "stopped")
        assert kept_settings(gap) == GapSettings(model=SETTINGS.model)
        with pytest.raises(SettingsError, match="measures it anew"):
            earlier_sittings(store, "g")


def test_a_point_named_twice_is_measured_twice() -> None:
    rows = [a_row(prompt_tokens=1), a_row(prompt_tokens=16, status="failed: out of memory")]
    assert missing([(1,), (16,), (1,), (64,)], rows) == (False, False, True, True)
    assert missing([(2, 1), (2, 4)], [a_row(kind=BATCH, prompt_tokens=2, batch=4)]) == (True, False)


def test_a_finished_run_is_not_resumed() -> None:
    stopped_after(99, SETTINGS)
    with Store() as store, pytest.raises(StoreError, match="is finished"):
        earlier_sittings(store, "last")


def test_a_run_killed_between_its_last_row_and_its_end_is_marked_finished() -> None:
    run = stopped_after(99, SETTINGS)
    with Store() as store:
        store.end_run(run.run_id, RunStatus.INTERRUPTED)
        with pytest.raises(StoreError, match="nothing is missing"):
            earlier_sittings(store, "last")
        assert store.run("last").status is RunStatus.FINISHED


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_after(1, SETTINGS)
    monkeypatch.setattr(sittings, "this_machine", lambda: "a larger box · 64 cores")
    with Store() as store, pytest.raises(SettingsError, match="begun on another machine"):
        earlier_sittings(store, "last")


def test_another_model_of_that_name_is_refused_and_the_run_stays_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY_CONFIG))
    begun = stopped_after(1, replace(SETTINGS, model=str(folder)))
    (folder / "config.json").write_text(json.dumps({**TINY_CONFIG, "num_hidden_layers": 3}))
    with pytest.raises(SettingsError, match=r"The model is another one: parameters [0-9]+ then"):
        resume()
    with Store() as store:
        assert store.run("last") == begun


def test_a_folder_named_from_elsewhere_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(TINY_CONFIG))
    monkeypatch.chdir(tmp_path)
    stopped_after(1, replace(SETTINGS, model="tiny"))
    monkeypatch.chdir("/")
    resume()
    with Store() as store:
        assert store.run("last").status is RunStatus.FINISHED


def labelled(**changed: Any) -> Callable[[LoadPlan, CancelToken], FakeModel]:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        labels = EngineLabels("fake", "1", "none", planned.settings.dtype, "cpu", 2)
        return FakeModel(planned.resident, replace(labels, **changed))

    return load


@pytest.mark.parametrize("changed", [{"engine_version": "2"}, {"threads": 1}], ids=["engine version", "threads"])
def test_what_would_give_other_labels_is_refused_and_the_run_stays_interrupted(changed: dict[str, Any]) -> None:
    stopped_after(1, SETTINGS)
    with pytest.raises(SettingsError, match=f"{next(iter(changed)).replace('_', ' ')} . then"):
        resume(load=labelled(**changed))
    with Store() as store:
        run = store.run("last")
    assert (run.status, run.rows) == (RunStatus.INTERRUPTED, 1)
    assert "can't be resumed" in run.note


def test_a_run_that_is_being_measured_is_not_resumed() -> None:
    refused: list[str] = []

    def listener(event: Event) -> None:
        if isinstance(event, RowMeasured):
            with Store() as other, pytest.raises(StoreError) as error:
                earlier_sittings(other, "last")
            refused.append(str(error.value))

    with Store() as store:
        drive(experiment(SETTINGS, fake_load()), CancelToken(), store, listener)
    assert all("is being measured by process" in each for each in refused)
    assert len(refused) == len(SETTINGS.prompts)


def test_of_two_that_resume_one_run_at_once_the_second_is_refused() -> None:
    run = sittings.next_sitting(stopped_after(1, SETTINGS))
    with Store() as one, Store() as other:
        one.resume_run(run)
        with pytest.raises(StoreError, match="is being measured"):
            other.resume_run(run)
