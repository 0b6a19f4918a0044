"""The roofline: operations done for each byte moved, against the ratio that the box can keep up."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from workbench.ceilings.decode import bytes_per_step, step_flop, weights_read
from workbench.ceilings.memory_fit import largest_batch
from workbench.ceilings.prefill import flop as prefill_flop
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import headed

LARGEST_BATCH = 1 << 20
"""Where a search for the batch at the ridge ends."""


class Side(StrEnum):
    """On which side of the ridge work lies."""

    MEMORY = "memory"
    COMPUTE = "compute"


def ridge(C: Quantity, B: Quantity) -> Quantity:
    """C / B: the operations a byte at which arithmetic and memory keep pace."""
    return arithmetic("ridge point", C.value / B.value, Unit.FLOP_PER_BYTE, "ridge", "C / B", (C, B))


def intensity(tokens: int, bytes_per_parameter: Quantity) -> Quantity:
    """2·tokens / bytes a parameter: a weight loaded once serves every token of the pass.

    The tokens are sequences in a decode step, or the prompt of a prefill.
    """
    count = arithmetic("tokens of the pass", tokens, Unit.TOKENS, "tokens")
    return arithmetic(
        "arithmetic intensity",
        2 * tokens / bytes_per_parameter.value,
        Unit.FLOP_PER_BYTE,
        "I",
        "2·tokens / bytes_per_parameter",
        (count, bytes_per_parameter),
    )


def attainable(I: Quantity, C: Quantity, B: Quantity) -> Quantity:
    """min(C, B·I): the arithmetic rate that work of intensity I can reach."""
    return arithmetic(
        "attainable rate",
        min(C.value, B.value * I.value),
        Unit.FLOP_PER_SECOND,
        "attainable",
        "min(C, B·I)",
        (C, B, I),
    )


def tokens_at_ridge(bytes_per_parameter: Quantity, C: Quantity, B: Quantity) -> Quantity:
    """ridge·bytes a parameter / 2: the batch, or the prompt, at which the weights' intensity meets the ridge."""
    crossing = ridge(C, B)
    return arithmetic(
        "tokens of a pass at the ridge",
        crossing.value * bytes_per_parameter.value / 2,
        Unit.TOKENS,
        formula="ridge · bytes_per_parameter / 2",
        inputs=(crossing, bytes_per_parameter),
    )


def model_tokens_at_ridge(model: Model, C: Quantity, B: Quantity) -> Quantity | None:
    """The tokens of a pass at which the weights' intensity meets the ridge, experts touched counted; caches are not.

    More tokens touch more experts, so a mixture meets it far later than its bytes a parameter suggest. None where it
    never does.
    """
    crossing = ridge(C, B)

    def past_ridge(n: int) -> bool:
        return 2 * model.read_parameters * n / weights_read(model, n).value >= crossing.value

    if not past_ridge(LARGEST_BATCH):
        return None
    W = weights_read(model, 1 + bisect_left(range(1, LARGEST_BATCH), True, key=past_ridge))
    N = arithmetic(
        "parameters a token is multiplied by", model.read_parameters, Unit.PARAMETERS, "N", source=model.source
    )
    return arithmetic(
        "tokens of a pass at the ridge",
        crossing.value * W.value / (2 * N.value),
        Unit.TOKENS,
        formula="ridge · W / (2·N)",
        inputs=(crossing, W, N),
    )


@dataclass(frozen=True)
class RooflinePoint:
    """Work of one kind on the roofline: a decode step of b sequences, or a prefill of n tokens."""

    work: str = headed("work")
    tokens: int = headed("tokens")
    intensity: Quantity = headed("FLOP/byte")
    attainable_flop_per_second: Quantity = headed("attainable")
    share_of_peak: Quantity = headed("of peak")
    bound: Side = headed("bound by")


def point(work: str, tokens: int, I: Quantity, C: Quantity, B: Quantity) -> RooflinePoint:
    """Where work of intensity I stands under the roof of C and B."""
    reach = attainable(I, C, B)
    return RooflinePoint(
        work=work,
        tokens=tokens,
        intensity=I,
        attainable_flop_per_second=reach,
        share_of_peak=arithmetic(
            "share of the peak arithmetic rate",
            reach.value / C.value,
            Unit.SHARE,
            formula="attainable / C",
            inputs=(reach, C),
        ),
        bound=Side.COMPUTE if I.value >= ridge(C, B).value else Side.MEMORY,
    )


def average_bytes_per_parameter(model: Model) -> Quantity:
    """W / N: bytes a parameter that a token is multiplied by takes, on average."""
    W = weights_read(model)
    N = arithmetic(
        "parameters a token is multiplied by", model.read_parameters, Unit.PARAMETERS, "N", source=model.source
    )
    return arithmetic("bytes a parameter", W.value / N.value, Unit.BYTES, "bytes_per_parameter", "W / N", (W, N))


def decode_intensity(model: Model, t: int, element_bytes: float, b: int) -> Quantity:
    """F / (W + b·k·t): operations a byte of a whole decode step, cache and experts touched counted."""
    F, moved = step_flop(model, t, b), bytes_per_step(model, t, element_bytes, b)
    return arithmetic(
        "arithmetic intensity of the step",
        F.value / moved.value,
        Unit.FLOP_PER_BYTE,
        "I",
        "F / (W + b·k·t)",
        (F, moved),
    )


