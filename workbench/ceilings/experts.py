"""Mixture of experts: how many a step touches, what it reads of them, and how far the file-size shortcut is off."""

from dataclasses import dataclass

from workbench.errors import ModelError
from workbench.models.model import Model, Read, TensorGroup
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed


def share_touched(model: Model, b: int) -> float:
    """1 − (1 − e/E)^b: the share of routed experts that b tokens touch, choosing e of E uniformly and independently.

    The pessimistic end: skewed routing touches fewer. 0 for a model without routed experts.
    """
    e, E = model.experts_used, model.experts
    if not E:
        return 0.0
    return e / E if b == 1 else 1 - (1 - e / E) ** b


def touched(model: Model, b: int) -> Quantity | None:
    """E·(1 − (1 − e/E)^b): experts a layer reads in a step of b tokens; None for a model without routed experts."""
    if not model.routed_expert_bytes:
        return None
    return arithmetic(
        "experts of a layer that a step reads",
        model.experts * share_touched(model, b),
        Unit.COUNT,
        "touched",
        "E·(1 − (1 − e/E)^b)",
        (
            arithmetic("routed experts of a layer", model.experts, Unit.COUNT, "E", source=model.source),
            arithmetic("experts a token uses", model.experts_used, Unit.COUNT, "e", source=model.source),
            arithmetic("tokens in the step", b, Unit.TOKENS, "b"),
        ),
    )


def bytes_touched(model: Model, b: int) -> Quantity | None:
    """Bytes of routed experts a step of b tokens reads; None for a model without routed experts."""
    experts = touched(model, b)
    if experts is None:
        return None
    return arithmetic(
        "routed experts one step reads",
        round(model.routed_expert_bytes * share_touched(model, b)),
        Unit.BYTES,
        "experts",
        "routed · touched / E",
        (
            arithmetic("all routed experts", model.routed_expert_bytes, Unit.BYTES, "routed", source=model.source),
            experts,
        ),
    )


@dataclass(frozen=True)
class ExpertReads:
    """What a step of one batch reads of a model's routed experts."""

    model: str = headed("model")
    batch: int = headed("batch")
    touched: Quantity = headed("a layer")
    of: int = headed("of")
    bytes: Quantity = headed("read")
    share: Quantity = headed("of all")


def expert_reads(model: Model, b: int) -> ExpertReads | None:
    """The experts a step of b sequences touches and reads; None for a model without routed experts."""
    experts, read = touched(model, b), bytes_touched(model, b)
    if experts is None or read is None:
        return None
    return ExpertReads(
        model=model.name,
        batch=b,
        touched=experts,
        of=model.experts,
        bytes=read,
        share=arithmetic(
            "share of the routed experts that is read",
            read.value / model.routed_expert_bytes,
            Unit.SHARE,
            formula="read / routed",
            inputs=(read,),
        ),
    )


@dataclass(frozen=True)
class Deviation:
    """What one group of tensors adds to the counted reads less the shortcut, in bytes, and why."""

    group: str
    bytes: float
    why: str


@dataclass(frozen=True)
class Shortcut:
    """The file-size shortcut beside the reads counted tensor by tensor; `deviations` sum to their difference."""

    shortcut: Quantity
    counted: Quantity
    deviations: tuple[Deviation, ...]


def shortcut_bytes(file: Quantity, active: Quantity, total: Quantity) -> Quantity:
    """file · active / total: bytes a token reads, as the file's size and two parameter counts suggest."""
    return arithmetic(
        "bytes a token reads by the file-size shortcut",
        file.value * active.value / total.value,
        Unit.BYTES,
        formula="file · active / total",
        inputs=(file, active, total),
    )


def shortcut(model: Model) -> Shortcut:
    """The shortcut for this model and where it departs, group by group, the largest first.

    The two counts are the model card's where the preset states them, else the model's own; of a dense model every
    parameter counts as active. A group departs by what is read of it less its parameters counted as active, at the
    file's average bytes a parameter. Raises ModelError for a model without parameters.
    """
    if not model.parameters:
        raise ModelError(f"{model.name} holds no parameters to set the file's size against. Check {model.source}.")
    file = arithmetic("file", model.held_bytes, Unit.BYTES, "file", source=model.source)
    active, total = _counts(model)
    average = file.value / total.value
    counted = _counted_unread(model, active.value)
    deviations = [_deviation(model, group, average, counted) for group in model.groups]
    rounding = active.value - model.read_parameters - sum(group.parameters for group in counted)
    deviations.append(Deviation("rounding", -average * rounding, "the counts are rounded, or count other parts"))
    return Shortcut(
        shortcut=shortcut_bytes(file, active, total),
        counted=arithmetic(
            "bytes a token reads, tensor by tensor",
            model.read_bytes_per_token,
            Unit.BYTES,
            "W",
            source=model.source,
        ),
        deviations=tuple(sorted((d for d in deviations if round(d.bytes)), key=lambda d: -abs(d.bytes))),
    )


def _counted_unread(model: Model, active: float) -> tuple[TensorGroup, ...]:
    """Groups a token is not multiplied by that a count of active parameters takes in: those that bring it nearest."""
    unread = model.read_parameters
    counted: tuple[TensorGroup, ...] = ()
    for read in (Read.ONE_ROW, Read.NONE):
        groups = tuple(group for group in model.groups if group.read is read)
        more = unread + sum(group.parameters for group in groups)
        if abs(active - more) < abs(active - unread):
            unread, counted = more, (*counted, *groups)
    return counted


def _deviation(model: Model, group: TensorGroup, average: float, counted: tuple[TensorGroup, ...]) -> Deviation:
    if group.read in (Read.ONE_ROW, Read.NONE):
        parameters = group.parameters if group in counted else 0
        what = "one row of it is read" if group.read is Read.ONE_ROW else "decoding never reads it"
        why = f"all of it counts as active, {what}" if parameters else what
    else:
        parameters = model.read_of(group, group.parameters)
        each = group.bytes / group.parameters if group.parameters else 0.0
        why = f"{'/'.join(group.types)} takes {each:.2f} bytes a parameter, the file {average:.2f} on average"
    return Deviation(group.name, model.read_of(group, group.bytes) - average * parameters, why)


def _counts(model: Model) -> tuple[Quantity, Quantity]:
    """Active and total parameters."""
    card = model.published
    if card is None:
        active = model.read_parameters if model.routed_expert_bytes else model.parameters
        return (
            arithmetic("active parameters", active, Unit.PARAMETERS, "active", source=model.source),
            arithmetic("total parameters", model.parameters, Unit.PARAMETERS, "total", source=model.source),
        )
    unit, vendor = Unit.PARAMETERS, Origin.VENDOR
    return (
        Quantity("active parameters", card.active, unit, vendor, "active", source=card.source),
        Quantity("total parameters", card.parameters, unit, vendor, "total", source=card.source),
    )
