"""The SQLite store: every run and every row, committed one by one, with the samples behind them."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from workbench.errors import StoreError, unknown_name
from workbench.hardware.calibration import Calibration
from workbench.hardware.timings import Conditions, Timing
from workbench.paths import data_folder
from workbench.runs import owner
from workbench.runs.foretold import Foretold
from workbench.runs.ladder import Ladder
from workbench.runs.row import COLUMNS, Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples

SCHEMA_VERSION = 4
LARGEST_WHOLE = (1 << 63) - 1
BUSY_TIMEOUT_S = 10.0
LEFT_NOTE = "the workbench was left while it ran"
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_ADDED_TO_RUNS = {"about_model": "TEXT NOT NULL DEFAULT '{}'", "resumed_at": "TEXT NOT NULL DEFAULT '[]'"}
"""Columns of runs that stores of version 2 and before lack."""


def store_path() -> Path:
    """Where this user's runs are kept."""
    return data_folder() / "runs.sqlite3"


class Store:
    """One connection to the store, for the thread that opened it; use it as a context manager.

    Raises StoreError where the file can't be opened, is no store, or was written by a newer version.
    A rollback journal, not a write-ahead log: home folders are often on a network file system.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or store_path()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The store of runs {self.path} can't be opened: {error}. Make its folder writable, or name "
                "another folder in the environment variable WORKBENCH_DATA."
            ) from error
        self._connection.row_factory = sqlite3.Row
        try:
            with self._explained("opened"):
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        self._connection.close()

    def add_run(self, run: Run) -> None:
        """Commit a run as running, owned by this process."""
        with self._transaction():
            self._insert_run(replace(run, status=RunStatus.RUNNING, owner=owner.this_process()))
        owner.begun_here(run.run_id)

    def add_finished_runs(self, runs: Iterable[tuple[Run, Sequence[tuple[Row, Samples]]]]) -> None:
        """Commit runs that are over with all their rows, the whole of them or nothing."""
        with self._transaction():
            for run, rows in runs:
                self._insert_run(run)
                self._insert_rows(rows)

    def _insert_run(self, run: Run) -> None:
        self._connection.execute(
            "INSERT INTO runs"
            " (run_id, kind, started_at, model, machine, settings, status, note, owner, about_model)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                run.run_id,
                run.kind,
                run.started_at,
                run.model,
                run.machine,
                msgspec.json.encode(run.settings).decode(),
                run.status,
                run.note,
                run.owner,
                msgspec.json.encode(run.about_model).decode(),
            ),
        )

    def _insert_rows(self, rows: Iterable[tuple[Row, Samples]]) -> None:
        names = [column.name for column in COLUMNS]
        marks = ", ".join("?" * (len(names) + 1))
        values_of = attrgetter(*names)
        self._connection.executemany(
            f"INSERT INTO rows ({', '.join(names)}, samples) VALUES ({marks})",
            ([*_storable(values_of(row)), msgspec.json.encode(samples).decode()] for row, samples in rows),
        )

    def resume_run(self, run: Run) -> None:
        """Commit a run as running again, owned by this process, with its sittings.

        Raises StoreError where it is finished, or another process measures it.
        """
        with self._transaction():
            check_resumable(self.run(run.run_id))
            self._connection.execute(
                "UPDATE runs SET status = ?, note = '', owner = ?, resumed_at = ? WHERE run_id = ?",
                (
                    RunStatus.RUNNING,
                    owner.this_process(),
                    msgspec.json.encode(run.resumed_at).decode(),
                    run.run_id,
                ),
            )
        owner.begun_here(run.run_id)

    def take_over(self, run_id: str) -> Run:
        """Commit that the process which measures a run is gone, which can't be seen from here; the run as it is then.

        If that process does go on after all, its next row is refused and it stops. Raises StoreError where the run does
        not say that it is running, or its process is alive on this machine.
        """
        with self._transaction():
            run = self.run(run_id)
            if run.status is not RunStatus.RUNNING:
                raise StoreError(f"{run.run_id} is {run.status}: no process measures it that could be replaced.")
            if not can_be_taken_over(run):
                raise StoreError(
                    f"{run.run_id} is being measured by {owner.process_words(run.owner)}, which is alive. Stop it "
                    "there, and ask again then."
                )
            note = f"taken over from {owner.process_words(run.owner)}"
            self._connection.execute(
                "UPDATE runs SET status = ?, note = ?, owner = '' WHERE run_id = ?",
                (RunStatus.INTERRUPTED, note, run.run_id),
            )
        return self.run(run.run_id)

    def add_row(self, row: Row, samples: Samples) -> None:
        """Commit one row with its samples; raises StoreError where its run was taken over or deleted meanwhile."""
        with self._transaction():
            self._check_owned(row.run_id)
            self._insert_rows([(row, samples)])

    def add_calibration(self, calibration: Calibration) -> None:
        """Commit what a probe found, every sample of every cell with it."""
        with self._transaction():
            self._connection.execute(
                "INSERT INTO calibrations (calibration_id, machine, device, taken_at, data) VALUES (?, ?, ?, ?, ?)",
                (
                    calibration.calibration_id,
                    calibration.machine,
                    calibration.device,
                    calibration.taken_at,
                    msgspec.json.encode(calibration).decode(),
                ),
            )

    def calibrations(self, machine: str, most: int = 8) -> list[Calibration]:
        """The newest calibrations of a machine that know its B, newest first; what can't be read is passed over.

        Those stopped among their reads come last: their B may lack the fastest kernel.
        """
        with self._explained("read"):
            found = self._connection.execute(
                "SELECT data FROM calibrations WHERE machine = ? ORDER BY rowid DESC LIMIT ?", (machine, most)
            ).fetchall()
        calibrations = []
        for record in found:
            # One that another version of the workbench wrote is not read: the next probe takes its place.
            with suppress(msgspec.DecodeError):
                calibrations.append(msgspec.json.decode(record["data"], type=Calibration))
        known = [calibration for calibration in calibrations if calibration.read is not None]
        return sorted(known, key=lambda calibration: not calibration.reads_all)

    def keep_ladder(self, run_id: str, ladder: Ladder) -> None:
        """Commit the ladder of a run, in the place of one of fewer rounds; StoreError as of a row."""
        with self._transaction():
            self._check_owned(run_id)
            self._connection.execute(
                "INSERT OR REPLACE INTO ladders (run_id, data) VALUES (?, ?)",
                (run_id, msgspec.json.encode(ladder).decode()),
            )

    def ladder(self, run_id: str) -> Ladder | None:
        """The ladder of a run; None where it has none, or one that another version of the workbench wrote."""
        with self._explained("read"):
            found = self._connection.execute("SELECT data FROM ladders WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            return None
        try:
            return msgspec.json.decode(found["data"], type=Ladder)
        except msgspec.DecodeError:
            return None

    def keep_predictions(self, run_id: str, predictions: Iterable[Foretold]) -> None:
        """Commit what is predicted of a run's points; what was predicted of one before stays as it was."""
        with self._transaction():
            self._connection.executemany(
                "INSERT OR IGNORE INTO predictions (run_id, prompt_tokens, batch, data) VALUES (?, ?, ?, ?)",
                [(run_id, p.prompt_tokens, p.batch, msgspec.json.encode(p).decode()) for p in predictions],
            )

    def predictions(self, run_id: str) -> list[Foretold]:
        """What was predicted of a run's points."""
        with self._explained("read"):
            found = self._connection.execute("SELECT data FROM predictions WHERE run_id = ?", (run_id,)).fetchall()
        return [msgspec.json.decode(record["data"], type=Foretold) for record in found]

    def keep_timings(self, timings: Iterable[Timing]) -> None:
        """Commit timed operations, each in the place of its earlier timing under the same conditions."""
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO timings (conditions, operation, working_bytes, data) VALUES (?, ?, ?, ?)",
                [
                    (
                        *(msgspec.json.encode(part).decode() for part in (t.conditions, t.operation)),
                        t.working_bytes,
                        msgspec.json.encode(t).decode(),
                    )
                    for t in timings
                ],
            )

    def timings(self, conditions: Conditions) -> list[Timing]:
        """The operations timed under these conditions."""
        with self._explained("read"):
            found = self._connection.execute(
                "SELECT data FROM timings WHERE conditions = ?", (msgspec.json.encode(conditions).decode(),)
            ).fetchall()
        return [msgspec.json.decode(record["data"], type=Timing) for record in found]

    def timed_conditions(self) -> list[Conditions]:
        """All conditions that operations were timed under."""
        with self._explained("read"):
            found = self._connection.execute("SELECT DISTINCT conditions FROM timings").fetchall()
        return [msgspec.json.decode(record["conditions"], type=Conditions) for record in found]

    def predicted_rows(self, machine: str) -> list[Row]:
        """A machine's rows that carry a prediction from timed operations, the newest first."""
        with self._explained("read"):
            found = self._connection.execute(
                "SELECT * FROM rows WHERE machine = ? AND predicted_from IS NOT NULL ORDER BY rowid DESC", (machine,)
            ).fetchall()
        return [_row(record) for record in found]

    def end_run(self, run_id: str, status: RunStatus, note: str = "") -> None:
        """Commit how a run of this process ended; one that was taken over stays as it is."""
        with self._transaction():
            self._connection.execute(
                "UPDATE runs SET status = ?, note = ? WHERE run_id = ? AND owner = ?",
                (status, note, run_id, owner.this_process()),
            )

    def mark_finished(self, run: Run) -> None:
        """Commit that a run which no process measures is complete; raises StoreError where one does by now."""
        with self._transaction():
            check_resumable(self.run(run.run_id))
            self._connection.execute("UPDATE runs SET status = ? WHERE run_id = ?", (RunStatus.FINISHED, run.run_id))

    def mark_interrupted(self, run_id: str) -> None:
        """Commit that a run of this process was left while it ran, unless it has ended since."""
        with self._transaction():
            self._connection.execute(
                "UPDATE runs SET status = ?, note = ? WHERE run_id = ? AND status = ? AND owner = ?",
                (RunStatus.INTERRUPTED, LEFT_NOTE, run_id, RunStatus.RUNNING, owner.this_process()),
            )

    def delete_run(self, run_id: str) -> Run:
        """Take a run that no process measures out, with its rows, and say which it was.

        Raises StoreError where there is none of that name, or a process measures it.
        """
        with self._transaction():
            run = self.run(run_id)
            check_unowned(run)
            self._delete(run.run_id)
        return run

    def remove_run(self, run_id: str) -> None:
        """Take a run of this process and its rows out; one that was taken over stays."""
        with self._transaction():
            if self._owner_of(run_id) == owner.this_process():
                self._delete(run_id)

    def runs(self) -> list[Run]:
        """All runs, the newest first; one whose process is gone while it says running is interrupted."""
        with self._explained("read"):
            found = self._connection.execute(
                "SELECT runs.*, row_count, device, dtype, best_tokens_per_s, last_row_at FROM runs LEFT JOIN"
                " (SELECT run_id, COUNT(*) AS row_count, MIN(device) AS device, MIN(dtype) AS dtype,"
                " MAX(total_tokens_per_s) AS best_tokens_per_s, MAX(started_at) AS last_row_at FROM rows"
                " GROUP BY run_id) USING (run_id)"
                " ORDER BY runs.started_at DESC, runs.rowid DESC"
            ).fetchall()
        return [_run(record) for record in found]

    def run(self, run_id: str) -> Run:
        """The run of that name, `last` for the newest, or a unique beginning of one; StoreError where there is none."""
        runs = self.runs()
        if run_id == "last" and runs:
            return runs[0]
        matching = [r for r in runs if r.run_id == run_id] or [r for r in runs if r.run_id.startswith(run_id)]
        if run_id and len(matching) == 1:
            return matching[0]
        if not runs:
            raise StoreError(f"The store {self.path} holds no runs yet. `workbench sweep MODEL` measures one.")
        if len(matching) > 1 and run_id:
            raise StoreError(f"{len(matching)} runs begin with {run_id!r}: name one in full, or `last`.")
        raise StoreError(unknown_name("run", run_id, [r.run_id for r in runs[:20]]))

    def rows(self, run_id: str) -> list[Row]:
        """A run's rows in the order they were measured."""
        return [row for row, _ in self.rows_with_samples(run_id)]

    def latest_rates(self, machine: str, device: str) -> list[Row]:
        """The newest row of each dtype on a machine's device that carries the rates it was measured with."""
        with self._explained("read"):
            found = self._connection.execute(
                "SELECT *, MAX(rowid) AS newest FROM rows WHERE machine = ? AND device = ? AND read_gb_per_s > 0"
                " GROUP BY dtype ORDER BY newest DESC",
                (machine, device),
            ).fetchall()
        return [_row(record) for record in found]

    def rows_with_samples(self, run_id: str) -> list[tuple[Row, Samples]]:
        """A run's rows with every sample behind each."""
        with self._explained("read"):
            found = self._connection.execute("SELECT * FROM rows WHERE run_id = ? ORDER BY rowid", (run_id,)).fetchall()
        return [(_row(record), msgspec.json.decode(record["samples"], type=Samples)) for record in found]

    def _delete(self, run_id: str) -> None:
        for table in ("rows", "ladders", "runs"):
            self._connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

    def _owner_of(self, run_id: str) -> str | None:
        """The process that measures a run or did so last; None where there is no such run."""
        found = self._connection.execute("SELECT owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return None if found is None else str(found["owner"])

    def _check_owned(self, run_id: str) -> None:
        found = self._owner_of(run_id)
        if found is None:
            raise StoreError(
                f"{run_id} is no longer in the store {self.path}: it was deleted. Its measuring stops here."
            )
        if found != owner.this_process():
            raise StoreError(
                f"{run_id} was taken over from this process by another workbench. Its rows so far are kept, and its "
                "measuring stops here."
            )

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"The store {self.path} was written by a newer workbench (its version {version}, this one knows "
                f"{SCHEMA_VERSION}). It was not touched: upgrade the workbench, or set WORKBENCH_DATA to another "
                "folder."
            )
        if version == SCHEMA_VERSION and not self._missing_columns():
            return
        with self._transaction():
            columns = ", ".join(f"{column.name} {_SQL_TYPES[column.type]}" for column in COLUMNS)
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS runs"
                " (run_id TEXT PRIMARY KEY, kind TEXT NOT NULL, started_at TEXT NOT NULL,"
                " model TEXT NOT NULL, machine TEXT NOT NULL, settings TEXT NOT NULL, status TEXT NOT NULL,"
                " note TEXT NOT NULL, owner TEXT NOT NULL)"
            )
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS rows ({columns}, samples TEXT NOT NULL)")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS calibrations"
                " (calibration_id TEXT PRIMARY KEY, machine TEXT NOT NULL, device TEXT NOT NULL,"
                " taken_at TEXT NOT NULL, data TEXT NOT NULL)"
            )
            self._connection.execute("CREATE TABLE IF NOT EXISTS ladders (run_id TEXT PRIMARY KEY, data TEXT NOT NULL)")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS predictions (run_id TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,"
                " batch INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, prompt_tokens, batch))"
            )
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS timings (conditions TEXT NOT NULL, operation TEXT NOT NULL,"
                " working_bytes INTEGER NOT NULL, data TEXT NOT NULL,"
                " PRIMARY KEY (conditions, operation, working_bytes))"
            )
            self._connection.execute("CREATE INDEX IF NOT EXISTS rows_of_run ON rows (run_id)")
            for table, column in self._missing_columns():
                self._connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _missing_columns(self) -> list[tuple[str, str]]:
        """The tables that lack a column of this version, each with the column and its type."""
        rows = {column.name: _SQL_TYPES[column.type] for column in COLUMNS}
        return [
            (table, f"{name} {declared}")
            for table, columns in (("rows", rows), ("runs", _ADDED_TO_RUNS))
            for name, declared in columns.items()
            if name not in {record["name"] for record in self._connection.execute(f"PRAGMA table_info({table})")}
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained("written"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self, deed: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"The store of runs {self.path} can't be {deed}: {error}. Rows committed before are kept. Check that "
                "the disk has room, that no other program holds the file and that it is a workbench store, or set "
                "WORKBENCH_DATA to another folder."
            ) from error


def _storable(values: Iterable[Any]) -> list[Any]:
    """The values; a count beyond the store's whole numbers as a float, as what a refused point would have needed."""
    return [float(value) if type(value) is int and abs(value) > LARGEST_WHOLE else value for value in values]


def check_resumable(run: Run) -> None:
    """Raise StoreError where a run is finished, or a process measures it."""
    if run.status is RunStatus.FINISHED:
        raise StoreError(f"{run.run_id} is finished: every point has its row, and there is nothing to resume.")
    check_unowned(run)


def check_unowned(run: Run) -> None:
    """Raise StoreError where a process measures a run, or one that can't be looked for from here may."""
    if run.status is not RunStatus.RUNNING:
        return
    if not can_be_taken_over(run):
        raise StoreError(
            f"{run.run_id} is being measured by {owner.process_words(run.owner)}. Stop it there, and ask again then."
        )
    raise StoreError(f"{owner_words(run)} If that process is gone, add --take-over, or press u or d on the Runs pane.")


def can_be_taken_over(run: Run) -> bool:
    """Whether a run says that it is running, and it can't be seen from here that its process is alive."""
    return run.status is RunStatus.RUNNING and not owner.is_here(run.owner)


def owner_words(run: Run) -> str:
    """Which process owns a run, and when it was last heard of."""
    last = (
        f"the last row it wrote is of a point begun at {run.last_row_at}"
        if run.last_row_at
        else f"it has written no row since it was begun at {run.last_seen_at}"
    )
    return (
        f"{run.run_id} was being measured by {owner.process_words(run.owner)}, which can't be seen from here: {last}."
    )


def _row(record: Any) -> Row:
    # A column that the workbench which wrote the row did not know has what the row says of itself by default.
    return Row(**{column.name: record[column.name] for column in COLUMNS if record[column.name] is not None})


def _run(record: Any) -> Run:
    run = Run(
        run_id=record["run_id"],
        kind=record["kind"],
        started_at=record["started_at"],
        model=record["model"],
        machine=record["machine"],
        settings=msgspec.json.decode(record["settings"]),
        status=RunStatus(record["status"]),
        note=record["note"],
        rows=record["row_count"] or 0,
        about_model=msgspec.json.decode(record["about_model"]),
        resumed_at=tuple(msgspec.json.decode(record["resumed_at"])),
        owner=record["owner"],
        device=record["device"],
        dtype=record["dtype"],
        best_tokens_per_s=record["best_tokens_per_s"],
        last_row_at=record["last_row_at"],
    )
    if run.status is RunStatus.RUNNING and owner.is_gone(run.owner, run.run_id, run.last_seen_at):
        return replace(run, status=RunStatus.INTERRUPTED)
    return run
