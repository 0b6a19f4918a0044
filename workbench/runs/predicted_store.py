"""What was predicted of the points of runs, and the timed operations it rests on, as the store keeps them."""

from collections.abc import Iterable

import msgspec

from workbench.hardware.timings import Conditions, Timing
from workbench.runs.database import Database
from workbench.runs.foretold import Foretold


class PredictedStore:
    """Predictions and timed operations in a database of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep_points(self, run_id: str, predictions: Iterable[Foretold]) -> None:
        """Commit what is predicted of a run's points; what was predicted of one before stays as it was."""
        with self._database.transaction():
            self._database.connection.executemany(
                "INSERT OR IGNORE INTO predictions (run_id, prompt_tokens, batch, data) VALUES (?, ?, ?, ?)",
                [(run_id, p.prompt_tokens, p.batch, msgspec.json.encode(p).decode()) for p in predictions],
            )

    def points(self, run_id: str) -> list[Foretold]:
        """What was predicted of a run's points."""
        with self._database.explained("read"):
            found = self._database.connection.execute(
                "SELECT data FROM predictions WHERE run_id = ?", (run_id,)
            ).fetchall()
        return [msgspec.json.decode(record["data"], type=Foretold) for record in found]

    def keep_timings(self, timings: Iterable[Timing]) -> None:
        """Commit timed operations, each in the place of its earlier timing under the same conditions."""
        with self._database.transaction():
            self._database.connection.executemany(
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
        with self._database.explained("read"):
            found = self._database.connection.execute(
                "SELECT data FROM timings WHERE conditions = ?", (msgspec.json.encode(conditions).decode(),)
            ).fetchall()
        return [msgspec.json.decode(record["data"], type=Timing) for record in found]

    def timed_conditions(self) -> list[Conditions]:
        """All conditions that operations were timed under."""
        with self._database.explained("read"):
            found = self._database.connection.execute("SELECT DISTINCT conditions FROM timings").fetchall()
        return [msgspec.json.decode(record["conditions"], type=Conditions) for record in found]
