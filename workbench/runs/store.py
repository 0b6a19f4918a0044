"""The SQLite store: every run and every row, committed one by one, with the samples behind them."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import StoreError, unknown_name
from workbench.hardware.calibration import Calibration
from workbench.runs import owner
from workbench.runs.database import Database
from workbench.runs.ladder import Ladder
from workbench.runs.measuring import MeasuringStore
from workbench.runs.ownership import can_be_taken_over, check_resumable, check_unowned
from workbench.runs.predicted_store import PredictedStore
from workbench.runs.row import COLUMNS, Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples

LARGEST_WHOLE = (1 << 63) - 1
LEFT_NOTE = "the workbench was left while it ran"


class Store(Database):
    """Runs and their rows in the database of runs.

    Raises StoreError where the file can't be opened, is no store, or was written by a newer version.
    """

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)
        self.predicted = PredictedStore(self)
        self.measuring = MeasuringStore(self)

    def add_run(self, run: Run) -> None:
        """Commit a run as running, owned by this process."""
        with self.transaction():
            self._insert_run(replace(run, status=RunStatus.RUNNING, owner=owner.this_process()))
        owner.begun_here(run.run_id)

    def add_finished_runs(self, runs: Iterable[tuple[Run, Sequence[tuple[Row, Samples]]]]) -> None:
        """Commit runs that are over with all their rows, the whole of them or nothing."""
        with self.transaction():
            for run, rows in runs:
                self._insert_run(run)
                self._insert_rows(rows)

    def _insert_run(self, run: Run) -> None:
        self.connection.execute(
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
        self.connection.executemany(
            f"INSERT INTO rows ({', '.join(names)}, samples) VALUES ({marks})",
            ([*_storable(values_of(row)), msgspec.json.encode(samples).decode()] for row, samples in rows),
        )

    def resume_run(self, run: Run) -> None:
        """Commit a run as running again, owned by this process, with its sittings.

        Raises StoreError where it is finished, or another process measures it.
        """
        with self.transaction():
            check_resumable(self.run(run.run_id))
            self.connection.execute(
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
        with self.transaction():
            run = self.run(run_id)
            if run.status is not RunStatus.RUNNING:
                raise StoreError(f"{run.run_id} is {run.status}: no process measures it that could be replaced.")
            if not can_be_taken_over(run):
                raise StoreError(
                    f"{run.run_id} is being measured by {owner.process_words(run.owner)}, which is alive. Stop it "
                    "there, and ask again then."
                )
            note = f"taken over from {owner.process_words(run.owner)}"
            self.connection.execute(
                "UPDATE runs SET status = ?, note = ?, owner = '' WHERE run_id = ?",
                (RunStatus.INTERRUPTED, note, run.run_id),
            )
        return self.run(run.run_id)

    def add_row(self, row: Row, samples: Samples) -> None:
        """Commit one row with its samples; raises StoreError where its run was taken over or deleted meanwhile."""
        with self.transaction():
            self._check_owned(row.run_id)
            self._insert_rows([(row, samples)])

    def add_calibration(self, calibration: Calibration) -> None:
        """Commit what a probe found, every sample of every cell with it."""
        with self.transaction():
            self.connection.execute(
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
        with self.explained("read"):
            found = self.connection.execute(
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
        with self.transaction():
            self._check_owned(run_id)
            self.connection.execute(
                "INSERT OR REPLACE INTO ladders (run_id, data) VALUES (?, ?)",
                (run_id, msgspec.json.encode(ladder).decode()),
            )

    def ladder(self, run_id: str) -> Ladder | None:
        """The ladder of a run; None where it has none, or one that another version of the workbench wrote."""
        with self.explained("read"):
            found = self.connection.execute("SELECT data FROM ladders WHERE run_id = ?", (run_id,)).fetchone()
        if found is None:
            return None
        try:
            return msgspec.json.decode(found["data"], type=Ladder)
        except msgspec.DecodeError:
            return None

    def predicted_rows(self, machine: str) -> list[Row]:
        """A machine's rows that carry a prediction from timed operations, the newest first."""
        with self.explained("read"):
            found = self.connection.execute(
                "SELECT * FROM rows WHERE machine = ? AND predicted_from IS NOT NULL ORDER BY rowid DESC", (machine,)
            ).fetchall()
        return [_row(record) for record in found]

    def end_run(self, run_id: str, status: RunStatus, note: str = "") -> None:
        """Commit how a run of this process ended; one that was taken over stays as it is."""
        with self.transaction():
            self.connection.execute(
                "UPDATE runs SET status = ?, note = ? WHERE run_id = ? AND owner = ?",
                (status, note, run_id, owner.this_process()),
            )

    def mark_finished(self, run: Run) -> None:
        """Commit that a run which no process measures is complete; raises StoreError where one does by now."""
        with self.transaction():
            check_resumable(self.run(run.run_id))
            self.connection.execute("UPDATE runs SET status = ? WHERE run_id = ?", (RunStatus.FINISHED, run.run_id))

    def mark_interrupted(self, run_id: str) -> None:
        """Commit that a run of this process was left while it ran, unless it has ended since."""
        with self.transaction():
            self.connection.execute(
                "UPDATE runs SET status = ?, note = ? WHERE run_id = ? AND status = ? AND owner = ?",
                (RunStatus.INTERRUPTED, LEFT_NOTE, run_id, RunStatus.RUNNING, owner.this_process()),
            )

    def delete_run(self, run_id: str) -> Run:
        """Take a run that no process measures out, with its rows, and say which it was.

        Raises StoreError where there is none of that name, or a process measures it.
        """
        with self.transaction():
            run = self.run(run_id)
            check_unowned(run)
            self._delete(run.run_id)
        return run

    def remove_run(self, run_id: str) -> None:
        """Take a run of this process and its rows out; one that was taken over stays."""
        with self.transaction():
            if self._owner_of(run_id) == owner.this_process():
                self._delete(run_id)

    def runs(self) -> list[Run]:
        """All runs, the newest first; one whose process is gone while it says running is interrupted."""
        with self.explained("read"):
            found = self.connection.execute(
                "SELECT runs.*, row_count, failed, device, dtype, best_tokens_per_s, last_row_at FROM runs LEFT JOIN"
                " (SELECT run_id, COUNT(*) AS row_count, SUM(status <> 'ok') AS failed, MIN(device) AS device,"
                # Other engines name the type of their cache there: their weights are held as they are stored.
                " MIN(CASE WHEN dtype LIKE '% cache' THEN quantisation ELSE dtype END) AS dtype,"
                " MAX(CASE status WHEN 'ok' THEN total_tokens_per_s END) AS best_tokens_per_s,"
                " MAX(started_at) AS last_row_at FROM rows"
                " GROUP BY run_id) USING (run_id)"
                " ORDER BY runs.started_at DESC, runs.rowid DESC"
            ).fetchall()
        return [_run(record) for record in found]

    def run(self, run_id: str) -> Run:
        """The run of that name, or a unique beginning of one; StoreError where there is none.

        `last` is the last that came into the store, whatever date an imported one has of its own.
        """
        runs = self.runs()
        if run_id == "last" and runs:
            with self.explained("read"):
                run_id = self.connection.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1").fetchone()[0]
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
        with self.explained("read"):
            found = self.connection.execute(
                "SELECT *, MAX(rowid) AS newest FROM rows WHERE machine = ? AND device = ? AND read_gb_per_s > 0"
                " GROUP BY dtype ORDER BY newest DESC",
                (machine, device),
            ).fetchall()
        return [_row(record) for record in found]

    def rows_with_samples(self, run_id: str) -> list[tuple[Row, Samples]]:
        """A run's rows with every sample behind each."""
        with self.explained("read"):
            found = self.connection.execute("SELECT * FROM rows WHERE run_id = ? ORDER BY rowid", (run_id,)).fetchall()
        return [(_row(record), msgspec.json.decode(record["samples"], type=Samples)) for record in found]

    def _delete(self, run_id: str) -> None:
        for table in ("rows", "ladders", "predictions", "runs"):
            self.connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))

    def _owner_of(self, run_id: str) -> str | None:
        """The process that measures a run or did so last; None where there is no such run."""
        found = self.connection.execute("SELECT owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
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


def _storable(values: Iterable[Any]) -> list[Any]:
    """The values; a count beyond the store's whole numbers as a float, as what a refused point would have needed."""
    return [float(value) if type(value) is int and abs(value) > LARGEST_WHOLE else value for value in values]


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
        failed=record["failed"] or 0,
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
