"""Slices of 4 and 8 layers against the whole model: decode within 5 per cent, prefill within 8.

    python -m tests.benchmarks.slices [--model qwen3-0.6b] [--dtypes float32,bfloat16] [--layers 4]

Whole and slices are measured in turn, twice each, and the means of both are held against each other.
"""

import argparse
import threading
from statistics import mean, median

from tests.benchmarks.report import print_bar
from workbench.engines.engine import LoadedModel, load_transformers
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings, Weights
from workbench.hardware.heap import share_one_heap
from workbench.runner import CancelToken

PROMPTS = (16, 256, 1024)
NEW_TOKENS, REQUESTS = 9, 3


def times(loaded: LoadedModel, prompt: int) -> tuple[float, float]:
    """Median TTFT and TPOT of a few requests, in ms."""
    timings = []
    for seed in range(REQUESTS + 1):
        loaded.prepare(prompt, seed)
        timings.append(loaded.request(NEW_TOKENS, CancelToken()))
    return median(t.ttft_s * 1e3 for t in timings[1:]), median(t.tpot_s * 1e3 for t in timings[1:])


def sitting(model: str, dtype: str, layers: int | None) -> dict[int, tuple[float, float]]:
    """Both times at each prompt length, of the whole model or of its slices."""
    settings = SweepSettings(
        model=model, dtype=dtype, device="cpu", prompts=PROMPTS, weights=Weights.SYNTHETIC, layers=layers
    )
    loaded = load_transformers(plan(settings), CancelToken())
    try:
        return {prompt: times(loaded, prompt) for prompt in PROMPTS}
    finally:
        loaded.close()


def main() -> None:
    """Measure whole, slices, whole again; print each against the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen3-0.6b")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--layers", type=int, default=4)
    chosen = parser.parse_args()
    for dtype in chosen.dtypes.split(","):
        wholes, slices = [], []
        for _ in range(2):
            wholes.append(sitting(chosen.model, dtype, None))
            slices.append(sitting(chosen.model, dtype, chosen.layers))
        for prompt in PROMPTS:
            for phase, at, most in (("prefill", 0, 0.08), ("decode", 1, 0.05)):
                whole, said = ([each[prompt][at] for each in times] for times in (wholes, slices))
                off = abs(mean(said) / mean(whole) - 1)
                both = " and ".join(f"{ms:.1f}" for ms in said), " and ".join(f"{ms:.1f}" for ms in whole)
                what = f"{chosen.model} {dtype} {phase} of {prompt:,}: slices {both[0]} ms, whole {both[1]}"
                print_bar(what, off, f"at most {most}", off <= most)


if __name__ == "__main__":
    share_one_heap()
    measuring = threading.Thread(target=main)
    measuring.start()
    measuring.join()
