"""Times predicted from operations alone against those measured, after a fresh calibration of each model and dtype.

    python -m tests.benchmarks.predictions [--models qwen3-0.6b,mixture] [--dtypes float32] [--keep FILE]

Prints every pair with B around its calibration and around its measurement; where the box read MOST_APART faster or
slower in one than in the other, it was another box: the pair is printed as dropped, calibrated and measured again,
TRIES times at most, of which the last counts whatever it was. Decode: median error at most 5 per cent, worst at most
15; prefill: 8 and 20; 70 to 95 per cent of all within their 80 per cent interval. With --keep the pairs are added to a
file of JSON lines, and the bars are of all it holds, so that models can be measured in sittings.
"""

import argparse
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from tests.benchmarks.report import print_bar
from workbench.engines.operation_timing import time_operations, working_bytes
from workbench.engines.torch_engine import load
from workbench.experiments.plan import middle_context, plan
from workbench.experiments.settings import SweepSettings, Weights
from workbench.hardware.heap import share_one_heap
from workbench.hardware.timings import Table
from workbench.predictions.passes import Pass, decode_step, prefill
from workbench.predictions.prediction import predicted
from workbench.runner import CancelToken

MODELS = ("smollm2-135m", "mixture", "qwen3-0.6b", "smollm2-1.7b")
DTYPES = ("float32", "bfloat16")
DECODES = ((16, 1), (1024, 1), (4000, 1), (256, 4), (64, 16))
PREFILLS = (16, 256, 1024, 2048)
STEPS, REQUESTS = 17, 3
MOST_APART, TRIES = 0.10, 3
MIXTURE = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "vocab_size": 50_000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "dtype": "bfloat16",
}


@dataclass(frozen=True)
class Pair:
    """One point, in ms; B around its calibration and around its measurement in GB/s."""

    model: str
    dtype: str
    phase: str
    context: int
    batch: int
    predicted: float
    low: float
    high: float
    measured: float
    calibrated: float
    before: float
    after: float

    @property
    def apart(self) -> float:
        """By what share the box read faster or slower before or after it was measured."""
        return max(abs(rate / self.calibrated - 1) for rate in (self.before, self.after))

    @property
    def miss(self) -> float:
        """As a share of the measurement."""
        return abs(self.predicted / self.measured - 1)

    @property
    def inside(self) -> bool:
        """Whether the interval holds the measurement."""
        return self.low <= self.measured <= self.high

    def __str__(self) -> str:
        return (
            f"{self.model:<14} {self.dtype:<9} {self.phase:<7} {self.context:>5,} × {self.batch:<3} predicted "
            f"{self.predicted:>8.1f} [{self.low:.1f}, {self.high:.1f}] measured {self.measured:>8.1f}  "
            f"{self.predicted / self.measured - 1:+6.1%} {'inside' if self.inside else 'OUTSIDE'}  "
            f"B {self.calibrated:.1f}; {self.before:.1f}, {self.after:.1f}"
        )


class Sitting:
    """One model in one dtype, loaded beside its predictions, which know nothing of it."""

    def __init__(self, name: str, dtype: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mixture.json"
            path.write_text(json.dumps(MIXTURE))
            about = {"model": str(path) if name == "mixture" else name, "dtype": dtype, "device": "cpu"}
            planned = plan(SweepSettings(**about, prompts=PREFILLS, weights=Weights.SYNTHETIC))  # type: ignore[arg-type]
        self.name, self.dtype, self.planned, self.model = name, dtype, planned, planned.resident
        self.loaded = load(planned, CancelToken())
        self.loaded.prepare(16, 0)
        self.loaded.request(9, CancelToken())
        self.loaded.box_rates()

    def read_rate(self) -> float:
        """This box's read rate now, B, in GB/s."""
        return self.loaded.read_again().value / 1e9

    def calibrated(self, passes: Sequence[Pass]) -> tuple[Table, float]:
        """The cells of some passes, and B around their timing."""
        before = self.read_rate()
        timed = time_operations(self.planned.settings, self.model, passes, CancelToken())
        table = Table(cell for cells in timed for cell in cells)
        return table, mean((before, self.read_rate()))

    def pairs(self) -> Iterator[Pair]:
        """Every point, predicted from one calibration of all and then measured."""
        prompts = {(n, 1): prefill(self.model, n) for n in PREFILLS}
        steps = {(c, b): decode_step(self.model, middle_context(c, STEPS + 1), b) for c, b in DECODES}
        of_all = self.calibrated([*steps.values(), *prompts.values()])
        for phase, passes in (("prefill", prompts), ("decode", steps)):
            for (context, b), of in passes.items():
                pair = self.pair(phase, context, b, of, *of_all)
                for _ in range(TRIES - 1):
                    if pair.apart <= MOST_APART:
                        break
                    print(pair, " DROPPED", flush=True)
                    pair = self.pair(phase, context, b, of, *self.calibrated([of]))
                yield pair

    def pair(self, phase: str, context: int, b: int, of: Pass, table: Table, calibrated: float) -> Pair:
        """One point as these cells predict it, and as it is measured after that."""
        found = predicted(of, table, working_bytes(self.planned.settings, self.model, of))
        assert found is not None
        before = self.read_rate()
        cancel, seconds = CancelToken(), []
        if phase == "decode":
            seconds = list(self.loaded.batch([context] * b, STEPS, 1, cancel).step_s)
        else:
            for seed in range(REQUESTS + 1):
                self.loaded.prepare(context, seed)
                seconds.append(self.loaded.request(2, cancel).ttft_s)
            seconds = seconds[1:]
        ms, low, high, measured = (x * 1e3 for x in (found.seconds, found.low_s, found.high_s, median(seconds)))
        rates = calibrated, before, self.read_rate()
        return Pair(self.name, self.dtype, phase, context, b, ms, low, high, measured, *rates)


def judge(found: list[Pair]) -> None:
    """Print the bars of all pairs."""
    for phase, most_median, most in (("decode", 0.05, 0.15), ("prefill", 0.08, 0.20)):
        misses = [pair.miss for pair in found if pair.phase == phase]
        if misses:
            print(f"{phase}: {len(misses)} combinations")
            print_bar("  median error", median(misses), f"at most {most_median}", median(misses) <= most_median)
            print_bar("  worst error", max(misses), f"at most {most}", max(misses) <= most)
    inside = sum(pair.inside for pair in found) / len(found)
    print_bar("share inside the 80 % interval", inside, "0.70 to 0.95", 0.70 <= inside <= 0.95)


def main() -> None:
    """Measure the models named, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    found: list[Pair] = []
    for model in chosen.models.split(","):
        for dtype in chosen.dtypes.split(","):
            sitting = Sitting(model, dtype)
            for pair in sitting.pairs():
                print(pair, flush=True)
                found.append(pair)
                if chosen.keep is not None:
                    with chosen.keep.open("a") as kept:
                        print(json.dumps(asdict(pair)), file=kept)
            sitting.loaded.close()
    if chosen.keep is not None:
        found = [Pair(**json.loads(line)) for line in chosen.keep.read_text().splitlines()]
    judge(found)


if __name__ == "__main__":
    share_one_heap()
    # As the app does: in a thread, which shares the heap.
    measuring = threading.Thread(target=main)
    measuring.start()
    measuring.join()
