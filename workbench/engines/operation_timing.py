"""Timing the operations of a model's passes on this box, without the model: widths and class are all that is taken."""

import logging
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import torch
import transformers

from workbench.engines.device import choose_device, device_name, synchroniser
from workbench.engines.framework_timing import LEAST_S, experts_of, time_framework
from workbench.experiments.settings import RunSettings
from workbench.hardware.heap import give_back_heap, page_faults
from workbench.hardware.machine import available_bytes, this_machine, usable_cores
from workbench.hardware.probe.operations import OperationBench
from workbench.hardware.timings import FRAMEWORK, NEAREST, WIDE, Conditions, Operation, Timing
from workbench.models.model import DTYPE_BYTES, Model
from workbench.predictions.passes import Pass
from workbench.predictions.timing_pace import LEAST_LAYERS, PASS_S, ROUNDS
from workbench.runner import CancelToken
from workbench.runs.run import now

log = logging.getLogger(__name__)
MOST_WORKING_BYTES = 1_500_000_000
"""Weights gone over in turn, at most: more than the last-level cache of any one processor."""
FREE_SHARE, MOST_HELD_SHARE = 0.4, 0.4
"""Shares of the memory there is that the weights gone over may take, and one operation beside them."""
PASSES, LEAST_PASSES, FEW_PASSES = 4, 2, 1
PASSES_S = 0.6
"""After so many seconds LEAST_PASSES are enough; FEW_PASSES of layers that take longer than PASS_S each, and
where attention alone is lacking."""
MOST_UNSETTLED = 6
"""Passes of a decode step that are taken for nothing, at most, until its caches have their place in the heap."""
FAULT_S = 5e-6
"""What a page costs that the system gives: 0.3 to 7 µs on the two-core box, the most for blocks given back before."""
SETTLED = 0.02
"""The share of a pass that pages may cost in one that counts."""
STEADY = 1.1
"""Passes that took this much longer than the shortest were disturbed: more are taken, and those don't count."""
POLICY = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def conditions(settings: RunSettings) -> Conditions | None:
    """What the operations of a run with these settings would be timed under.

    None on an accelerator, which begins one operation while it still runs the last: alone each takes longer there.
    """
    device = choose_device(settings.device)
    if device.type != "cpu":
        return None
    try:
        policy = POLICY.read_text().strip()
    except OSError:
        policy = ""
    return Conditions(
        machine=str(this_machine()),
        device=device_name(device),
        dtype=settings.dtype,
        threads=settings.threads or usable_cores(),
        versions=f"{transformers.__version__}, torch {torch.__version__}",
        policy=policy,
    )


def working_bytes(settings: RunSettings, model: Model, of: Pass) -> int:
    """Weights and caches that a pass goes over before it comes to the first of them again, up to what no cache holds.

    The more of them there are, the less of a weight's next reading is still in the last-level cache.
    """
    caches = of.cache_elements * DTYPE_BYTES[settings.dtype]
    return min(model.read_bytes_per_token + caches, MOST_WORKING_BYTES)


