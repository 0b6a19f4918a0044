"""kill -9 at random times of real sweeps, two at once on one store: rows lost, rows doubled, runs left as running.

A killed run is begun anew or resumed by the next process; at the end every run is resumed until it is finished.
Takes the number of kills and a seed, 100 and 1 by default.
"""

import csv
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.benchmarks.report import print_bar
from workbench.cli import main as workbench
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

PROMPTS = (1, 2, 3, 4, 6, 8, 12, 16)
LONGEST_LIFE_S = 8.0
AT_ONCE = 2
NEW_SHARE = 0.3
DEFAULTS = ("100", "1")
MAKE_MODEL = """
import sys
from pathlib import Path
from tests.models_on_disk import tiny_folder
tiny_folder(Path(sys.argv[1]))
"""


@dataclass
class Process:
    """A real sweep, or one resumed, and the pipe on which it tells its rows as CSV."""

    number: int
    told: int
    text: bytes = b""


@dataclass
class Tally:
    """What was found in the store after each kill."""

    kills: int = 0
    lost: int = 0
    doubled: int = 0
    still_running: int = 0
    told: set[tuple[str, str]] = field(default_factory=set)


def start(arguments: Sequence[str]) -> Process:
    """The command in a process of its own, forked: importing torch each time would take most of the time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.dup2(writing, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stdout = os.fdopen(1, "w", buffering=1)
            code = workbench([*arguments, "--format", "csv"])
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(writing)
    return Process(child, reading)


def end(process: Process) -> tuple[bool, set[tuple[str, str]]]:
    """Wait for it; whether a kill ended it, and the run and prompt of each row it told."""
    while written := os.read(process.told, 1 << 16):
        process.text += written
    os.close(process.told)
    _, status = os.waitpid(process.number, 0)
    whole_lines = process.text.decode().rpartition("\n")[0].splitlines()
    told = {(line["run_id"], line["prompt_tokens"]) for line in csv.DictReader(whole_lines)}
    return os.WIFSIGNALED(status), told


def check(tally: Tally) -> list[str]:
    """Look into the store; the runs that can be resumed."""
    with Store() as store:
        runs = store.runs()
        kept = Counter((run.run_id, str(row.prompt_tokens)) for run in runs for row in store.rows(run.run_id))
    tally.lost += len(tally.told - set(kept))
    tally.doubled += sum(count - 1 for count in kept.values())
    tally.still_running += sum(run.status is RunStatus.RUNNING for run in runs)
    return [run.run_id for run in runs if run.status is RunStatus.INTERRUPTED]


def main() -> None:
    kills, seed = (int(text) for text in (*sys.argv[1:], *DEFAULTS[len(sys.argv) - 1 :]))
    random, tally = Random(seed), Tally()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_DATA"] = folder
        model = str(Path(folder) / "tiny")
        # In another process: once torch has computed here, it can't in a fork.
        subprocess.run([sys.executable, "-c", MAKE_MODEL, model], check=True)
        importlib.import_module("workbench.engines.torch_engine")
        prompts = ",".join(map(str, PROMPTS))
        begin = ["sweep", model, "--prompts", prompts, "--new-tokens", "3", "--repeats", "1", "--device", "cpu"]
        resumable: list[str] = []
        while tally.kills < kills:
            chosen = random.sample(resumable, min(AT_ONCE, len(resumable)))
            commands = [
                begin if not chosen or random.random() < NEW_SHARE else ["runs", "resume", chosen.pop()]
                for _ in range(AT_ONCE)
            ]
            processes = [start(command) for command in commands]
            lives = sorted(random.uniform(0, LONGEST_LIFE_S) for _ in processes)
            for process, life, lived in zip(processes, lives, (0.0, *lives), strict=False):
                time.sleep(life - lived)
                os.kill(process.number, signal.SIGKILL)
            for process in processes:
                killed, told = end(process)
                tally.kills += killed
                tally.told |= told
            resumable = check(tally)
            print(f"{tally.kills} kills, {len(tally.told)} rows told, {len(resumable)} runs interrupted", flush=True)
        for run_id in resumable:
            end(start(["runs", "resume", run_id]))
        left = check(tally)
        with Store() as store:
            runs = store.runs()
            complete = all([row.prompt_tokens for row in store.rows(run.run_id)] == list(PROMPTS) for run in runs)
            sittings = max(run.sitting for run in runs)
    print(f"{len(runs)} runs in up to {sittings} sittings, {len(tally.told)} rows told, seed {seed}")
    print_bar(f"rows lost by {tally.kills} kills", tally.lost, "0", tally.lost == 0)
    print_bar("rows doubled", tally.doubled, "0", tally.doubled == 0)
    print_bar("killed runs shown as running", tally.still_running, "0", tally.still_running == 0)
    print_bar("runs not complete once resumed", len(left) + (not complete), "0", complete and not left)


if __name__ == "__main__":
    main()
