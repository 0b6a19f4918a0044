"""The roofline: operations done for each byte moved, against the ratio that the box can keep up."""

from dataclasses import dataclass
from enum import StrEnum

from workbench.ceilings import memory_fit
from workbench.ceilings.decode import bytes_per_step, step_flop, weights_read
from workbench.ceilings.prefill import flop as prefill_flop
from workbench.models.model import Model
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import headed


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


def attainable(I: Quantity, C: Quantity, B: Quantity) -> Quantity:  # noqa: E741
    """min(C, B·I): the arithmetic rate that work of intensity I can reach."""
    return arithmetic(
        "attainable rate",
        min(C.value, B.value * I.value),
        Unit.FLOP_PER_SECOND,
        formula="min(C, B·I)",
        inputs=(C, B, I),
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


def tokens_per_second(P: Quantity, bytes_per_parameter: Quantity, B: Quantity) -> Quantity:
    """B / (P·bytes a parameter): the most a dense model of P parameters decodes, its cache left out."""
    return arithmetic(
        "most tokens a second, cache not counted",
        B.value / (P.value * bytes_per_parameter.value),
        Unit.TOKENS_PER_SECOND,
        formula="B / (P · bytes_per_parameter)",
        inputs=(B, P, bytes_per_parameter),
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


def point(work: str, tokens: int, I: Quantity, C: Quantity, B: Quantity) -> RooflinePoint:  # noqa: E741
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


def bytes_per_parameter(model: Model) -> Quantity:
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
class BatchCap:
    """Which stops a growing batch first: the ridge or the memory; None where there is no such end."""

    at_ridge: int | None
    in_memory: int | None

    @property
    def memory_first(self) -> bool:
        """Whether the memory is full before the arithmetic is."""
        return self.in_memory is not None and (self.at_ridge is None or self.in_memory < self.at_ridge)


LARGEST_BATCH = 1 << 20
"""Beyond it a batch that has met no ridge never will: its cache reads grow as fast as its arithmetic."""


def batch_cap(model: Model, t: int, element_bytes: float, C: Quantity, B: Quantity, M: Quantity | None) -> BatchCap:
    """The smallest batch at which a step of this model's is compute-bound, and the largest that M bytes hold.

    The intensity grows with the batch, so the ridge is found by halving; long caches can keep it from ever being met.
    """
    crossing = ridge(C, B).value
    at_ridge: int | None = None
    if decode_intensity(model, t, element_bytes, LARGEST_BATCH).value >= crossing:
        low, high = 1, LARGEST_BATCH
        while low < high:
            middle = (low + high) // 2
            if decode_intensity(model, t, element_bytes, middle).value >= crossing:
                high = middle
            else:
                low = middle + 1
        at_ridge = low
    return BatchCap(at_ridge, None if M is None else memory_fit.largest_batch(model, t, element_bytes, M.value))
