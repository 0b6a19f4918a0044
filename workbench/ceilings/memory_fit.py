"""What must be resident: weights and caches by arithmetic, and what a run with torch holds besides."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.ceilings.kv_cache import cache_bytes, cache_read
from workbench.models.model import Model, ModelKind
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import headed

FLOAT32_BYTES = 4
ENGINE_BYTES = 400_000_000
"""What Python, torch and transformers take before a model is loaded (measured, CPU build of torch 2.13)."""
HOLES_PER_CACHE, HOLES_PER_PASS = 0.5, 2.5
"""Holes of the heap between caches and activations, as a share of the caches, up to as many passes' activations."""
SWEEP_HOLES_PER_CACHE, SWEEP_HOLES_PER_HALF_WIDTH_CACHE = 0.6, 0.05
"""The same in a sweep over prompts, in float32 and in dtypes of two bytes (fitted to those of peak_memory)."""
LATER_ENGINE_BYTES = 100_000_000
"""What of ENGINE_BYTES comes with the first pass, after a model is loaded (fitted to the peak of a GGUF there)."""
LEAST_HOLES_PER_CACHE = 0.28
"""Their share however large the caches are (these three: fitted to the peaks of tests/benchmarks/batch_memory)."""
MOST_SEQUENCES = 1 << 40
"""Where a search for the largest batch ends."""
LONGEST_CONTEXT = 1 << 24
"""Where a search for the longest context ends for a model that states no limit."""


def weights_resident(model: Model) -> Quantity:
    """Bytes of weights held: the file where there is one, every tensor otherwise, whatever a token reads of them."""
    if model.file_bytes is None or model.held_in is not None:
        return arithmetic("weights resident", model.resident_bytes, Unit.BYTES, "weights", source=model.source)
    return arithmetic("the file, resident in full", model.file_bytes, Unit.BYTES, "weights", source=model.source)


def needed(model: Model, t: int, element_bytes: float, b: int = 1) -> Quantity:
    """file + b·k·t: bytes of weights and caches; an engine's own buffers come on top."""
    weights, cache = weights_resident(model), cache_read(model, t, element_bytes, b)
    return arithmetic(
        "memory for weights and caches, engine buffers not counted",
        weights.value + cache.value,
        Unit.BYTES,
        "need",
        "weights + b·k·t",
        (weights, cache),
    )


@dataclass(frozen=True)
class Fit:
    """A model with b contexts of t tokens in a memory; the longest context and largest batch are 0 where none fits.

    `longest_context` is for this batch, None where the model's cache does not grow; `largest_batch` is for this
    context, None where a sequence costs nothing.
    """

    model: str = headed("model")
    context: int = headed("context")
    batch: int = headed("batch")
    weight_bytes: Quantity = headed("weights")
    kv_bytes: Quantity = headed("cache")
    memory_needed_bytes: Quantity = headed("needs")
    memory_bytes: Quantity = headed("of")
    free_bytes: Quantity = headed("free")
    fits: bool = headed("fits")
    longest_context: int | None = headed("longest context")
    largest_batch: int | None = headed("largest batch")


def fit(model: Model, t: int, b: int, element_bytes: float, M: Quantity) -> Fit:
    """Weights, caches and what is left of M bytes; free bytes are below zero where it doesn't fit."""
    need = needed(model, t, element_bytes, b)
    return Fit(
        model=model.name,
        context=t,
        batch=b,
        weight_bytes=weights_resident(model),
        kv_bytes=cache_read(model, t, element_bytes, b),
        memory_needed_bytes=need,
        memory_bytes=M,
        free_bytes=arithmetic("memory left", M.value - need.value, Unit.BYTES, formula="M − need", inputs=(M, need)),
        fits=need.value <= M.value,
        longest_context=longest_context(model, element_bytes, b, M.value),
        largest_batch=largest_batch(model, t, element_bytes, M.value),
    )


def longest_context(model: Model, element_bytes: float, b: int, M: float) -> int | None:
    """The longest context, up to the model's own limit, at which b caches and the weights fit in M bytes.

    0 where not even an empty one fits, None where the cache of a model without a limit never fills M.
    """
    room = M - weights_resident(model).value
    most = model.context_limit or LONGEST_CONTEXT
    if cache_bytes(model, most, element_bytes, b) <= room:
        return model.context_limit
    return _last(most, lambda t: cache_bytes(model, t, element_bytes, b) <= room)


