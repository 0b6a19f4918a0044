"""kill -9: the store opens, holds every committed row exactly once, and the run is interrupted and goes on."""

import subprocess
import sys
from pathlib import Path
from random import Random

from tests.runs.fake_run import PROMPTS, run
from workbench.experiments.sittings import earlier_sittings
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
KILLS = 12
MOST_ROWS = 6


def killed_after(rows: int, what: str) -> list[int]:
    """Begin or resume the run in a process, kill it when it has told of so many rows; the prompts of those."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.runs.fake_run", what], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # With a line for each it is let past the last one too: it may be anywhere in the next point when it dies.
        process.stdin.write(b"\n" * rows)
        process.stdin.flush()
        told = [int(process.stdout.readline()) for _ in range(rows)]
        process.kill()
    return told


def test_a_run_killed_a_dozen_times_ends_with_every_point_once() -> None:
    random = Random(20260101)
    told: list[int] = []
    for sitting in range(1, KILLS + 1):
        told += killed_after(random.randint(1, MOST_ROWS), "begin" if sitting == 1 else "resume")
        with Store() as store:
            (kept,) = store.runs()
            rows = store.rows(kept.run_id)
        assert (kept.status, kept.sitting) == (RunStatus.INTERRUPTED, sitting)
        prompts = [row.prompt_tokens for row in rows]
        assert prompts == list(PROMPTS[: len(rows)])
        assert set(told) <= set(prompts)
        assert rows[-1].sitting == sitting
    with Store() as store:
        run(store, earlier_sittings(store, "last"), lambda event: None)
        (kept,) = store.runs()
        rows = store.rows(kept.run_id)
    assert kept.status is RunStatus.FINISHED
    assert [row.prompt_tokens for row in rows] == list(PROMPTS)
    assert sorted(row.sitting for row in rows) == [row.sitting for row in rows]
