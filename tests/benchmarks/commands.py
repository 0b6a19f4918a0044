"""Whole commands that are arithmetic: their time against 0.4 s and against Python alone, and what they import."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median

from tests.benchmarks.report import print_bar, spread
from tests.models_on_disk import smollm2_gguf

ROUNDS = 11
BAR = 0.4
PLAIN = "Python alone"
HEAVY = ("torch", "transformers", "numpy", "textual", "gguf")
IMPORTED = f"""
import sys
from workbench.cli import main
code = main(sys.argv[1:])
print(*sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)
raise SystemExit(code)
"""


def commands() -> Mapping[str, Sequence[str]]:
    """The commands by what they are called here."""
    three = ("qwen3-8b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "gpt-oss-120b-mxfp4")
    return {
        "ceiling of three models": ("ceiling", *three, "--bandwidth", "273"),
        "ceiling on this machine": ("ceiling", "smollm2-135m"),
        "ceiling on a device by name": ("ceiling", "smollm2-135m", "--hardware", "rtx-4090"),
        "inspect of a GGUF file": ("inspect", str(smollm2_gguf())),
    }


def seconds_of(*arguments: str) -> float:
    """Seconds a whole Python process takes."""
    started = time.perf_counter()
    ended = subprocess.run([sys.executable, *arguments], capture_output=True)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise OSError(f"{arguments} ended with {ended.returncode}: {ended.stderr.decode()}")
    return seconds


def imported(arguments: Sequence[str]) -> str:
    """The heavy packages a command imports, or none."""
    ended = subprocess.run([sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, check=True)
    return ended.stderr.splitlines()[-1] or "none"


def main() -> None:
    asked = {PLAIN: ("-c", "pass"), **{name: ("-m", "workbench", *words) for name, words in commands().items()}}
    rounds = [{name: seconds_of(*arguments) for name, arguments in asked.items()} for _ in range(ROUNDS + 1)][1:]
    for name in asked:
        print(f"{name} s: {spread([seconds[name] for seconds in rounds])}")
    for name, words in commands().items():
        took = median(seconds[name] for seconds in rounds)
        ratio = median(seconds[name] / seconds[PLAIN] for seconds in rounds)
        print(f"{name}: {ratio:.1f} times Python alone; of {', '.join(HEAVY)} imports {imported(words)}")
        print_bar(f"{name} in seconds", took, f"at most {BAR}", took <= BAR)


if __name__ == "__main__":
    main()
