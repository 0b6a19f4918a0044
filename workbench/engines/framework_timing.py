"""What the framework costs a pass besides its operations, timed on two networks of negligible width."""

import logging
import time
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from transformers import initialization

from workbench.ceilings.memory_fit import FLOAT32_BYTES
from workbench.engines import narrow
from workbench.engines.device import synchroniser
from workbench.engines.loading import language_class
from workbench.engines.meta_device import known_settings
from workbench.hardware.probe.operations import OperationBench
from workbench.hardware.timings import WIDE, Conditions, Operation, Task, Timing
from workbench.models.matrices import FEED_FORWARD
from workbench.models.model import KvKind, KvLayer, Model
from workbench.models.tensors import ROUTED
from workbench.predictions.passes import decode_step
from workbench.runner import CancelToken
from workbench.runs.run import now

log = logging.getLogger(__name__)
ROUNDS = 2
"""How often each of the two networks is timed, in turn."""
FEW_LAYERS, MORE_LAYERS = 2, 6
"""Layers of the two narrow networks whose difference is what a layer costs the framework."""
NARROW_STEPS, NARROW_WARM_UPS = 36, 6
LEAST_S = 1e-7
"""What the framework takes at least: the difference of two times may come to nothing."""
EVICTED_BYTES = 16_000_000
"""The most that is read after one of a narrow network's products, where its wide one would have read as much, so that
code and small tensors are as cold as that leaves them."""
EXPERTS_WEIGHTS = "gate_up_proj"
"""What the model classes of transformers name the first of their routed experts' weights."""


def time_framework(model: Model, under: Conditions, device: torch.device, cancel: CancelToken) -> tuple[Timing, ...]:
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


def experts_of(model: Model, dtype: torch.dtype) -> torch.nn.Module | None:
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