def time_operations(
    settings: RunSettings, model: Model, passes: Sequence[Pass], cancel: CancelToken
) -> Iterator[tuple[Timing, ...]]:
    """The framework's cells, then those of each pass in turn, ROUNDS times; raises Cancelled between operations.

    Passes that took otherwise in one round than in another are timed once more; one with an operation that would hold
    more than MOST_HELD_SHARE of the memory there is is left out. A cell holds the samples of all rounds so far but
    disturbed ones; of what several passes run over about as much memory, those of the first of them.
    """
    under, device = conditions(settings), choose_device(settings.device)
    if under is None:
        return
    W = min(model.read_bytes_per_token, MOST_WORKING_BYTES, int(FREE_SHARE * available_bytes()))
    dtype = getattr(torch, settings.dtype)
    experts = experts_of(model, dtype)
    bench = OperationBench(device, dtype, W, under.threads, synchroniser(device), experts, check=cancel.check)
    most = MOST_HELD_SHARE * available_bytes() / dtype.itemsize
    passes_of: dict[Pass, list[Mapping[Operation, float]]] = {each: [] for each in passes}
    rounds: dict[Pass, list[float]] = {each: [] for each in passes}
    try:
        yield time_framework(model, under, device, cancel)
        for number in range(ROUNDS + 1):
            timed: dict[Operation, list[int]] = {}
            for each in passes:
                cancel.check()
                size = working_bytes(settings, model, each)
                lacking = {
                    operation: calls
                    for operation, calls in each.counts.items()
                    if operation.task not in FRAMEWORK
                    and not any(_alike(size, other) for other in timed.get(operation, ()))
                }
                if any(operation.elements > most for operation in lacking):
                    log.info("not timed: %s", max(lacking, key=lambda operation: operation.elements))
                    continue
                for operation in lacking:
                    timed.setdefault(operation, []).append(size)
                if number == ROUNDS and _agree(rounds[each]):
                    continue
                is_partly = not any(operation.task in WIDE for operation in lacking)
                taken, is_long = _taken(bench, each)
                least = FEW_PASSES if is_long or is_partly else LEAST_PASSES
                # A model's steps go on in the memory that its first ones were given; each prefill is given its own.
                unsettled = MOST_UNSETTLED if each.new < each.context else 0
                found = _passes(bench, taken, cancel, least=least, warm_ups=0 if is_long else 1, unsettled=unsettled)
                rounds[each].append(median(_total_s(lacking, seconds) for seconds in _steady(lacking, found)))
                passes_of[each] += found
                steady = _steady(lacking, passes_of[each])
                yield tuple(Timing(o, under, size, tuple(seconds[o] for seconds in steady), now()) for o in lacking)
    finally:
        del bench
        give_back_heap()


def _alike(size: int, other: int) -> bool:
    return abs(math.log(size / other)) <= NEAREST


def _agree(totals: Sequence[float]) -> bool:
    return max(totals) <= STEADY * min(totals)


def _taken(bench: OperationBench, timed: Pass) -> tuple[list[Operation], bool]:
    """The operations that stand for a pass: so many of its layers as take PASS_S; and whether one takes longer."""
    layers = list(timed.layers)
    bench.seconds(layers[0])
    one = bench.seconds(layers[0])
    layer_s = sum(one[operation] for operation in layers[0] if operation in one)
    is_long = layer_s > PASS_S
    most = 1 if is_long else max(LEAST_LAYERS, int(PASS_S / max(layer_s, LEAST_S)))
    return [operation for layer in layers[:most] for operation in layer] + list(timed.ends), is_long


def _passes(
    bench: OperationBench,
    taken: Sequence[Operation],
    cancel: CancelToken,
    *,
    least: int,
    warm_ups: int,
    unsettled: int,
) -> list[Mapping[Operation, float]]:
    """The mean seconds of each operation's calls in each of several passes.

    `warm_ups` before them don't count, nor do up to `unsettled` that the system gave pages.
    """
    begun = time.perf_counter()
    for _ in range(warm_ups):
        cancel.check()
        bench.seconds(taken)
    passes: list[Mapping[Operation, float]] = []
    calls = Counter(operation for operation in taken if operation.task not in FRAMEWORK)
    while len(passes) < PASSES:
        cancel.check()
        faults, start = page_faults(), time.perf_counter()
        seconds = bench.seconds(taken)
        faults_s = FAULT_S * (page_faults() - faults)
        if unsettled and faults_s > SETTLED * (time.perf_counter() - start):
            unsettled -= 1
            continue
        passes.append(seconds)
        enough = len(passes) >= least and 2 * len(_steady(calls, passes)) > len(passes)
        if enough and time.perf_counter() - begun > PASSES_S:
            break
    return passes


def _steady(
    calls: Mapping[Operation, int], passes: Sequence[Mapping[Operation, float]]
) -> Sequence[Mapping[Operation, float]]:
    """Those that were not disturbed."""
    totals = [_total_s(calls, seconds) for seconds in passes]
    return [seconds for seconds, total in zip(passes, totals, strict=True) if total <= STEADY * min(totals)]


def _total_s(calls: Mapping[Operation, int], seconds: Mapping[Operation, float]) -> float:
    return sum(count * seconds[operation] for operation, count in calls.items())
