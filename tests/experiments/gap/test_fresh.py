"""A ladder stands for its pass while it is whole, of this process and machine, and minutes old."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.runs.row_ladder.planted import a_step
from workbench.experiments.gap.fresh import FRESH_S, is_fresh
from workbench.experiments.gap.gap_plan import LEAST_ROUNDS
from workbench.hardware.machine import this_machine
from workbench.runs import owner
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.run import Run

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
LADDER = replace(row_ladder([a_step(16)]), rounds=LEAST_ROUNDS, measured_at="2026-01-01T12:00:00Z")
RUN = Run("a", "gap", "2026-01-01T12:00:00Z", "a model", str(this_machine()))


def test_a_whole_ladder_of_a_moment_ago_stands() -> None:
    assert is_fresh(LADDER, RUN, AT + timedelta(seconds=FRESH_S))
    assert is_fresh(LADDER, replace(RUN, owner=owner.this_process()), AT)


@pytest.mark.parametrize(
    ("ladder", "run"),
    [
        ({"rounds": LEAST_ROUNDS - 1}, {}),
        ({"measured_at": ""}, {}),
        ({}, {"machine": "another box"}),
        ({}, {"owner": "of another process"}),
    ],
)
def test_one_that_is_partial_or_of_another_place_does_not(ladder: dict[str, Any], run: dict[str, Any]) -> None:
    assert not is_fresh(replace(LADDER, **ladder), replace(RUN, **run), AT)


def test_an_old_one_does_not() -> None:
    assert not is_fresh(LADDER, RUN, AT + timedelta(seconds=FRESH_S + 1))
