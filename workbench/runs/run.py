"""A run: one experiment with its settings, what it predicted, and how it ended."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from typing import Any


class RunStatus(StrEnum):
    """How a run stands; a run whose process is gone while it says `running` shows as interrupted."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True)
class Run:
    """A run as the store keeps it; `settings` are the experiment's own, as plain values.

    `about_model` is what tells its model from another of that name, `resumed_at` when each sitting after the first
    began, `owner` the process that measures it. Of its rows: their number, how many of them failed, where they were
    measured, the most tokens a second of all sequences that one which did not fail reached, and when the point of the
    last one was begun.
    """

    run_id: str
    kind: str
    started_at: str
    model: str
    machine: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    status: RunStatus = RunStatus.RUNNING
    note: str = ""
    rows: int = 0
    failed: int = 0
    about_model: Mapping[str, Any] = field(default_factory=dict)
    resumed_at: tuple[str, ...] = ()
    owner: str = ""
    device: str | None = None
    dtype: str | None = None
    best_tokens_per_s: float | None = None
    last_row_at: str | None = None

    @property
    def last_seen_at(self) -> str:
        """When its process is last known to have been there, as ISO 8601."""
        return max(self.started_at, self.last_row_at or "", *self.resumed_at)

    @property
    def sitting(self) -> int:
        """Which sitting of the run is the last: 1 the first, 2 the first resumed one."""
        return 1 + len(self.resumed_at)

    @property
    def points(self) -> tuple[tuple[int, ...], ...]:
        """What its settings ask to be measured, in order: each value of POINT_COLUMNS, empty for another kind."""
        match self.kind:
            case "prefill_decode":
                return tuple((n,) for n in self.settings.get("prompts", ()))
            case "batch":
                return tuple(product(self.settings.get("contexts", ()), self.settings.get("batches", ())))
            case "gap" if {"context", "batch"} <= self.settings.keys():
                return ((self.settings["context"], self.settings["batch"]),)
            case _:
                return ()


def now() -> str:
    """This moment, UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id() -> str:
    """A short name that sorts by time and does not repeat on one store."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)
