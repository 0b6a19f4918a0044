"""Two processes on one store: each sees that the other measures, and labels what it measures meanwhile."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.fakes import a_row
from workbench.experiments.events import Event, OthersMeasure, RowMeasured, Started
from workbench.runner import CancelToken, drive
from workbench.runs import owner
from workbench.runs.measuring import others_words
from workbench.runs.owner import Owner
from workbench.runs.run import Run
from workbench.runs.samples import Samples
from workbench.runs.store import Store

RUN = Run(a_row().run_id, "prefill_decode", "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box")
SINCE = "2026-01-01T12:03:00Z"
PARENT = owner._named(os.getppid())
"""A process that is alive and not this one."""
FLAG = f"measured while process {os.getppid()} on {PARENT.host} measured too"


def measures(store: Store, other: Owner) -> None:
    store.connection.execute("INSERT INTO measuring VALUES (?, ?)", (str(other), SINCE))


def ends(store: Store) -> None:
    store.connection.execute("DELETE FROM measuring WHERE owner = ?", (str(PARENT),))


def test_a_process_that_lives_here_is_another_and_no_other_is() -> None:
    with Store() as store:
        store.measuring.begin()
        gone = [replace(PARENT, started="1"), replace(PARENT, process=str(2**22 + 1))]
        for other in (PARENT, *gone, replace(PARENT, host="elsewhere")):
            measures(store, other)
        assert [one.owner for one in store.measuring.others()] == [str(PARENT)]
        words = others_words(store.measuring.others())
        assert f"process {os.getppid()} on {PARENT.host}, since {SINCE}. Each makes the other slower" in words
        # Another host's may be alive.
        store.measuring.begin()
        kept = {record["owner"] for record in store.connection.execute("SELECT owner FROM measuring")}
        assert kept.isdisjoint(map(str, gone))
        assert len(kept) == 3
        store.measuring.end()
        assert owner.this_process() not in {one.owner for one in store.measuring._all()}


@pytest.mark.parametrize(
    ("before", "during", "flagged"),
    [
        (True, None, [True, True]),
        (False, None, [False, False]),
        (True, ends, [True, False]),
        (False, lambda store: measures(store, PARENT), [True, True]),
    ],
    ids=["all along", "never", "until the first row", "from the first point on"],
)
def test_what_is_measured_beside_another_says_so(
    before: bool, during: Callable[[Store], None] | None, flagged: list[bool]
) -> None:
    heard: list[Event] = []
    with Store() as store:
        if before:
            measures(store, PARENT)

        def experiment(cancel: CancelToken) -> Iterator[Event]:
            assert owner.this_process() in {one.owner for one in store.measuring._all()}
            yield Started(RUN)
            if during is not None:
                during(store)
            yield RowMeasured(a_row(flags="noisy"), Samples())
            yield RowMeasured(a_row(prompt_tokens=64), Samples())

        drive(experiment, CancelToken(), store, heard.append)
        kept = store.rows(RUN.run_id)
        assert owner.this_process() not in {one.owner for one in store.measuring._all()}
    assert [FLAG in row.flags for row in kept] == flagged
    assert kept[0].flags.startswith("noisy")
    assert [event.row for event in heard if isinstance(event, RowMeasured)] == kept
    assert isinstance(heard[0], OthersMeasure) is before
