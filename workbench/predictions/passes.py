"""The operations of one pass of a model, in the order in which transformers runs them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.hardware.timings import Operation, Task
from workbench.models.matrices import feed_forward_width, routed_layers, routed_width, shared_width
from workbench.models.model import KvKind, Model

NORMS_OF_HEADS = ("qwen3", "qwen3_moe")
"""Families that normalise each head's query and key (transformers 5.24)."""
MULTIPLIED_OTHERWISE = (KvKind.LATENT, KvKind.RECURRENT)


@dataclass(frozen=True)
class Pass:
    """So many `new` tokens of each of `sequences` that hold `context` tokens once they are in: prefill or decode step.

    `layers` are the operations of each layer, `ends` those before and after all of them.
    """

    sequences: int
    new: int
    context: int
    layers: tuple[tuple[Operation, ...], ...]
    ends: tuple[Operation, ...]

    def __str__(self) -> str:
        each = "" if self.sequences == 1 else f" of {self.sequences:,} sequences"
        if self.new == 1:
            return f"a decode step{each} with {self.context:,} in the cache"
        return f"a prefill of {self.new:,} tokens{each}"

    @cached_property
    def counts(self) -> Mapping[Operation, int]:
        """How often each operation is run."""
        return Counter(operation for layer in (*self.layers, self.ends) for operation in layer)

    @cached_property
    def cache_elements(self) -> int:
        """Elements of the caches that it attends to."""
        attended = (operation.shape for layer in self.layers for operation in layer if operation.task is Task.ATTEND)
        return sum(2 * b * t * kv_heads * d for b, t, _, kv_heads, d in attended)


def can_be_predicted(model: Model) -> bool:
    """Whether the operations of its layers are known: not those of compressed caches and of recurrent states."""
    return (
        bool(model.attention_layers)
        and len(model.attention_layers) == len(model.kv_layers)
        and all(layer.kind not in MULTIPLIED_OTHERWISE for layer in model.kv_layers)
    )


def decode_step(model: Model, t: int, b: int = 1) -> Pass:
    """A decode step of b sequences that attend to t tokens each, their own among them."""
    return _pass(model, b, 1, t)


def prefill(model: Model, n: int, b: int = 1) -> Pass:
    """A prefill of n tokens of each of b sequences; the head runs for the last position only."""
    return _pass(model, b, n, n)


def _pass(model: Model, b: int, n: int, t: int) -> Pass:
    rows, family, table = b * n, model.architecture, (model.vocabulary, model.hidden)
    layers = tuple(_layer(model, index, b, n, t) for index in range(len(model.attention_layers)))
    ends = (
        Operation(Task.STEP, 1, family=family),
        Operation(Task.NORM, rows, (model.hidden,)),
        Operation(Task.PRODUCT, b, table),
        Operation(Task.CHOOSE, b, (model.vocabulary,)),
    )
    return Pass(b, n, t, layers, ends)


def _layer(model: Model, index: int, b: int, n: int, t: int) -> tuple[Operation, ...]:
    rows, h = b * n, model.hidden
    attention, kept = model.attention_layers[index], model.kv_layers[index]
    d, heads = attention.head_dim, attention.heads
    kv_heads = max(1, kept.elements_per_token // (2 * d))
    q, kv = heads * d, kv_heads * d
    held = t if kept.window is None else min(t, max(kept.window, n))
    of_heads = (Operation(Task.NORM, rows * heads, (d,)), Operation(Task.NORM, rows * kv_heads, (d,)))
    return (
        Operation(Task.LAYER, 1, family=model.architecture),
        Operation(Task.NORM, rows, (h,)),
        Operation(Task.PRODUCT, rows, (q, h)),
        Operation(Task.PRODUCT, rows, (kv, h)),
        Operation(Task.PRODUCT, rows, (kv, h)),
        *(of_heads if model.architecture in NORMS_OF_HEADS else ()),
        Operation(Task.ROTATE, rows, (heads, kv_heads, d)),
        Operation(Task.ATTEND, n, (b, held, heads, kv_heads, d)),
        Operation(Task.PRODUCT, rows, (h, q)),
        Operation(Task.ADD, rows, (h,)),
        Operation(Task.NORM, rows, (h,)),
        *_feed_forward(model, index, rows, h),
        Operation(Task.ADD, rows, (h,)),
    )


def _feed_forward(model: Model, index: int, rows: int, h: int) -> tuple[Operation, ...]:
    """Of a dense layer its gated block; of a routed one the router, its experts, and a block of the shared ones.

    Where only some layers are routed, the first are taken for the dense ones.
    """
    layers, routed = len(model.kv_layers), routed_layers(model)
    if index < layers - routed:
        return _gated(rows, feed_forward_width(model) * layers // (layers - routed), h)
    # The width of an expert is an average over all layers, dense ones among them.
    f = routed_width(model) * layers // routed
    return (
        Operation(Task.PRODUCT, rows, (model.experts, h)),
        Operation(Task.EXPERTS, rows, (model.experts, model.experts_used, f, h)),
        *(_gated(rows, shared, h) if (shared := shared_width(model)) else ()),
    )


def _gated(rows: int, f: int, h: int) -> tuple[Operation, ...]:
    return (
        Operation(Task.PRODUCT, rows, (f, h)),
        Operation(Task.PRODUCT, rows, (f, h)),
        Operation(Task.GATE, rows, (f,)),
        Operation(Task.PRODUCT, rows, (h, f)),
    )
