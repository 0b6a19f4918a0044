"""The batch sweep against a plain loop of decode steps over the same model in the same process, alternating."""

import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from tests.benchmarks.agreement import KeptModel
from tests.benchmarks.report import print_bar, spread
from workbench.engines.torch_engine import load
from workbench.experiments.batch import batch_sweep
from workbench.experiments.batch_plan import Point, plan_batch
from workbench.experiments.events import RowMeasured
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import BatchSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken

ALTERNATIONS = 5
SETTINGS = BatchSettings(model="smollm2-135m", device="cpu")


def plain_step(network: Any, vocabulary: int, context: int, batch: int, steps: int) -> float:
    """The median of some decode steps in seconds, with nothing around them but the clock."""
    held = "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"
    prompt = torch.randint(0, vocabulary, (batch, context))
    seconds = []
    with torch.inference_mode():
        made = network(input_ids=prompt, logits_to_keep=1)
        following, cache = made.logits[:, -1:].argmax(-1), made[held]
        for _ in range(steps):
            begun = time.perf_counter()
            following = network(input_ids=following, **{held: cache}).logits[:, -1:].argmax(-1)
            seconds.append(time.perf_counter() - begun)
    return median(seconds)


def compare(settings: BatchSettings, alternations: int) -> None:
    """Print the ratios of the sweep's median steps to the plain loop's; both sides of a point follow each other."""
    planned = plan_batch(settings)
    kept = KeptModel(load(planned, CancelToken()))

    def already_loaded(planned: LoadPlan, cancel: CancelToken) -> Any:
        return kept

    def swept(at: Point) -> float:
        one = replace(settings, contexts=(at.context,), batches=(at.batch,))
        events = batch_sweep(one, already_loaded, TimedWindow())(CancelToken())
        return next((event.row.step_ms or 0) / 1e3 for event in events if isinstance(event, RowMeasured))

    def plain(at: Point) -> float:
        return plain_step(kept.loaded._network, kept.loaded.model.vocabulary, at.context, at.batch, settings.steps)

    plain(planned.points[0])
    middles = []
    for at in planned.points:
        ratios = []
        for alternation in range(alternations):
            order: list[Callable[[Point], float]] = [swept, plain] if alternation % 2 else [plain, swept]
            found = {side: side(at) for side in order}
            ratios.append(found[swept] / found[plain])
        middles.append(median(ratios))
        print(f"  step ratio at context {at.context:>4}, batch {at.batch:>3}: {spread(ratios)}", flush=True)
    middle = median(middles)
    print_bar(f"{settings.model} step ratio", middle, "1.00 ± 0.02", abs(middle - 1) <= 0.02)


def main() -> None:
    alternations = int(sys.argv[1]) if len(sys.argv) > 1 else ALTERNATIONS
    print(f"{SETTINGS.model}, float32, contexts {SETTINGS.contexts}, batches {SETTINGS.batches}, {alternations} times")
    compare(SETTINGS, alternations)


if __name__ == "__main__":
    main()
