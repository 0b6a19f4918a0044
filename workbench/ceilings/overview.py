"""Everything arithmetic says of some models on one device, as the Ceiling pane shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ceilings.batch import Ceiling, ceiling
from workbench.ceilings.box import Box, box_of
from workbench.ceilings.experts import ExpertReads, Shortcut, expert_reads, shortcut
from workbench.ceilings.kv_cache import cache_bytes
from workbench.ceilings.levers import Lever, levers
from workbench.ceilings.memory_fit import Fit, fit, weights_resident
from workbench.ceilings.roofline import Roofline, roofline
from workbench.hardware.device import Device
from workbench.models.model import Model

SHORTEST_GROWTH = 1024
LONGEST_GROWTH = 131_072
"""Where the growth of a cache is drawn to for a model that states no context of its own."""
ROOFLINE_PROMPTS = (16, 2048)


@dataclass(frozen=True)
class Growth:
    """Bytes of weights and of cache at each context, which double from one to the next."""

    contexts: tuple[int, ...]
    cache_bytes: tuple[int, ...]
    weight_bytes: int


@dataclass(frozen=True)
class Overview:
    """Ceilings over context and over batch of every model; the rest of the first one, `chosen`, alone.

    `batch_context` is the context of the batch table, the levers and the roofline; `first_batch` the batch of the
    context table and the levers. `fits` is empty where M isn't known, `roof` None where C isn't.
    """

    chosen: Model
    box: Box
    batch_context: int
    first_batch: int
    over_context: tuple[Ceiling, ...]
    over_batch: tuple[Ceiling, ...]
    fits: tuple[Fit, ...]
    experts: tuple[ExpertReads, ...]
    shortcut: Shortcut
    growth: Growth
    roof: Roofline | None
    levers: tuple[Lever, ...]


def overview(
    models: Sequence[Model], device: Device, contexts: Sequence[int], batches: Sequence[int], element_bytes: float
) -> Overview:
    """All of it, for at least one model, context and batch."""
    chosen, box = models[0], box_of(device, models[0])
    t = next((context for context in contexts if context), contexts[0])
    b = batches[0]
    return Overview(
        chosen=chosen,
        box=box,
        batch_context=t,
        first_batch=b,
        over_context=tuple(
            ceiling(model, context, b, element_bytes, box_of(device, model)) for model in models for context in contexts
        ),
        over_batch=tuple(
            ceiling(model, t, batch, element_bytes, box_of(device, model)) for model in models for batch in batches
        ),
        fits=()
        if device.memory is None
        else tuple(fit(model, max(contexts), b, element_bytes, device.memory) for model in models),
        experts=tuple(
            reads for model in models for batch in batches if (reads := expert_reads(model, batch)) is not None
        ),
        shortcut=shortcut(chosen),
        growth=growth(chosen, element_bytes, max(contexts)),
        roof=None
        if box.C is None
        else roofline(
            chosen,
            box.C,
            box.B,
            batches=batches,
            prompts=ROOFLINE_PROMPTS,
            t=t,
            element_bytes=element_bytes,
            M=box.M,
        ),
        levers=levers(chosen, t, b, element_bytes, box),
    )


def growth(model: Model, element_bytes: float, longest: int) -> Growth:
    """The cache of one sequence as it grows to the model's context, or to `longest` where that is more."""
    most = max(model.context_limit or LONGEST_GROWTH, longest)
    contexts = []
    t = SHORTEST_GROWTH
    while t < most:
        contexts.append(t)
        t *= 2
    contexts.append(most)
    return Growth(
        contexts=tuple(contexts),
        cache_bytes=tuple(cache_bytes(model, context, element_bytes) for context in contexts),
        weight_bytes=int(weights_resident(model).value),
    )