def largest_batch(model: Model, t: int, element_bytes: float, M: float) -> int | None:
    """The most sequences of t tokens whose caches fit in M bytes beside the weights; 0 where the weights don't fit."""
    room = M - weights_resident(model).value
    each = cache_bytes(model, t, element_bytes)
    if room < 0:
        return 0
    return int(room // each) if each else None


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes a run with torch holds at its peak, by what holds them."""

    weights: int
    cache: int
    activations: int
    appended: int
    loading: int
    engine: int = ENGINE_BYTES
    unpacked: int = 0

    @property
    def working(self) -> int:
        """What a pass holds besides weights and cache, or loading where that takes more."""
        loading = self.loading - self.cache - LATER_ENGINE_BYTES
        return max(self.activations + self.unpacked + self.appended, loading)

    @property
    def beside_loaded(self) -> int:
        """What a model that is loaded already takes to run."""
        return self.cache + self.working

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.working + self.engine


def activation_bytes(model: Model, n: int, element_bytes: int, positions: int = 1) -> int:
    """Bytes a pass over n tokens holds at most: rows of the widest layer, and float32 logits of some positions.

    Hidden states, the three feed-forward rows and the query, key and value rows live at the same time.
    """
    return n * _row_bytes(model, element_bytes) + 3 * positions * model.vocabulary * 4


def _row_bytes(model: Model, element_bytes: int) -> int:
    feed_forward = 3 * _feed_forward_width(model)
    if model.routed_expert_bytes:
        # A token is laid out once for each expert it uses, and comes back from each.
        feed_forward = model.experts_used * (feed_forward + 2 * model.hidden)
    return (4 * model.hidden + feed_forward + 4 * _attention_width(model)) * element_bytes


def _attention_width(model: Model) -> int:
    return max((layer.heads * layer.head_dim for layer in model.attention_layers), default=model.hidden)


def _beside_caches(model: Model, cache: int, rows: int) -> int:
    """Bytes that a batch holds besides caches of `cache` bytes and the `rows` of a pass, to append to them.

    Holes of the heap, or where that is more the largest layer's old keys, and its keys and values once for every head.
    """
    k = [layer.elements_per_token for layer in model.kv_layers]
    repeated = cache * (max(k) / 4 + 2 * _attention_width(model)) / sum(k) if sum(k) else 0
    holes = max(min(HOLES_PER_CACHE * cache, HOLES_PER_PASS * rows), LEAST_HOLES_PER_CACHE * cache)
    return round(max(holes, min(repeated, cache)))


def memory_need(
    model: Model, prompt: int, new_tokens: int, element_bytes: int, batch: int = 1, pass_tokens: int | None = None
) -> MemoryNeed:
    """Bytes needed to prefill `prompt` tokens and decode up to `new_tokens` after them with transformers on torch.

    Each of `batch` sequences holds as many; `pass_tokens` is what one pass of the prefill takes of all of them
    together, all their tokens where it is not given.
    Appending copies each layer's cache, and the heap keeps holes as a share of it. A GGUF is held beside its largest
    tensor while it is dequantised.
    """
    cache = cache_bytes(model, prompt + new_tokens, element_bytes, batch)
    holes = SWEEP_HOLES_PER_CACHE if element_bytes == FLOAT32_BYTES else SWEEP_HOLES_PER_HALF_WIDTH_CACHE
    rows = (pass_tokens or 0) * _row_bytes(model, element_bytes)
    return MemoryNeed(
        weights=model.resident_bytes,
        cache=cache,
        activations=activation_bytes(model, pass_tokens or batch * prompt, element_bytes, positions=batch),
        appended=_beside_caches(model, cache, rows) if pass_tokens else round(holes * cache),
        loading=(model.file_bytes or 0) + model.head_parameters * FLOAT32_BYTES if model.kind is ModelKind.GGUF else 0,
    )


def longest_prompt(model: Model, new_tokens: int, element_bytes: int, available: int) -> int:
    """The longest prompt whose need is at most `available` bytes; 0 where not even one token fits."""
    most = model.context_limit or 1 << 20
    return _last(most, lambda n: memory_need(model, n, new_tokens, element_bytes).total <= available)


def most_sequences(need: Callable[[int], MemoryNeed], beside_loaded: int) -> int:
    """The most sequences for whose `need` there are bytes beside a loaded model; 0 where not even one fits."""
    return _last(MOST_SEQUENCES, lambda b: need(b).beside_loaded <= beside_loaded)


def _last(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, 0 where none above it does; what fits must not grow."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _feed_forward_width(model: Model) -> int:
    config = model.config or {}
    for key in ("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim"):
        width = config.get(key)
        if isinstance(width, int) and width > 0:
            return width
    return 4 * model.hidden
