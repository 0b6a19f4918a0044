"""A full disk: under the store it stops the run with a message, under the output it does not; rows are kept."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from os import environ
from pathlib import Path
from shutil import disk_usage
from typing import IO

import pytest

from workbench.runs.run import RunStatus
from workbench.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
PROMPTS = range(1, 101)
WORKBENCH = """
import sys
from tests.fakes import fake_load
from workbench import cli, headless
headless.load_transformers = fake_load()
sys.exit(cli.main(sys.argv[1:]))
"""
SWEEP = ("sweep", "smollm2-135m", "--repeats", "1", "--new-tokens", "2", "--format", "csv")
LEFT_BYTES = 60_000
FULL = Path("/dev/full")


def workbench(
    *arguments: str,
    out: int | IO[str] = subprocess.PIPE,
    err: int | IO[str] = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The command line on the fake engine, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", WORKBENCH, *arguments], cwd=ROOT, stdout=out, stderr=err, env=env, text=True, check=False
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_standard_output_on_a_full_disk_loses_no_row_and_is_told_of() -> None:
    with FULL.open("w") as full:
        ended = workbench(*SWEEP, "--prompts", "1,2,3", out=full)
    assert ended.returncode == 1
    assert "the output could not be written: No space left on device" in ended.stderr
    with Store() as store:
        run = store.run("last")
        assert (run.status, run.rows) == (RunStatus.FINISHED, 3)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_standard_error_on_a_full_disk_loses_nothing_but_its_notes() -> None:
    with FULL.open("w") as full:
        ended = workbench(*SWEEP, "--prompts", "1,2,3", err=full)
    assert ended.returncode == 0
    assert len(ended.stdout.splitlines()) == 4
    with Store() as store:
        assert store.run("last").status is RunStatus.FINISHED
    with FULL.open("w") as full:
        assert workbench("presets", "no-such-one", err=full).returncode == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk can't be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_disk_that_fills_up_stops_the_run_and_what_was_committed_goes_on_once_there_is_room(small_disk: Path) -> None:
    path, filler = small_disk / "runs.sqlite3", small_disk / "filler"
    Store(path).close()
    filler.write_bytes(bytes(disk_usage(small_disk).free - LEFT_BYTES))
    here = {**environ, "WORKBENCH_DATA": str(small_disk)}

    ended = workbench(*SWEEP, "--prompts", ",".join(map(str, PROMPTS)), env=here)
    assert ended.returncode == 1
    assert "the run was stopped" in ended.stderr
    assert "disk is full. Rows committed before are kept" in ended.stderr
    assert "Traceback" not in ended.stderr
    with Store(path) as store:
        run = store.run("last")
        rows = store.rows(run.run_id)
    assert run.status is not RunStatus.RUNNING
    assert 0 < len(rows) < len(PROMPTS)
    assert len(ended.stdout.splitlines()) == 1 + len(rows)

    filler.unlink()
    assert workbench("runs", "resume", "last", env=here).returncode == 0
    with Store(path) as store:
        assert [row.prompt_tokens for row in store.rows(run.run_id)] == list(PROMPTS)
        assert store.run("last").status is RunStatus.FINISHED
