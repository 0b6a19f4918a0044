"""The KV cache: bytes a step reads of it, how they grow with the context, and their share of the step."""

from collections.abc import Iterator

from workbench.models.cache_types import STATE_BYTES
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic


def cache_bytes(model: Model, t: int, element_bytes: float, b: int = 1) -> int:
    """b·k·t: cache bytes a step of b sequences reads with t tokens in each, fixed states included.

    Full layers count every token, sliding ones their window's, latent ones their compressed vector; elements are of
    `element_bytes` bytes.
    """
    state = model.kv_elements_read(0)
    growing = model.kv_elements_read(t) - state
    return round(b * (growing * element_bytes + state * max(element_bytes, STATE_BYTES)))


def cache_read(model: Model, t: int, element_bytes: float, b: int = 1) -> Quantity:
    """b·k·t as a quantity, with k, the bytes of one token, among its inputs: of full and of sliding layers apart."""
    windows = {layer.window for layer in model.kv_layers if layer.window is not None and layer.window < t}
    limits = f", sliding layers {' or '.join(f'{w:,}' for w in sorted(windows))} at most" if windows else ""
    return arithmetic(
        f"cache read at t = {t:,} tokens{limits}",
        cache_bytes(model, t, element_bytes, b),
        Unit.BYTES,
        symbol="b·k·t",
        inputs=(*_parts(model, element_bytes), arithmetic("sequences", b, Unit.COUNT, "b")),
        source=model.source,
    )


def _parts(model: Model, element_bytes: float) -> Iterator[Quantity]:
    """k of the layers that keep every token, k of those of each window, and the fixed states."""
    for window in dict.fromkeys(layer.window for layer in model.kv_layers if layer.elements_per_token):
        k = sum(layer.elements_per_token for layer in model.kv_layers if layer.window == window) * element_bytes
        which = "" if window is None else f" in layers that keep the last {window:,}"
        yield arithmetic(f"cache of one token{which}", k, Unit.BYTES, "k", source=model.source)
    state = cache_bytes(model, 0, element_bytes)
    if state:
        yield arithmetic("fixed states of one sequence", state, Unit.BYTES, source=model.source)
