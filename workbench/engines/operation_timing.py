"""Timing the operations of a model's passes on this box, without the model: widths and class are all that is taken."""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from transformers import initialization

from workbench.ceilings.memory_fit import FLOAT32_BYTES
from workbench.engines import narrow
from workbench.engines.device import choose_device, device_name, synchroniser
from workbench.engines.loading import language_class
from workbench.engines.meta_device import known_settings
from workbench.experiments.settings import RunSettings
from workbench.hardware.heap import give_back_heap
from workbench.hardware.machine import available_bytes, this_machine, usable_cores
from workbench.hardware.probe.operations import OperationBench
from workbench.hardware.timings import NEAREST, Conditions, Operation, Task, Timing
from workbench.models.matrices import FEED_FORWARD
from workbench.models.model import DTYPE_BYTES, KvKind, KvLayer, Model
from workbench.models.tensors import ROUTED
from workbench.predictions.passes import Pass, decode_step
from workbench.runner import CancelToken
from workbench.runs.run import now

log = logging.getLogger(__name__)
MOST_WORKING_BYTES = 1_500_000_000
"""Weights gone over in turn, at most: more than the last-level cache of any one processor."""
FREE_SHARE, MOST_HELD_SHARE = 0.4, 0.4
"""Shares of the memory there is that the weights gone over may take, and one operation beside them."""
PASS_S = 0.25
"""A pass over the operations is made of as many layers as take about so long, LEAST_LAYERS at least."""
LEAST_LAYERS = 2
ROUNDS = 2
"""How often all passes are gone through: a box's seconds are more alike than its minutes."""
PASSES, LEAST_PASSES, FEW_PASSES = 4, 2, 1
PASSES_S = 0.6
"""After so many seconds LEAST_PASSES are enough; FEW_PASSES of layers that take longer than PASS_S each, and
where attention alone is lacking."""
STEADY = 1.1
"""Passes that differ by this much were disturbed: more of them are taken."""
FEW_LAYERS, MORE_LAYERS = 2, 6
"""Layers of the two narrow networks whose difference is what a layer costs the framework."""
NARROW_STEPS, NARROW_WARM_UPS = 36, 6
LEAST_S = 1e-7
"""What the framework takes at least: the difference of two times may come to nothing."""
EVICTED_BYTES = 16_000_000
"""The most that is read after one of a narrow network's products, where its wide one would have read as much, so that
code and small tensors are as cold as that leaves them."""
WIDE = (Task.PRODUCT, Task.EXPERTS)
"""What reads weights."""
EXPERTS_WEIGHTS = "gate_up_proj"
"""What the model classes of transformers name the first of their routed experts' weights."""
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
    more than MOST_HELD_SHARE of the memory there is is left out. A cell holds the samples of all rounds so far; of what
    several passes run over about as much memory, those of the first of them.
    """
    under, device = conditions(settings), choose_device(settings.device)
    if under is None:
        return
    W = min(model.read_bytes_per_token, MOST_WORKING_BYTES, int(FREE_SHARE * available_bytes()))
    dtype = getattr(torch, settings.dtype)
    experts = _experts(model, dtype)
    bench = OperationBench(device, dtype, W, under.threads, synchroniser(device), experts, check=cancel.check)
    most = MOST_HELD_SHARE * available_bytes() / dtype.itemsize
    samples: dict[tuple[Operation, int], list[float]] = {}
    totals: dict[Pass, list[float]] = {}
    try:
        yield _framework(model, under, device, cancel)
        for number in range(ROUNDS + 1):
            timed: dict[Operation, list[int]] = {}
            for each in passes:
                cancel.check()
                size = working_bytes(settings, model, each)
                lacking = {o for o in each.counts if not any(_alike(size, other) for other in timed.get(o, ()))}
                if any(operation.elements > most for operation in lacking):
                    log.info("not timed: %s", max(lacking, key=lambda operation: operation.elements))
                    continue
                for operation in lacking:
                    timed.setdefault(operation, []).append(size)
                if number == ROUNDS and _agree(totals[each]):
                    continue
                is_partly = not any(operation.task in WIDE for operation in lacking)
                taken, is_long = _taken(bench, each)
                least = FEW_PASSES if is_long or is_partly else LEAST_PASSES
                seconds = _passes(bench, taken, cancel, least=least, warm_ups=0 if is_long else 1)
                found = {operation: each_s for operation, each_s in seconds.items() if operation in lacking}
                for operation, each_s in found.items():
                    samples.setdefault((operation, size), []).extend(each_s)
                totals.setdefault(each, []).append(sum(each.counts[o] * median(each_s) for o, each_s in found.items()))
                yield tuple(Timing(o, under, size, tuple(samples[o, size]), now()) for o in found)
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
    bench: OperationBench, taken: Sequence[Operation], cancel: CancelToken, *, least: int, warm_ups: int
) -> Mapping[Operation, list[float]]:
    """The mean seconds of each operation's calls in each of several passes, `warm_ups` before them not counted."""
    begun = time.perf_counter()
    found: dict[Operation, list[float]] = {}
    totals: list[float] = []
    for number in range(warm_ups + PASSES):
        cancel.check()
        seconds = bench.seconds(taken)
        if number >= warm_ups:
            for operation, each in seconds.items():
                found.setdefault(operation, []).append(each)
            totals.append(sum(seconds.values()))
        enough = len(totals) >= least
        if enough and time.perf_counter() - begun > PASSES_S and median(totals) <= STEADY * min(totals):
            break
    return found


