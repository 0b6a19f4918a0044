"""The age of what a prediction rests on: told in words once the box may be another one."""

from datetime import datetime, timedelta

import pytest

from tests.predictions.cells import TAKEN_AT, W, cells_of
from workbench.hardware.timings import Table
from workbench.models.resolve import resolve
from workbench.predictions.age import age_words, ago
from workbench.predictions.passes import decode_step
from workbench.predictions.prediction import PointPrediction, predicted

STEP = decode_step(resolve("smollm2-135m"), 32)
POINT = PointPrediction(None, predicted(STEP, Table(cells_of(STEP)), W))
THEN = datetime.fromisoformat(TAKEN_AT)


def test_only_old_cells_have_their_age_told() -> None:
    assert age_words([POINT], THEN + timedelta(minutes=59)) == ""
    assert "timed 5 hours ago" in age_words([POINT], THEN + timedelta(hours=5.5))
    assert age_words([PointPrediction(None, None)], THEN) == ""


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=20), "0 minutes"),
        (timedelta(minutes=61), "1 hour"),
        (timedelta(hours=47), "1 day"),
        (timedelta(days=30), "30 days"),
    ],
)
def test_an_age_is_in_its_largest_unit(age: timedelta, words: str) -> None:
    assert ago(age) == words
