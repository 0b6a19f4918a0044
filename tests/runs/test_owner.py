"""Which owner is gone, which is alive, and which can't be told; and taking a run over from one that can't."""

import os
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest

from tests.fakes import a_row
from workbench.errors import StoreError
from workbench.experiments.sittings import earlier_sittings
from workbench.runs import owner
from workbench.runs.owner import Owner
from workbench.runs.ownership import owner_words
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store

BEFORE_ANY_BOOT, AFTER_ANY_BOOT = "1990-01-01T00:00:00Z", "2200-01-01T00:00:00Z"
HERE = Owner(*owner.this_process().split("/"))
KNOWN = replace(HERE, machine=HERE.machine or "a digest")


@pytest.fixture(autouse=True)
def a_known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box without a machine id has one here."""
    monkeypatch.setattr(owner, "_system", lambda: (KNOWN.machine, KNOWN.boot, KNOWN.numbers))


@pytest.mark.parametrize(
    ("named", "last_seen_at", "gone"),
    [
        (lambda here: here, BEFORE_ANY_BOOT, False),
        (lambda here: replace(here, started="1"), AFTER_ANY_BOOT, True),
        (lambda here: replace(here, process=str(2**22 + 1)), AFTER_ANY_BOOT, True),
        (lambda here: replace(here, host="elsewhere", process=str(2**22 + 1)), BEFORE_ANY_BOOT, False),
        (lambda here: replace(here, boot="an earlier one"), BEFORE_ANY_BOOT, True),
        (lambda here: replace(here, boot="another one"), AFTER_ANY_BOOT, False),
        (lambda here: replace(here, boot="another one", machine="another one"), BEFORE_ANY_BOOT, False),
        (lambda here: replace(here, numbers="others", process=str(2**22 + 1)), AFTER_ANY_BOOT, False),
        (lambda here: "", BEFORE_ANY_BOOT, False),
        (lambda here: "a host/12/34", BEFORE_ANY_BOOT, False),
    ],
    ids=[
        "this process",
        "the number taken by a later one",
        "no such number",
        "on another host",
        "before this boot",
        "a machine of this name that wrote since this boot",
        "another machine of this name",
        "in another container",
        "not known",
        "of an older version",
    ],
)
def test_a_process_is_gone_only_where_that_can_be_known(
    named: Callable[[Owner], object], last_seen_at: str, gone: bool
) -> None:
    assert owner.is_gone(str(named(KNOWN)), "a run", last_seen_at) is gone


def test_without_an_identity_another_boot_may_be_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "_system", lambda: ("", KNOWN.boot, KNOWN.numbers))
    booted_since = replace(KNOWN, machine="", boot="an earlier one")
    assert not owner.is_gone(str(booted_since), "a run", BEFORE_ANY_BOOT)
    assert owner.is_gone(str(replace(booted_since, boot=KNOWN.boot, started="1")), "a run", AFTER_ANY_BOOT)


def test_the_boot_is_that_of_this_system() -> None:
    assert owner.this_process().split("/")[4:] == [str(os.getpid()), HERE.started]
    assert psutil.boot_time() < owner._seconds(AFTER_ANY_BOOT)
    assert owner._seconds("no moment") == float("inf")


def owned_by(store: Store, name: str, *prompts: int) -> Run:
    """A sweep of three prompts that another process measures, with rows of these."""
    run = Run("a", "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box", {"prompts": [1, 16, 64]})
    store.add_run(run)
    for n in prompts:
        store.add_row(a_row(run_id="a", prompt_tokens=n, started_at=f"2026-01-01T00:00:{n:02}Z"), Samples())
    store.connection.execute("UPDATE runs SET owner = ?", (name,))
    return store.run("a")


ELSEWHERE = str(replace(KNOWN, host="lab-7", process="4211"))


def test_a_run_of_a_host_that_may_be_gone_says_whose_it_is_and_is_taken_over_only_when_asked() -> None:
    with Store() as store:
        run = owned_by(store, ELSEWHERE, 1, 16)
        assert run.status is RunStatus.RUNNING
        words = "process 4211 on lab-7, which can't be seen from here: the last row it wrote is of a point begun"
        assert words in owner_words(run)
        acts: tuple[Callable[[str], object], ...] = (store.delete_run, lambda name: earlier_sittings(store, name))
        for act in acts:
            with pytest.raises(StoreError, match=r"lab-7.*00:00:16Z.*--take-over"):
                act("a")
        taken = store.take_over("a")
        assert (taken.status, taken.note) == (RunStatus.INTERRUPTED, "taken over from process 4211 on lab-7")
        assert store.delete_run("a").rows == 2
        assert store.runs() == []


def test_a_run_without_rows_says_when_it_was_begun() -> None:
    with Store() as store:
        assert "no row since it was begun at 2026-01-01T00:00:00Z" in owner_words(owned_by(store, ELSEWHERE))


def test_a_process_that_lives_keeps_its_run() -> None:
    with Store() as store:
        run = owned_by(store, str(KNOWN), 1)
        acts: tuple[Callable[[], object], ...] = (
            lambda: store.take_over("a"),
            lambda: store.delete_run("a"),
            lambda: store.resume_run(run),
        )
        for act in acts:
            with pytest.raises(StoreError, match="being measured by process"):
                act()
        store.end_run("a", RunStatus.FINISHED)
        with pytest.raises(StoreError, match="is finished: no process"):
            store.take_over("a")


def test_a_process_whose_run_was_taken_over_writes_no_more_and_leaves_it_as_it_is() -> None:
    with Store() as store:
        owned_by(store, str(KNOWN), 1)
        store.connection.execute("UPDATE runs SET owner = ?, status = 'interrupted', note = 'x'", (ELSEWHERE,))
        with pytest.raises(StoreError, match="taken over from this process"):
            store.add_row(a_row(run_id="a", prompt_tokens=16), Samples())
        store.end_run("a", RunStatus.FAILED, "an error")
        store.mark_interrupted("a")
        store.remove_run("a")
        kept = store.run("a")
        assert (kept.status, kept.note, kept.rows) == (RunStatus.INTERRUPTED, "x", 1)
        store.delete_run("a")
        with pytest.raises(StoreError, match="it was deleted"):
            store.add_row(a_row(run_id="a", prompt_tokens=16), Samples())
