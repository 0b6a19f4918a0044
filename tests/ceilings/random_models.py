"""Models and boxes drawn at random, for what must hold of every one of them."""

from hypothesis import strategies as st

from workbench.ceilings.box import Box
from workbench.models.model import AttentionLayer, KvKind, KvLayer, Model, ModelKind, Read, TensorGroup
from workbench.quantity import Origin, Quantity, Unit

BLOCK = 32
"""Elements of a quantised block: caches hold whole ones."""

contexts = st.integers(0, 200_000)
batches = st.integers(1, 5_000)
element_bytes = st.sampled_from((4.0, 2.0, 1.0625, 0.5625))
shares = st.floats(0, 1)


@st.composite
def groups(draw: st.DrawFn, read: Read) -> TensorGroup:
    parameters = draw(st.integers(10**6, 10**11))
    bits = draw(st.sampled_from((4, 5, 6, 8, 16, 32)))
    rows = draw(st.integers(1, 200_000)) if read is Read.ONE_ROW else 1
    return TensorGroup(f"{read} in {bits} bits", (f"{bits} bits",), parameters, parameters * bits // 8, read, rows)


@st.composite
def kv_layers(draw: st.DrawFn) -> KvLayer:
    kind = draw(st.sampled_from(KvKind))
    elements = BLOCK * draw(st.integers(1, 128))
    match kind:
        case KvKind.SLIDING:
            return KvLayer(kind, elements, window=draw(st.integers(1, 8_192)))
        case KvKind.RECURRENT:
            return KvLayer(kind, 0, constant_elements=elements)
        case _:
            return KvLayer(kind, elements)


attention_layers = st.builds(
    AttentionLayer, st.integers(1, 128), st.sampled_from((64, 128, 256)), st.none() | st.integers(1, 8_192)
)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A model with weights that every token reads, and of the other kinds of group, cache and layer any."""
    kinds = [Read.ALL, *draw(st.lists(st.sampled_from(Read), max_size=4))]
    routed = Read.ROUTED in kinds
    experts = draw(st.integers(1, 256)) if routed else 0
    return Model(
        name="random",
        source="drawn at random",
        kind=ModelKind.PRESET,
        architecture="random",
        quantisation="mixed",
        groups=tuple(draw(groups(read)) for read in kinds),
        kv_layers=tuple(draw(st.lists(kv_layers(), max_size=6))),
        attention_layers=tuple(draw(st.lists(attention_layers, max_size=4))),
        vocabulary=draw(st.integers(1, 1_000)),
        hidden=draw(st.integers(1, 1_000)),
        context_limit=draw(st.none() | st.integers(1, 200_000)),
        tied_embeddings=False,
        file_bytes=None,
        experts=experts,
        experts_used=draw(st.integers(1, experts)) if routed else 0,
    )


def _figures(name: str, unit: Unit, symbol: str, least: float, most: float) -> st.SearchStrategy[Quantity]:
    return st.floats(least, most).map(lambda value: Quantity(name, value, unit, Origin.ASSUMED, symbol, source="drawn"))


bandwidths = _figures("bandwidth", Unit.BYTES_PER_SECOND, "B", 1e6, 1e13)
arithmetic_rates = _figures("peak", Unit.FLOP_PER_SECOND, "C", 1e8, 1e16)
memories = _figures("memory", Unit.BYTES, "M", 1e6, 1e13)
boxes = st.builds(Box, bandwidths, st.none() | arithmetic_rates, st.none() | memories)
