"""Wall time until every median is as precise as a fixed five repeats make the worst, on smollm2-135m, really measured.

Each alternation sweeps with a fixed five repeats of every prompt length, whose widest interval is what that sweep can
promise of any of its medians, and then until each median is as precise as that, on one loaded model. Loading and the
box's rates are left out of both: they are the same.
"""

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tests.benchmarks.report import print_bar, spread
from workbench.engines.torch_engine import load
from workbench.experiments.events import Event, RowMeasured
from workbench.experiments.plan import plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.repeats import half_width_share
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken
from workbench.runs.samples import Samples

ALTERNATIONS, FIXED = 3, 5
PROMPTS = (1, 16, 64, 512, 1024)
BAR = 0.7


@dataclass
class KeptModel:
    """A loaded model that outlives the sweep, whose rates are not measured again."""

    loaded: Any

    def __post_init__(self) -> None:
        self.rates = self.loaded.box_rates()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    def box_rates(self) -> Any:
        """Those of the beginning."""
        return self.rates

    def read_again(self) -> Any:
        """Those of the beginning."""
        return self.rates.read

    def close(self) -> None:
        """Stay loaded."""


def swept(settings: SweepSettings, model: KeptModel) -> tuple[float, dict[int, Samples]]:
    """Seconds of a sweep, and the samples of each prompt length."""
    begun = time.monotonic()
    events: list[Event] = list(sweep(settings, lambda *_: model, TimedWindow())(CancelToken()))
    seconds = time.monotonic() - begun
    return seconds, {e.row.prompt_tokens: e.samples for e in events if isinstance(e, RowMeasured)}


def share(samples: Samples) -> float:
    """How precise a prompt length's medians are."""
    return half_width_share((samples.ttft_s, samples.tpot_s))


def main() -> None:
    fixed = SweepSettings(model="smollm2-135m", prompts=PROMPTS, repeats=FIXED, device="cpu")
    model = KeptModel(load(plan(fixed), CancelToken()))
    ratios = []
    for alternation in range(ALTERNATIONS):
        took_fixed, by_count = swept(fixed, model)
        widest = max(map(share, by_count.values()))
        until = replace(fixed, repeats="auto", precision=min(0.99, widest), most_repeats=200, most_seconds=1e6)
        took_until, found = swept(until, model)
        for n in PROMPTS:
            samples = found[n]
            print(
                f"  prompt {n:>5}: five reach ±{100 * share(by_count[n]):.1f} %; until ±{100 * widest:.1f} %: "
                f"±{100 * share(samples):.1f} % with {len(samples.ttft_s)} after {len(samples.dropped_ttft_s)} dropped",
                flush=True,
            )
        ratios.append(took_until / took_fixed)
        print(
            f"alternation {alternation + 1}: {took_fixed:.1f} s fixed, {took_until:.1f} s until as precise", flush=True
        )
    print(f"ratio of wall times: {spread(ratios)}")
    print_bar("wall time until precise over five repeats", median(ratios), f"at most {BAR}", median(ratios) <= BAR)


if __name__ == "__main__":
    main()
