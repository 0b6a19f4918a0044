"""`workbench selfcheck` inside the test's process, without its rounds."""

import os

import pytest

from tests.commands.conftest import Workbench
from workbench.experiments.selfcheck.comparison import Verdict
from workbench.runs import owner
from workbench.runs.store import Store

PARENT = owner._named(os.getppid())
"""A process that is alive and not this one."""


def measuring() -> set[str]:
    with Store() as store:
        return {one.owner for one in store.measuring._all()}


def test_others_are_told_that_it_measures_and_it_tells_of_others(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile: list[set[str]] = []

    def no_rounds(*arguments: object) -> tuple[()]:
        meanwhile.append(measuring())
        return ()

    monkeypatch.setattr("workbench.commands.selfcheck.selfcheck", no_rounds)
    monkeypatch.setattr("workbench.commands.selfcheck.overall", lambda found: Verdict.WITHIN)
    with Store() as store:
        store.connection.execute("INSERT INTO measuring VALUES (?, ?)", (str(PARENT), "2026-01-01T12:03:00Z"))
    ended = workbench("selfcheck", "--format", "json")
    assert meanwhile == [{str(PARENT), owner.this_process()}]
    assert f"Another workbench measures on this machine: process {os.getppid()}" in ended.err
    assert (ended.code, measuring()) == (0, {str(PARENT)})
