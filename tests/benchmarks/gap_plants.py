"""Causes of known size planted in a decode step, and the rung in which the ladder finds each: within 20 per cent.

    python -m tests.benchmarks.gap_plants [--model NAME] [--context N] [--batch N] [--seconds S] [--plants WORDS]

Every plant is measured several times, each between two plain ladders, so that a box that drifts takes nothing from it.
Its size is what the median step grew by, where it isn't known from its making; beside it stand what its own rungs grew
by, and the most that any other rung did. A plant that acts on all matrix products has both their rungs.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from transformers import cache_utils

from tests.benchmarks.report import print_bar
from workbench.engines.engine import LoadedModel, load_transformers
from workbench.experiments.events import LadderMeasured
from workbench.experiments.gap.gap import gap
from workbench.experiments.gap.ladder import FRAMEWORK
from workbench.experiments.gap.parts import Part
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import GapSettings, Weights
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken
from workbench.runs.ladder import BELOW_QUIET, OTHER_LOAD, Ladder

DELAY_S = 0.010
BAR = 0.20
NEIGHBOUR = """
import torch
torch.set_num_threads(1)
taken = torch.ones(200_000_000)
while True:
    taken.sum()
"""


@dataclass(frozen=True)
class Plant:
    """What is planted in a loaded network, for how long, and the rung it belongs to."""

    name: str
    rungs: tuple[str, ...]
    here: Callable[[Any], Any]
    threads: int | None = None
    known_s: float | None = None
    least_context: int = 0
    """Below it the plant is lost in the step's own noise."""


def spin(seconds: float) -> None:
    """Take this long and keep the core."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@contextmanager
def nothing(_network: Any) -> Iterator[None]:
    yield


@contextmanager
def hooked(hooks: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def delay(network: Any) -> Any:
    return hooked([network.register_forward_pre_hook(lambda *_: spin(DELAY_S))])


def linears_twice(network: Any) -> Any:
    head = network.get_output_embeddings()

    def again(module: Any, given: Any, _out: Any) -> None:
        torch.nn.functional.linear(given[0], module.weight, module.bias)

    linears = [m for m in network.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    return hooked([module.register_forward_hook(again) for module in linears])


@contextmanager
def cache_copied_again(_network: Any) -> Iterator[None]:
    update = cache_utils.DynamicLayer.update

    def copied(*given: Any, **named: Any) -> Any:
        keys, values = update(*given, **named)
        keys.clone()
        values.clone()
        return keys, values

    cache_utils.DynamicLayer.update = copied
    try:
        yield
    finally:
        cache_utils.DynamicLayer.update = update


@contextmanager
def attention_twice(network: Any) -> Iterator[None]:
    own = sys.modules[type(network).__module__].ALL_ATTENTION_FUNCTIONS
    attend = own["sdpa"]

    def twice(*given: Any, **named: Any) -> Any:
        attend(*given, **named)
        return attend(*given, **named)

    own._local_mapping["sdpa"] = twice
    try:
        yield
    finally:
        del own._local_mapping["sdpa"]


@contextmanager
def neighbour(_network: Any) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        time.sleep(5)
        yield
    finally:
        process.kill()
        process.wait()


PLANTS = (
    Plant("a delay of 10 ms in every step", (FRAMEWORK,), delay, known_s=DELAY_S),
    Plant("linear layers run twice", (Part.WEIGHTS,), linears_twice),
    Plant("the cache copied once more", (Part.CACHE,), cache_copied_again, least_context=2048),
    Plant("attention run twice", (Part.ATTENTION,), attention_twice, least_context=2048),
    Plant("a neighbour that reads memory", (OTHER_LOAD, BELOW_QUIET), neighbour),
    Plant("one thread", (Part.WEIGHTS, Part.HEAD), nothing, threads=1),
)


def main() -> None:
    """Measure each plant between two plain ladders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--plants", default="")
    chosen = parser.parse_args()
    settings = GapSettings(
        model=chosen.model,
        weights=Weights.SYNTHETIC,
        dtype=chosen.dtype,
        device="cpu",
        context=chosen.context,
        batch=chosen.batch,
        seconds=chosen.seconds,
    )
    for plant in PLANTS:
        if not any(word in plant.name for word in chosen.plants.split(",")):
            continue
        here = replace(settings, context=max(settings.context, plant.least_context))
        plain, planted = [_ladder(here, nothing)], []
        for _ in range(chosen.alternations):
            planted.append(_ladder(replace(here, threads=plant.threads), plant.here))
            plain.append(_ladder(here, nothing))
        _print(plant, plain, planted)


def _ladder(settings: GapSettings, here: Callable[[Any], Any]) -> Ladder:
    planted: list[Any] = []

    def load(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
        loaded = load_transformers(planned, cancel)
        planted.append(here(loaded._network))  # type: ignore[attr-defined]
        planted[0].__enter__()
        return loaded

    found: Ladder | None = None
    try:
        for event in gap(settings, load, TimedWindow())(CancelToken()):
            if isinstance(event, LadderMeasured):
                found = event.ladder
    finally:
        planted[0].__exit__(None, None, None)
    assert found is not None
    return found


def _grown(plain: Sequence[Ladder], planted: Sequence[Ladder], of: Callable[[Ladder], float]) -> float:
    """Median of what `of` grew by from the two plain ladders around each planted one."""
    around = [(of(before) + of(after)) / 2 for before, after in pairwise(plain)]
    return median(of(ladder) - plain_s for ladder, plain_s in zip(planted, around, strict=True))


def _seconds(*names: str) -> Callable[[Ladder], float]:
    return lambda ladder: sum(rung.time.value for rung in ladder.terms if rung.name in names)


def _print(plant: Plant, plain: Sequence[Ladder], planted: Sequence[Ladder]) -> None:
    step = _grown(plain, planted, lambda ladder: ladder.measured.value)
    size = step if plant.known_s is None else plant.known_s
    own = _grown(plain, planted, _seconds(*plant.rungs))
    others = {
        rung.name: _grown(plain, planted, _seconds(rung.name))
        for rung in planted[0].terms
        if rung.name not in plant.rungs
    }
    most = max(others, key=lambda name: abs(others[name]))
    print(
        f"{plant.name}, {planted[0].tokens} tokens: the step of {median(p.measured.value for p in plain) * 1e3:.1f} ms "
        f"grew by {step * 1e3:.2f}, {' and '.join(plant.rungs)} by {own * 1e3:.2f}; of the others most {most}, "
        f"{others[most] * 1e3:.2f}",
        flush=True,
    )
    off = abs(own / size - 1) if size else float("inf")
    print_bar("  off by", off, f"at most {BAR}", off <= BAR)


if __name__ == "__main__":
    main()
