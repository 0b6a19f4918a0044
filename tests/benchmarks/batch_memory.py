"""Resident memory of each batch at its peak against what was predicted of it, every point in a process of its own.

Models may be named; a config.json alone stands for a model as well. `--batches` and `--contexts` choose the points.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from tests.benchmarks.report import print_bar
from workbench.numbers import whole_numbers

MODELS = ("smollm2-135m:float32", "qwen3-0.6b:float32")
MOST_OVER, MOST_SHORT = 0.10, 0.02


def measured(model: str, dtype: str, context: int, batch: int) -> tuple[int, int, str]:
    """The peak of a process that decodes this batch alone, what was predicted, and the status of its row."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [
                *(sys.executable, "-m", "workbench", "batch", model, "--dtype", dtype, "--device", "cpu"),
                *("--contexts", str(context), "--batches", str(batch), "--steps", "3", "--format", "json"),
            ],
            env={**os.environ, "WORKBENCH_DATA": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    (row,) = json.loads(process.stdout)
    return row["resident_bytes"], row["predicted_resident_bytes"], row["status"]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(whole_numbers(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help="MODEL:DTYPE")
    parser.add_argument("--batches", type=_numbers, default=(1, 8, 32))
    parser.add_argument("--contexts", type=_numbers, default=(2, 256, 1024))
    options = parser.parse_args()
    off = []
    print(f"{'model':<24} {'context':>7} {'batch':>5} {'peak GB':>8} {'predicted':>9} {'off':>7}")
    for model in options.models:
        name, _, dtype = model.rpartition(":")
        for context in options.contexts:
            for batch in options.batches:
                peak, predicted, status = measured(name, dtype, context, batch)
                if status != "ok":
                    print(f"{name:<24} {context:>7,} {batch:>5,} {status}", flush=True)
                    continue
                off.append(predicted / peak - 1)
                print(
                    f"{name:<24} {context:>7,} {batch:>5,} {peak / 1e9:>8.3f} {predicted / 1e9:>9.3f} {off[-1]:>+7.1%}",
                    flush=True,
                )
    print_bar("most over", max(off), f"at most {MOST_OVER:.0%}", max(off) <= MOST_OVER)
    print_bar("most short", min(off), f"at least {-MOST_SHORT:.0%}", min(off) >= -MOST_SHORT)


if __name__ == "__main__":
    main()
