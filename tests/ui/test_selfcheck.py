"""The real app, on a terminal of its own, in each condition the selfcheck plays it in."""

import subprocess
import sys

import pytest

from workbench.experiments.selfcheck.blocks import REQUESTS
from workbench.experiments.selfcheck.comparison import APP, Condition

GUARD_S = 120


@pytest.mark.parametrize("condition", APP)
def test_the_app_opens_runs_the_steps_and_leaves(condition: Condition) -> None:
    played = subprocess.run(
        [sys.executable, "-m", "tests.ui.played_app", condition],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert (played.stdout, played.returncode) == (f"{condition}: {REQUESTS} blocks in 1 app\n", 0)
