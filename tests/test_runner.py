import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import a_row
from workbench.errors import SettingsError, StoreError
from workbench.experiments.events import Event, Finished, Progress, RowMeasured, Started
from workbench.runner import Cancelled, CancelToken, Ending, Runner, drive
from workbench.runs.ownership import check_resumable
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store

RUN = Run(a_row().run_id, "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")


def one_row(cancel: CancelToken) -> Iterator[Event]:
    yield Started(RUN)
    yield RowMeasured(a_row(), Samples((0.1,), (0.2,)))
    cancel.check()
    yield Finished(RUN, RunStatus.FINISHED)


def test_a_row_is_in_the_store_before_anyone_hears_of_it() -> None:
    seen: list[int] = []

    def listener(event: Event) -> None:
        if isinstance(event, RowMeasured):
            with Store() as other:
                seen.append(len(other.rows(RUN.run_id)))

    with Store() as store:
        drive(one_row, CancelToken(), store, listener)
        assert store.run("last").status is RunStatus.FINISHED
    assert seen == [1]


def test_an_error_marks_the_run_failed_and_keeps_its_rows() -> None:
    def failing(cancel: CancelToken) -> Iterator[Event]:
        yield Started(RUN)
        yield RowMeasured(a_row(), Samples())
        raise OSError("the disk went away")

    with Store() as store:
        with pytest.raises(OSError, match="went away"):
            drive(failing, CancelToken(), store, lambda event: None)
        run = store.run("last")
        assert (run.status, run.note, run.rows) == (RunStatus.FAILED, "the disk went away", 1)


def test_the_note_of_a_run_is_one_line_whatever_an_error_says() -> None:
    def failing(error: Exception) -> None:
        def experiment(cancel: CancelToken) -> Iterator[Event]:
            yield Started(RUN)
            raise error

        with Store() as store:
            with pytest.raises(type(error)):
                drive(experiment, CancelToken(), store, lambda event: None)
            notes.append(store.run("last").note)
            store.delete_run("last")

    notes: list[str] = []
    failing(RuntimeError("\n\nImporting failed.\n\nMany reasons:\n * one"))
    failing(MemoryError())
    assert notes == ["Importing failed.", "MemoryError"]


def test_a_full_disk_ends_the_run_keeps_its_rows_and_leaves_it_to_be_resumed() -> None:
    def filling(cancel: CancelToken) -> Iterator[Event]:
        yield Started(RUN)
        yield RowMeasured(a_row(), Samples((0.1,), (0.2,)))
        yield RowMeasured(a_row(prompt_tokens=64, flags="x" * 100_000), Samples())

    with Store() as store:

        def listener(event: Event) -> None:
            if isinstance(event, RowMeasured):
                pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
                store.connection.execute(f"PRAGMA max_page_count = {pages}")

        with pytest.raises(StoreError, match=r"database or disk is full\. Rows committed before are kept"):
            drive(filling, CancelToken(), store, listener)
        assert [row.prompt_tokens for row in store.rows(RUN.run_id)] == [16]
        check_resumable(store.run("last"))


def test_a_run_whose_end_could_not_be_written_does_not_go_on_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "add_row", refusing)
    monkeypatch.setattr(Store, "end_run", refusing)
    monkeypatch.setattr(Store, "remove_run", refusing)
    with Store() as store:
        with pytest.raises(StoreError, match="the disk is full"):
            drive(one_row, CancelToken(), store, lambda event: None)
        assert store.run("last").status is RunStatus.INTERRUPTED


def test_a_run_refused_before_its_first_row_leaves_nothing() -> None:
    def refused(cancel: CancelToken) -> Iterator[Event]:
        yield Started(RUN)
        raise SettingsError("no such device")

    with Store() as store:
        with pytest.raises(SettingsError):
            drive(refused, CancelToken(), store, lambda event: None)
        assert store.runs() == []


def test_experiments_run_in_one_thread_one_after_the_other(tmp_path: Path) -> None:
    runner, threads = Runner(Store), set[int]()
    for _ in range(3):
        ending = Ending()

        def experiment(cancel: CancelToken) -> Iterator[Event]:
            threads.add(threading.get_ident())
            yield Progress("here")

        runner.start(experiment, lambda event: None, ending.tell)
        assert ending.wait(30)
    assert threads == {runner.thread.ident}
    assert threading.get_ident() not in threads


def test_a_second_experiment_is_refused_while_one_runs_and_cancelling_ends_it() -> None:
    runner = Runner(Store)
    begun, ending = threading.Event(), Ending()

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        begun.set()
        while not cancel.cancelled:
            cancel._event.wait(30)
        yield Progress("stopped")

    runner.start(experiment, lambda event: None, ending.tell)
    assert begun.wait(30)
    with pytest.raises(RuntimeError, match="must not overlap"):
        runner.start(experiment, lambda event: None, lambda error: None)
    runner.cancel()
    assert ending.wait(30)
    assert runner.wait(30)
    assert ending.error is None


def test_who_waits_for_an_experiment_hears_of_its_error() -> None:
    def failing(cancel: CancelToken) -> Iterator[Event]:
        yield Progress("here")
        raise OSError("the disk went away")

    ending = Ending()
    assert not ending.wait(0)
    Runner(Store).start(failing, lambda event: None, ending.tell)
    assert ending.wait(30)
    assert str(ending.error) == "the disk went away"


def test_a_token_raises_once_it_was_asked() -> None:
    token = CancelToken()
    token.check()
    token.cancel()
    with pytest.raises(Cancelled):
        token.check()
