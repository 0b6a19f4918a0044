"""What the idle app costs with its strip ticking: CPU time of the whole process in a pseudo-terminal, over a minute."""

import sys
import time

import psutil

from tests.benchmarks.report import print_bar, spread
from tests.terminal import Terminal
from workbench.ui.measuring_app import IDLE_TICK_S

SETTLE_S, PART_S, PARTS = 10.0, 10.0, 6
BAR_PERCENT = 0.3


def wakes(process: psutil.Process) -> int:
    """How often the app's first thread has slept and gone on: it does so at every tick."""
    return int(process.num_ctx_switches().voluntary)


def cost_percent(terminal: Terminal, process: psutil.Process) -> float:
    """CPU time of the app over a part of the minute, in per cent of one core."""
    started, before = time.monotonic(), sum(process.cpu_times()[:2])
    terminal.let_pass(PART_S)
    return 100 * (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - started)


def main() -> None:
    with Terminal([sys.executable, "-m", "workbench"], 120, 40) as terminal:
        terminal.wait_for("RAM")
        terminal.let_pass(SETTLE_S)
        process, written = psutil.Process(terminal.process_id), terminal.bytes_written
        woken = wakes(process)
        parts = [cost_percent(terminal, process) for _ in range(PARTS)]
        woken = wakes(process) - woken
        # An app that has ended, or whose ticks have, costs nothing.
        if process.status() == psutil.STATUS_ZOMBIE or woken < PARTS * PART_S / IDLE_TICK_S / 2:
            raise SystemExit(f"the app is {process.status()} and woke {woken} times: nothing was measured")
        print(f"wakes: {woken}; bytes painted in {PARTS * PART_S:.0f} s: {terminal.bytes_written - written}")
    whole = sum(parts) / PARTS
    print(f"per cent of one core in parts of {PART_S:.0f} s: {spread(parts)}")
    print_bar("idle app, per cent of one core", whole, f"at most {BAR_PERCENT}", whole <= BAR_PERCENT)


if __name__ == "__main__":
    main()