def _framework(model: Model, under: Conditions, device: torch.device, cancel: CancelToken) -> tuple[Timing, ...]:
    """What a layer of the model's class costs besides its operations, and a step besides its layers.

    From two networks of negligible width, less the same operations timed one by one.
    """
    few, more = list[float](), list[float]()
    for _ in range(ROUNDS):
        for layers, samples in ((FEW_LAYERS, few), (MORE_LAYERS, more)):
            found = _narrow_step(model, under, layers, device, cancel)
            if found is None:
                return ()
            samples += found
    each = [(b - a) / (MORE_LAYERS - FEW_LAYERS) for a, b in zip(few, more, strict=True)]
    once = [a - FEW_LAYERS * layer for a, layer in zip(few, each, strict=True)]
    cells = ((Task.LAYER, each), (Task.STEP, once))
    return tuple(
        Timing(Operation(task, 1, family=model.architecture), under, 0, tuple(max(LEAST_S, s) for s in seconds), now())
        for task, seconds in cells
    )


def _narrow_step(
    model: Model, under: Conditions, layers: int, device: torch.device, cancel: CancelToken
) -> list[float] | None:
    """Seconds of steps of a narrow network of so many layers beyond its operations, in a few samples."""
    network = _narrow_network(model, under.dtype, layers, device)
    if network is None:
        return None
    dtype, synchronise = getattr(torch, under.dtype), synchroniser(device)
    routed = _routed_module(network)
    bench = OperationBench(device, dtype, EVICTED_BYTES, under.threads, synchronise, routed)
    step = decode_step(narrow_model(model, network, layers), narrow.CONTEXT)
    # The bytes that the model's own products would bring in, in the order of a layer's, to be read after the narrow.
    read = [
        min(EVICTED_BYTES, int(operation.amount) * dtype.itemsize)
        for operation in decode_step(model, narrow.CONTEXT).layers[0]
        if operation.task in WIDE
    ]
    evicted = torch.full((EVICTED_BYTES // FLOAT32_BYTES,), 0.5, device=device)
    spent, products = 0.0, 0

    def evict(*_: object) -> None:
        nonlocal spent, products
        start = time.perf_counter()
        evicted[: read[products % len(read)] // FLOAT32_BYTES].sum()
        synchronise()
        products += 1
        spent += time.perf_counter() - start

    def operations_s() -> float:
        nonlocal products
        total, products = 0.0, 0
        for operations in (*step.layers, step.ends):
            for operation in operations:
                total += sum(bench.seconds((operation,)).values())
                if operation.task in WIDE:
                    evict()
        return total

    for module in network.modules():
        if isinstance(module, torch.nn.Linear) or (routed is not None and module is routed):
            module.register_forward_hook(evict)
    samples: list[float] = []
    with torch.inference_mode():
        ids = torch.zeros((1, narrow.CONTEXT), dtype=torch.long, device=device)
        out = network(input_ids=ids, use_cache=True)
        name = "cache" if "cache" in out else "past_key_values"
        cache, token = out[name], ids[:, :1]
        for number in range(NARROW_STEPS + NARROW_WARM_UPS):
            cancel.check()
            spent, products, start = 0.0, 0, time.perf_counter()
            out = network(input_ids=token, use_cache=True, **{name: cache})
            token = out.logits[:, -1:].argmax(-1)
            synchronise()
            whole = time.perf_counter() - start - spent
            alone = operations_s()
            if number >= NARROW_WARM_UPS:
                samples.append(whole - alone)
    third = len(samples) // 3
    return [median(samples[i * third : (i + 1) * third]) for i in range(3)]


def _narrow_network(model: Model, dtype: str, layers: int, device: torch.device) -> Any | None:
    if model.config is None:
        return None
    try:
        config = known_settings(model.config, model.source)
        chosen = language_class(model, config)
        text = config.get_text_config()
        text.num_hidden_layers = layers
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:layers]
        with torch.device("meta"), initialization.no_init_weights():
            built = chosen.from_config(config, dtype=getattr(torch, dtype))
        return narrow.narrow_network(built, device)
    except Exception:
        # What a class refuses to build so is predicted without its framework's share.
        log.info("no narrow network of %s", model.name, exc_info=True)
        return None


def _experts(model: Model, dtype: torch.dtype) -> torch.nn.Module | None:
    """The routed experts of a layer of the model's class, without memory for their weights yet."""
    if not model.routed_expert_bytes or model.config is None:
        return None
    config = known_settings(model.config, model.source)
    with torch.device("meta"), initialization.no_init_weights():
        return _routed_module(language_class(model, config).from_config(config, dtype=dtype))


def _routed_module(network: torch.nn.Module) -> torch.nn.Module | None:
    modules = (
        module for module in network.modules() if EXPERTS_WEIGHTS in dict(module.named_parameters(recurse=False))
    )
    return next(modules, None)


def narrow_model(model: Model, network: Any, layers: int) -> Model:
    """The model that a narrow network of so many layers is: the same heads, each as narrow as it was built."""
    text = network.config.get_text_config()
    d, h = narrow.HEAD_WIDTH, int(text.hidden_size)
    f = {FEED_FORWARD: narrow.NARROW["intermediate_size"] or 0, ROUTED: narrow.NARROW["moe_intermediate_size"] or 0}
    attention = tuple(replace(layer, head_dim=d, window=None) for layer in model.attention_layers[:layers])
    kept = tuple(
        KvLayer(KvKind.FULL, layer.elements_per_token // at.head_dim * d)
        for layer, at in zip(model.kv_layers[:layers], model.attention_layers[:layers], strict=True)
    )
    groups = tuple(
        replace(g, parameters=3 * h * f[g.name] * layers * (max(1, model.experts) if g.name == ROUTED else 1))
        for g in model.groups
        if g.name in f
    )
    return replace(
        model,
        hidden=h,
        vocabulary=narrow.NARROW["vocab_size"] or 0,
        attention_layers=attention,
        kv_layers=kept,
        groups=groups,
    )
