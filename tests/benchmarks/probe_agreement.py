"""Two full probes one after the other against each other, and how long whole probes take, quick and full."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.benchmarks.report import print_bar, spread

APART = 0.05
QUICK_S, FULL_S = 5.0, 60.0
QUICK_TIMES = 5


@dataclass(frozen=True)
class Probed:
    """A whole probe: the seconds its process took and what it printed."""

    seconds: float
    found: dict[str, Any]

    @property
    def figures(self) -> dict[str, float]:
        """B, and by dtype C and the matrix-vector rate, by name."""
        named = {"B": self.found["read_gb_s"]["best"]}
        named |= {f"C {dtype}": value for dtype, value in self.found["gemm_gflop_s"].items()}
        return named | {f"matrix-vector {dtype}": value for dtype, value in self.found["gemv_gb_s"].items()}


def probed(*options: str) -> Probed:
    """One probe of the processor as a process of its own."""
    words = [sys.executable, "-m", "workbench", "probe", "--device", "cpu", "--format", "json", *options]
    started = time.perf_counter()
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return Probed(time.perf_counter() - started, json.loads(ended.stdout))


def main() -> None:
    quick = [probed("--quick") for _ in range(QUICK_TIMES)]
    full = [probed(), probed()]
    for name, probes, bar in (("quick", quick, QUICK_S), ("full", full, FULL_S)):
        others = max(probe.found["load"]["other_cpu_percent"] for probe in probes)
        print(
            f"{name} probe s: {spread([probe.seconds for probe in probes])}; others took up to {others:.0f} % of cores"
        )
        middle = median(probe.seconds for probe in probes)
        print_bar(f"{name} probe in seconds", middle, f"at most {bar:.0f}", middle <= bar)
    one, other = full
    apart = {name: abs(other.figures[name] / figure - 1) for name, figure in one.figures.items()}
    for name, share in apart.items():
        print(f"  {name}: {one.figures[name]:,.1f} and {other.figures[name]:,.1f}, {share:.1%} apart")
    quiet = one.found["quiet"] and other.found["quiet"]
    for sentence in (*one.found["findings"], *other.found["findings"]):
        print(f"  ! {sentence}")
    farthest = max(apart.values())
    print(f"both say they were quiet: {quiet}")
    print_bar("farthest apart", farthest, f"at most {APART} or not quiet", farthest <= APART or not quiet)


if __name__ == "__main__":
    main()
