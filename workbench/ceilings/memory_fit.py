"""What a run needs resident: weights, the cache at its longest, and what a pass holds besides."""

from dataclasses import dataclass

from workbench.ceilings.decode import cache_bytes
from workbench.models.model import Model, ModelKind

FLOAT32_BYTES = 4
ENGINE_BYTES = 400_000_000
"""What Python, torch and transformers take before a model is loaded (measured, CPU build of torch 2.13)."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes a run holds at its peak, by what holds them."""

    weights: int
    cache: int
    activations: int
    repacked: int
    appended: int
    loading: int
    engine: int = ENGINE_BYTES

    @property
    def working(self) -> int:
        """What a pass holds besides weights and cache, or loading where that takes more."""
        return max(self.activations + self.repacked + self.appended, self.loading - self.cache)

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.working + self.engine


def activation_bytes(model: Model, n: int, element_bytes: int) -> int:
    """Bytes a pass over n tokens holds at most: rows of the widest layer, and float32 logits of one position.

    Hidden states, the three feed-forward rows and the query, key and value rows live at the same time.
    """
    feed_forward = _feed_forward_width(model)
    attention = max((layer.heads * layer.head_dim for layer in model.attention_layers), default=model.hidden)
    row = 4 * model.hidden + 3 * feed_forward + 4 * attention
    return n * row * element_bytes + 3 * model.vocabulary * 4


def memory_need(model: Model, prompt: int, new_tokens: int, element_bytes: int, batch: int = 1) -> MemoryNeed:
    """Bytes needed to prefill `prompt` tokens and decode up to `new_tokens` after them.

    Appending copies the cache, and the heap keeps holes of about its size (peaks measured on the Qwen3-0.6B shape at
    2,048 and 4,096 tokens). For half-width types oneDNN lays a matrix out anew before it multiplies: the output head
    is the largest (seen with torch 2.13 on a CPU). A GGUF is held beside its largest tensor while it is dequantised.
    """
    t = prompt + new_tokens
    cache = batch * cache_bytes(model, t, element_bytes)
    return MemoryNeed(
        weights=model.resident_bytes,
        cache=cache,
        activations=activation_bytes(model, batch * prompt, element_bytes),
        repacked=model.head_parameters * element_bytes if element_bytes < FLOAT32_BYTES else 0,
        appended=cache,
        loading=(model.file_bytes or 0) + model.head_parameters * FLOAT32_BYTES if model.kind is ModelKind.GGUF else 0,
    )


def longest_prompt(model: Model, new_tokens: int, element_bytes: int, available: int) -> int:
    """The longest prompt whose need is at most `available` bytes; 0 where not even one token fits."""
    low, high = 0, model.context_limit or 1 << 20
    while low < high:
        middle = (low + high + 1) // 2
        if memory_need(model, middle, new_tokens, element_bytes).total <= available:
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
