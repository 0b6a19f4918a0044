"""Bytes written to a terminal of 120 by 40: by the app while a sweep is on screen, and while nothing happens."""

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.report import print_bar
from tests.terminal import Terminal

COLUMNS, LINES = 120, 40
SETTLE_S = 12.0
IDLE_S, RUNNING_S = 10.0, 60.0
BAR_BYTES_PER_SECOND = 5_000
RUNNING = """
import sys
from workbench.experiments.settings import SweepSettings
from workbench.ui.run_app import run_app
sys.exit(run_app(SweepSettings(model="smollm2-135m", prompts=(1, 16, 64, 256, 1024, 4096), device="cpu")))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        changed = {"WORKBENCH_DATA": folder}
        root = Path(__file__).resolve().parents[2]
        with Terminal([sys.executable, "-c", RUNNING], COLUMNS, LINES, cwd=root, changed=changed) as terminal:
            terminal.wait_for("r runs this sweep")
            terminal.let_pass(SETTLE_S)
            idle = terminal.let_pass(IDLE_S)
            terminal.send("r")
            running = terminal.let_pass(RUNNING_S) / RUNNING_S
            # What was on screen must have been a run, not its refusal.
            terminal.send("x")
            terminal.wait_for("interrupted")
            print(terminal.text)
    print_bar(
        "bytes a second while a sweep runs",
        running,
        f"under {BAR_BYTES_PER_SECOND:,}",
        running < BAR_BYTES_PER_SECOND,
    )
    print_bar(f"bytes in {IDLE_S:.0f} s of doing nothing", idle, "0", idle == 0)


if __name__ == "__main__":
    main()
