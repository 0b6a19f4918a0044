"""Memory as bars: weights, caches and what is left, one line a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ceilings.memory_fit import Fit
from workbench.record import written

NAME_WIDTH, LEAST_BAR, WORDS_WIDTH = 22, 10, 30


@dataclass(frozen=True)
class Blocks:
    """The characters of a bar."""

    weights: str
    cache: str
    free: str
    over: str


BLOCKS = Blocks("█", "▒", "·", "!")
PLAIN = Blocks("#", "=", ".", "!")


def bar_lines(fits: Sequence[Fit], width: int, blocks: Blocks) -> list[str]:
    """A bar for each model, all of one memory, in `width` columns."""
    room = max(LEAST_BAR, width - NAME_WIDTH - WORDS_WIDTH)
    return [f"{_shortened(fit.model):<{NAME_WIDTH}}{bar(fit, room, blocks)} {_words(fit)}" for fit in fits]


def bar(fit: Fit, width: int, blocks: Blocks) -> str:
    """Weights, cache and free memory in proportion; ends in a mark where they don't fit."""
    M = fit.memory_bytes.value
    weights = min(width, round(width * fit.weight_bytes.value / M))
    both = min(width, round(width * fit.memory_needed_bytes.value / M))
    drawn = blocks.weights * weights + blocks.cache * (both - weights) + blocks.free * (width - both)
    return drawn if fit.fits else drawn[: width - 1] + blocks.over


def _words(fit: Fit) -> str:
    if fit.fits:
        return f"{written(fit.free_bytes)} free of {written(fit.memory_bytes)}"
    short = fit.memory_needed_bytes.value - fit.memory_bytes.value
    return f"{short / 1e9:,.1f} GB more than {written(fit.memory_bytes)}"


def _shortened(name: str) -> str:
    return name if len(name) < NAME_WIDTH else f"…{name[-(NAME_WIDTH - 2) :]}"
