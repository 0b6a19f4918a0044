"""What the time of a pass beyond its floor is a sum of: a cost of every pass, and costs that grow with its size.

excess = c_fixed + c_context·k·t + c_sequence·b of a decode step, c_fixed + c_prompt·n + c_attention·n² of a prefill.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.quantity import Quantity, Unit, arithmetic, format_value
from workbench.runs.ladder import PREFILL
from workbench.runs.row_ladder.points import Point

FIXED = "fixed cost of every pass"
CONTEXT = "context beyond its cache's bytes"
SEQUENCES = "each sequence beyond its cache"
PROMPT = "prompt beyond its operations"
SQUARE = "attention's n² beyond its operations"


@dataclass(frozen=True)
class Term:
    """One term c·size: `size` is a point's, `sized_by` that size as a figure, in the formula's symbols.

    `words` says what c is, in seconds for each of what `size` counts; `over` what the points differ in, in the plural.
    """

    name: str
    formula: str
    size: Callable[[Point], float]
    sized_by: Callable[[Point], tuple[Quantity, ...]]
    words: Callable[[float], str]
    over: str = ""


def _prompt(point: Point) -> tuple[Quantity, ...]:
    return (arithmetic("prompt", point.tokens, Unit.TOKENS, "n"),)


_FIXED = Term(FIXED, "c", lambda _: 1.0, lambda _: (), lambda c: f"{format_value(c, Unit.SECONDS)} whatever the point")
_CONTEXT = Term(
    CONTEXT,
    "c·b·k·t",
    lambda point: point.cache_bytes,
    lambda point: (arithmetic("cache the pass reads", point.cache_bytes, Unit.BYTES, "b·k·t"),),
    lambda c: f"{format_value(c * 1e9, Unit.SECONDS)} for each GB of cache beyond what it takes at B",
    "contexts",
)
_SEQUENCES = Term(
    SEQUENCES,
    "c·b",
    lambda point: float(point.batch),
    lambda point: (arithmetic("sequences", point.batch, Unit.COUNT, "b"),),
    lambda c: f"{format_value(c, Unit.SECONDS)} for each sequence",
    "batches",
)
_PROMPT = Term(
    PROMPT,
    "c·n",
    lambda point: float(point.tokens),
    _prompt,
    lambda c: f"{format_value(c, Unit.SECONDS)} for each token beyond its operations at C",
    "prompts",
)
_SQUARE = Term(
    SQUARE,
    "c·n²",
    lambda point: float(point.tokens**2),
    _prompt,
    lambda c: f"{format_value(c * 1e6, Unit.SECONDS)} for each 1,000 × 1,000 tokens beyond attention's operations",
)


def terms_told(points: Sequence[Point], phase: str) -> tuple[Term, ...]:
    """The terms that the points can tell apart; none where they are all of one size."""
    return _of_prefills(points) if phase == PREFILL else _of_steps(points)


def _of_prefills(points: Sequence[Point]) -> tuple[Term, ...]:
    prompts = len({point.tokens for point in points})
    if prompts < 2:
        return ()
    return (_FIXED, _PROMPT, _SQUARE) if prompts > 2 else (_FIXED, _PROMPT)


def _of_steps(points: Sequence[Point]) -> tuple[Term, ...]:
    sizes = {(point.cache_bytes, point.batch) for point in points}
    contexts = len({cache_bytes / b for cache_bytes, b in sizes})
    batches = len({b for _, b in sizes})
    grow = (*((_CONTEXT,) if contexts > 1 else ()), *((_SEQUENCES,) if batches > 1 else ()))
    return (_FIXED, *grow) if grow and len(sizes) > len(grow) else ()
