"""Operations of a pass timed one by one, in the pass's order, over weights that no cache still holds."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from workbench.hardware.probe.arrays import filled
from workbench.hardware.timings import FRAMEWORK, Operation, Task

Clock = Callable[[], float]
Run = Callable[[], object]
ALIVE = 4
"""Results that live at a time in a layer: query, key, value and the residual, or gate, up, their product and that."""
MOST_CACHE_BYTES = 1_500_000_000
"""Bytes of caches that attention of one kind goes over in turn: more than any processor's cache holds."""


class OperationBench:
    """Runs operations on one device, in the thread that asks; weights come from one array, the next after the last.

    `experts` are the routed experts of a layer of the model's class, whose weights are put in place for each call.
    `check` is called before each operation, and may raise to end it.
    """

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        working_bytes: int,
        threads: int,
        synchronise: Callable[[], None],
        experts: torch.nn.Module | None = None,
        clock: Clock = time.perf_counter,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._device = device
        self._dtype = dtype
        self._synchronise = synchronise
        self._experts = experts
        self._clock = clock
        torch.set_num_threads(threads)
        self._weights = filled(max(1, working_bytes // dtype.itemsize), dtype, device, threads)
        self._taken = 0
        self._caches: dict[Operation, list[DynamicLayer]] = {}
        self._ready: dict[Operation, Run] = {}
        # What a pass still holds while it goes on, so that operations write to memory that is as cold and as new.
        self._alive: deque[object] = deque(maxlen=ALIVE)
        self._grown: list[DynamicLayer] = []

    def seconds(self, operations: Iterable[Operation]) -> Mapping[Operation, float]:
        """The mean seconds of each operation's calls in one pass over them in that order."""
        spent: dict[Operation, float] = {}
        calls: dict[Operation, int] = {}
        clock, synchronise = self._clock, self._synchronise
        self._grown.clear()
        with torch.inference_mode():
            for operation in operations:
                if operation.task in FRAMEWORK:
                    continue
                self._check()
                run = self._prepared(operation, calls.get(operation, 0))
                synchronise()
                start = clock()
                self._alive.append(run())
                synchronise()
                spent[operation] = spent.get(operation, 0.0) + clock() - start
                calls[operation] = calls.get(operation, 0) + 1
        return {operation: seconds / calls[operation] for operation, seconds in spent.items()}

    def _prepared(self, operation: Operation, call: int) -> Run:
        """What the operation's next call of a pass runs."""
        match operation.task:
            case Task.PRODUCT:
                return self._product(operation)
            case Task.ATTEND:
                return self._attention(operation, call)
            case Task.EXPERTS:
                return self._routed(operation)
            case _:
                if operation not in self._ready:
                    self._ready[operation] = self._elementwise(operation)
                return self._ready[operation]

    def _product(self, operation: Operation) -> Run:
        rows = self._values(1, operation.rows, operation.shape[1])
        weight = self._next(*operation.shape)
        return lambda: torch.nn.functional.linear(rows, weight)

    def _routed(self, operation: Operation) -> Run:
        """Tokens through the experts drawn for each, uniformly."""
        assert self._experts is not None, "routed experts are timed with a module of the model's class"
        experts = self._experts
        count, used, _, h = operation.shape
        for name, parameter in experts.named_parameters():
            experts._parameters[name] = torch.nn.Parameter(self._next(*parameter.shape))
        chosen = torch.rand(operation.rows, count, device=self._device).topk(used).indices
        shares = torch.full((operation.rows, used), 1 / used, dtype=self._dtype, device=self._device)
        rows = self._values(operation.rows, h)
        return lambda: experts(rows, chosen, shares)

    def _next(self, *shape: int) -> torch.Tensor:
        """The next weights of that shape; from the start again where the array ends before them."""
        size = prod(shape)
        if size > self._weights.numel():
            # Threads of their own fill it, which are in no inference mode.
            with torch.inference_mode(False):
                self._weights = filled(size, self._dtype, self._device, torch.get_num_threads())
        if self._taken + size > self._weights.numel():
            self._taken = 0
        start, self._taken = self._taken, self._taken + size
        return self._weights[start : start + size].view(shape)

    def _attention(self, operation: Operation, call: int) -> Run:
        """Append to a layer's cache and attend to it: a cache of its own for each call of a pass, as far as they go."""
        b, t, heads, kv_heads, d = operation.shape
        n = operation.rows
        query = self._values(b, n, heads, d).transpose(1, 2)
        new = self._values(b, n, kv_heads, d).transpose(1, 2)
        module = _module(heads, kv_heads)
        if n == t:
            self._grown.append(DynamicLayer())
            return partial(_attend, module, self._grown[-1], query, new)
        caches = self._caches.setdefault(operation, [])
        size = 2 * b * t * kv_heads * d * self._dtype.itemsize
        if call >= len(caches) and (not caches or size * (len(caches) + 1) <= MOST_CACHE_BYTES):
            layer = DynamicLayer()
            held = torch.full((b, kv_heads, t - n, d), 0.5, dtype=self._dtype, device=self._device)
            layer.update(held, held.clone())
            caches.append(layer)
        layer = caches[call % len(caches)]
        # Cut to what it held before its last call, so that every pass attends to as many tokens.
        layer.keys, layer.values = layer.keys[..., : t - n, :], layer.values[..., : t - n, :]
        return lambda: _attend(module, layer, query, new)

    def _elementwise(self, operation: Operation) -> Run:
        rows, shape = operation.rows, operation.shape
        match operation.task:
            case Task.NORM:
                return partial(_norm, self._values(1, rows, shape[0]), self._values(shape[0]))
            case Task.ADD:
                return partial(torch.add, self._values(1, rows, shape[0]), self._values(1, rows, shape[0]))
            case Task.GATE:
                return partial(_gate, self._values(1, rows, shape[0]), self._values(1, rows, shape[0]))
            case Task.ROTATE:
                heads, kv_heads, d = shape
                query, key = self._values(1, rows, heads, d), self._values(1, rows, kv_heads, d)
                angles = self._values(1, 1, rows, d)
                return partial(_rotate, query.transpose(1, 2), key.transpose(1, 2), angles)
            case Task.CHOOSE:
                logits = self._values(rows, 1, shape[0])
                return lambda: logits[:, -1:].argmax(-1)
            case _:
                raise ValueError(f"{operation.task} is not timed one by one")

    def _values(self, *shape: int) -> torch.Tensor:
        return torch.full(shape, 0.5, dtype=self._dtype, device=self._device)


def _module(heads: int, kv_heads: int) -> Any:
    """What transformers' attention asks of the module that calls it."""
    return SimpleNamespace(num_key_value_groups=heads // kv_heads, is_causal=True, training=False)


def _attend(module: Any, layer: DynamicLayer, query: torch.Tensor, new: torch.Tensor) -> object:
    keys, values = layer.update(new, new)
    found, _ = sdpa_attention_forward(module, query, keys, values, None, scaling=query.shape[-1] ** -0.5)
    return found.reshape(query.shape[0], query.shape[2], -1).contiguous()


def _norm(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root-mean-square normalisation as the model classes of transformers compute it, in float32."""
    wide = rows.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(rows.dtype)


def _gate(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


def _rotate(query: torch.Tensor, key: torch.Tensor, angles: torch.Tensor) -> object:
    return tuple(each * angles + _half_turned(each) * angles for each in (query, key))


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
