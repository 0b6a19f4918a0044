"""The store: rows come back as they were, and each run has one process that may write to it."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.fakes import a_row
from workbench.errors import StoreError
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.schema import SCHEMA_VERSION
from workbench.runs.store import Store


def a_run(run_id: str = "20260101-000000-aaaa") -> Run:
    return Run(run_id, "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box", {"prompts": [1, 16]})


def test_rows_come_back_as_they_were_with_their_samples() -> None:
    row = a_row(ttft_ms=1.5, ui_share=0.0, flags="noted")
    samples = Samples((0.0015, 0.002), (0.01, 0.011))
    with Store() as store:
        store.add_run(a_run())
        store.add_row(row, samples)
    with Store() as store:
        assert store.rows_with_samples(row.run_id) == [(row, samples)]
        assert store.run("last").rows == 1
        assert store.run("2026").settings == {"prompts": [1, 16]}


def test_a_run_ends_with_its_status_and_note() -> None:
    with Store() as store:
        store.add_run(a_run())
        assert store.run("last").status is RunStatus.RUNNING
        store.end_run(a_run().run_id, RunStatus.INTERRUPTED, "stopped")
        assert (store.run("last").status, store.run("last").note) == (RunStatus.INTERRUPTED, "stopped")


def test_a_run_whose_process_is_gone_shows_as_interrupted() -> None:
    code = (
        "import os; from tests.runs.test_store import a_run; from workbench.runs.store import Store\n"
        "store = Store(); store.add_run(a_run()); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ, check=False, cwd=Path(__file__).parents[2])
    with Store() as store:
        assert store.run("last").status is RunStatus.INTERRUPTED


def test_a_run_that_another_workbench_still_measures_is_running_there() -> None:
    code = (
        "import sys; from tests.runs.test_store import a_run; from workbench.runs.store import Store\n"
        "store = Store(); store.add_run(a_run()); print('added', flush=True); sys.stdin.readline()"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with Store() as store:
            run = store.run("last")
            assert run.status is RunStatus.RUNNING
            with pytest.raises(StoreError, match=f"measured by process {process.pid} on "):
                store.resume_run(run)
        process.kill()
        # Not waited for yet: a process that only waits to be heard of measures nothing.
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            pass
        with Store() as store:
            assert store.run("last").status is RunStatus.INTERRUPTED


def test_a_run_left_behind_is_marked_unless_it_has_ended() -> None:
    with Store() as store:
        store.add_run(a_run("one"))
        store.add_run(a_run("two"))
        store.end_run("two", RunStatus.FINISHED)
        store.mark_interrupted("one")
        store.mark_interrupted("two")
        assert [store.run(name).status for name in ("one", "two")] == [RunStatus.INTERRUPTED, RunStatus.FINISHED]


def test_two_stores_write_to_one_file() -> None:
    with Store() as one, Store() as other:
        one.add_run(a_run("one"))
        other.add_run(a_run("two"))
        one.add_row(a_row(run_id="one"), Samples())
        other.add_row(a_row(run_id="two"), Samples())
        assert [len(one.rows(name)) for name in ("one", "two")] == [1, 1]


def test_a_newer_store_is_refused_and_not_altered(tmp_path: Path) -> None:
    path = tmp_path / "newer.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer workbench"):
        Store(path)
    assert path.read_bytes() == before


def test_an_older_store_without_a_column_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "older.sqlite3"
    with Store(path) as store:
        store.add_run(a_run())
        store.add_row(a_row(), Samples())
    with sqlite3.connect(path) as connection:
        for name in ("predicted_resident_bytes", "step_ms", "experts_touched", "memory_needed_bytes"):
            connection.execute(f"ALTER TABLE rows DROP COLUMN {name}")
    with Store(path) as store:
        assert store.rows(a_run().run_id) == [a_row()]


def test_a_store_of_version_2_is_migrated_with_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "older.sqlite3"
    with Store(path) as store:
        store.add_run(a_run())
        store.add_row(a_row(), Samples())
        store.end_run(a_run().run_id, RunStatus.INTERRUPTED, "stopped")
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE rows DROP COLUMN sitting")
        for name in ("about_model", "resumed_at"):
            connection.execute(f"ALTER TABLE runs DROP COLUMN {name}")
        connection.execute("PRAGMA user_version = 2")
    with Store(path) as store:
        run = store.run("last")
        assert (run.status, run.rows, run.sitting, run.about_model) == (RunStatus.INTERRUPTED, 1, 1, {})
        assert store.rows(run.run_id)[0].sitting == 1
        store.resume_run(replace(run, resumed_at=("2026-01-02T00:00:00Z",)))
        assert store.run("last").sitting == 2
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite3"
    path.write_text("not a database at all, but long enough to be read as one" * 20)
    with pytest.raises(StoreError, match=r"notes\.sqlite3"):
        Store(path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="WORKBENCH_DATA"):
        Store(tmp_path / "file" / "runs.sqlite3")


def test_a_full_disk_keeps_the_rows_committed_before(tmp_path: Path) -> None:
    with Store(tmp_path / "full.sqlite3") as store:
        store.add_run(a_run())
        store.add_row(a_row(), Samples())
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full"):
            store.add_row(a_row(flags="x" * 100_000), Samples())
        assert store.rows(a_run().run_id) == [a_row()]


def test_an_unknown_run_offers_the_nearest() -> None:
    with Store() as store:
        with pytest.raises(StoreError, match="no runs yet"):
            store.run("last")
        store.add_run(a_run())
        with pytest.raises(StoreError, match="Did you mean 20260101-000000-aaaa"):
            store.run("20260101-000000-aaab")


def test_a_count_beyond_the_stores_whole_numbers_is_kept() -> None:
    """A refused point may have needed more bytes than 64 bits count."""
    with Store() as store:
        store.add_run(run := a_run())
        store.add_row(a_row(run_id=run.run_id, memory_needed_bytes=1 << 80), Samples())
        (row,) = store.rows(run.run_id)
    assert row.memory_needed_bytes == pytest.approx(1 << 80)


def test_last_is_the_run_that_came_into_the_store_last_whatever_its_own_date() -> None:
    with Store() as store:
        store.add_run(replace(a_run(), run_id="measured here", started_at="2026-06-01T00:00:00Z"))
        old = replace(a_run(), run_id="of an old file", started_at="2023-09-01T00:00:00Z", status=RunStatus.FINISHED)
        store.add_finished_runs([(old, [])])
        assert store.run("last").run_id == "of an old file"
        assert [run.run_id for run in store.runs()] == ["measured here", "of an old file"]