def prefill_intensity(model: Model, n: int) -> Quantity:
    """F / W: operations a byte of a prefill of n tokens, activations not counted."""
    F, W = prefill_flop(model, n), weights_read(model, n)
    return arithmetic(
        "arithmetic intensity of the prefill", F.value / W.value, Unit.FLOP_PER_BYTE, "I", "F / W", (F, W)
    )


@dataclass(frozen=True)
class Roofline:
    """The roof of a box and the points under it.

    With a model, `batch_at_ridge` is the smallest batch whose whole step is compute-bound (None where its cache reads
    keep it from ever being), and `batch_in_memory` the largest whose caches M bytes hold.
    """

    peak_flop_per_second: Quantity
    bandwidth_bytes_per_second: Quantity
    ridge_flop_per_byte: Quantity
    bytes_per_parameter: Quantity
    tokens_at_ridge: Quantity | None
    points: tuple[RooflinePoint, ...]
    model: str | None = None
    context: int | None = None
    batch_at_ridge: int | None = None
    batch_in_memory: int | None = None

    @property
    def memory_first(self) -> bool:
        """Whether a growing batch fills the memory before it reaches the ridge."""
        return self.batch_in_memory is not None and (
            self.batch_at_ridge is None or self.batch_in_memory < self.batch_at_ridge
        )


def roofline(
    model: Model | None,
    C: Quantity,
    B: Quantity,
    *,
    batches: Sequence[int],
    prompts: Sequence[int],
    t: int = 0,
    element_bytes: float = 2.0,
    bytes_per_parameter: Quantity | None = None,
    M: Quantity | None = None,
) -> Roofline:
    """The roof, and decode steps and prefills under it: a model's own, or those of any weights of that width.

    Raises ValueError unless exactly one of the two is given: a model has bytes of its own.
    """
    if (model is None) == (bytes_per_parameter is None):
        raise ValueError("a roofline is that of a model, or of weights of some bytes a parameter")
    width = bytes_per_parameter
    if width is None:
        assert model is not None
        width = average_bytes_per_parameter(model)
        steps = [("decode", b, decode_intensity(model, t, element_bytes, b)) for b in batches]
        passes = [("prefill", n, prefill_intensity(model, n)) for n in prompts]
    else:
        steps = [("decode", b, intensity(b, width)) for b in batches]
        passes = [("prefill", n, intensity(n, width)) for n in prompts]
    return Roofline(
        peak_flop_per_second=C,
        bandwidth_bytes_per_second=B,
        ridge_flop_per_byte=ridge(C, B),
        bytes_per_parameter=width,
        tokens_at_ridge=tokens_at_ridge(width, C, B) if model is None else model_tokens_at_ridge(model, C, B),
        points=tuple(point(work, count, I, C, B) for work, count, I in [*steps, *passes]),
        model=None if model is None else model.name,
        context=None if model is None else t,
        batch_at_ridge=None if model is None else batch_at_ridge(model, t, element_bytes, C, B),
        batch_in_memory=None if model is None or M is None else largest_batch(model, t, element_bytes, M.value),
    )


def batch_at_ridge(model: Model, t: int, element_bytes: float, C: Quantity, B: Quantity) -> int | None:
    """The smallest batch at which a whole step is compute-bound; None where its cache reads never let it be.

    The intensity grows with the batch towards arithmetic over cache reads, so the batch is found by halving.
    """
    crossing = ridge(C, B).value

    def past_ridge(b: int) -> bool:
        return decode_intensity(model, t, element_bytes, b).value >= crossing

    if not past_ridge(LARGEST_BATCH):
        return None
    return 1 + bisect_left(range(1, LARGEST_BATCH), True, key=past_ridge)


def sentences(found: Roofline) -> Iterator[str]:
    """What the roof says in words: the ridge, and what stops a growing batch."""
    width = f"weights of {found.bytes_per_parameter.value:.3g} bytes a parameter"
    met = f"meet it at {found.tokens_at_ridge} in one pass" if found.tokens_at_ridge else "never meet it"
    yield (
        f"The ridge is at {found.ridge_flop_per_byte}: {width} {met}, caches not counted. A multiply-add counts as two "
        "operations; intensities that count it as one are half of these."
    )
    if found.model is None:
        return
    if found.batch_at_ridge is None and not found.context:
        yield f"No batch up to {LARGEST_BATCH:,} is compute-bound here: the ridge lies beyond."
    elif found.batch_at_ridge is None:
        yield (
            f"No batch of {found.context:,}-token sequences is ever compute-bound: each brings cache reads that grow "
            "as fast as its arithmetic."
        )
    else:
        yield (
            f"A whole step with {found.context:,} tokens in each sequence is compute-bound from batch "
            f"{found.batch_at_ridge:,} on."
        )
    if found.batch_in_memory is not None:
        first = ", so memory caps the batch first" if found.memory_first else ""
        yield f"Memory holds {found.batch_in_memory:,} such sequences{first}."
