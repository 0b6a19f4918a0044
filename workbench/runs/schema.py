"""The tables of the store and their columns, and what brings a file of an earlier version to them."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from workbench.errors import StoreError
from workbench.runs.row import COLUMNS

SCHEMA_VERSION = 5
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_ADDED_TO_RUNS = {"about_model": "TEXT NOT NULL DEFAULT '{}'", "resumed_at": "TEXT NOT NULL DEFAULT '[]'"}
"""Columns of runs that stores of version 2 and before lack."""


def prepare(
    connection: sqlite3.Connection, path: Path, transaction: Callable[[], AbstractContextManager[None]]
) -> None:
    """Bring a file to this version's tables and columns; raises StoreError where a newer workbench wrote it."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"The store {path} was written by a newer workbench (its version {version}, this one knows "
            f"{SCHEMA_VERSION}). It was not touched: upgrade the workbench, or set WORKBENCH_DATA to another "
            "folder."
        )
    if version == SCHEMA_VERSION and not _missing_columns(connection):
        return
    with transaction():
        columns = ", ".join(f"{column.name} {_SQL_TYPES[column.type]}" for column in COLUMNS)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS runs"
            " (run_id TEXT PRIMARY KEY, kind TEXT NOT NULL, started_at TEXT NOT NULL,"
            " model TEXT NOT NULL, machine TEXT NOT NULL, settings TEXT NOT NULL, status TEXT NOT NULL,"
            " note TEXT NOT NULL, owner TEXT NOT NULL)"
        )
        connection.execute(f"CREATE TABLE IF NOT EXISTS rows ({columns}, samples TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS calibrations"
            " (calibration_id TEXT PRIMARY KEY, machine TEXT NOT NULL, device TEXT NOT NULL,"
            " taken_at TEXT NOT NULL, data TEXT NOT NULL)"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS ladders (run_id TEXT PRIMARY KEY, data TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS predictions (run_id TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,"
            " batch INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, prompt_tokens, batch))"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS timings (conditions TEXT NOT NULL, operation TEXT NOT NULL,"
            " working_bytes INTEGER NOT NULL, data TEXT NOT NULL,"
            " PRIMARY KEY (conditions, operation, working_bytes))"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS measuring (owner TEXT PRIMARY KEY, since TEXT NOT NULL)")
        connection.execute("CREATE INDEX IF NOT EXISTS rows_of_run ON rows (run_id)")
        for table, column in _missing_columns(connection):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _missing_columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The tables that lack a column of this version, each with the column and its type."""
    rows = {column.name: _SQL_TYPES[column.type] for column in COLUMNS}
    return [
        (table, f"{name} {declared}")
        for table, columns in (("rows", rows), ("runs", _ADDED_TO_RUNS))
        for name, declared in columns.items()
        if name not in {record["name"] for record in connection.execute(f"PRAGMA table_info({table})")}
    ]
