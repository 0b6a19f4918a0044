"""The SQLite file that runs are kept in: opened, written in transactions, its errors told."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from workbench.errors import StoreError
from workbench.paths import data_folder
from workbench.runs.schema import prepare

BUSY_TIMEOUT_S = 10.0


def store_path() -> Path:
    """Where this user's runs are kept."""
    return data_folder() / "runs.sqlite3"


class Database:
    """One connection to the store, for the thread that opened it; use it as a context manager.

    Raises StoreError where the file can't be opened, is no store, or was written by a newer version.
    A rollback journal, not a write-ahead log: home folders are often on a network file system.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or store_path()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The store of runs {self.path} can't be opened: {error}. Make its folder writable, or name "
                "another folder in the environment variable WORKBENCH_DATA."
            ) from error
        self.connection.row_factory = sqlite3.Row
        try:
            with self.explained("opened"):
                prepare(self.connection, self.path, self.transaction)
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside is committed at its end, the whole of it or nothing."""
        with self.explained("written"):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def explained(self, deed: str) -> Iterator[None]:
        """An error of SQLite's inside as a StoreError, which says what could not be done."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"The store of runs {self.path} can't be {deed}: {error}. Rows committed before are kept. Check that "
                "the disk has room and may be written to, that no other program holds the file and that it is a "
                "workbench store, or set WORKBENCH_DATA to another folder."
            ) from error
