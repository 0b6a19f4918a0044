"""What a ladder says in one sentence: the largest cause, its share, and whether it is physics or a symptom."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.experiments.gap.ladder import FRAMEWORK
from workbench.experiments.gap.parts import Part
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, OTHER_LOAD, REMAINDER, SPLIT_MEMORY, Ladder, Rung
from workbench.runs.row_ladder.terms import CONTEXT, FIXED, PROMPT, SEQUENCES, SQUARE

PHYSICS_UP_TO, ORDINARY_UP_TO = 1.25, 2.0
"""Times the ceiling: what is left to gain below the first is little, from the second on something is wrong."""


class Kind(StrEnum):
    """How far a pass is from its ceiling."""

    PHYSICS = "physics, little is left to gain"
    ORDINARY = "an ordinary gap"
    SYMPTOM = "a symptom"

    @property
    def word(self) -> str:
        """It without what follows from it."""
        return self.partition(",")[0]


@dataclass(frozen=True)
class Suspect:
    """What may be behind a rung, and what to look at to know."""

    what: str
    check: str


SUSPECTS: Mapping[str, tuple[Suspect, ...]] = {
    Part.WEIGHTS: (
        Suspect("products of few rows run on one core", "time the pass with half the threads: it takes as long"),
        Suspect("the dtype has no fast kernel here", "probe: compare the matrix-vector rates of the dtypes"),
        Suspect("weights are unpacked or laid out anew in every pass", "compare a dtype the engine needs no copy of"),
    ),
    Part.HEAD: (
        Suspect("the head runs for more positions than it must", "compare a prefill with one position's head"),
        Suspect("a large vocabulary in a slow dtype", "compare the head's rate with the other matrices'"),
    ),
    Part.ATTENTION: (
        Suspect("the attention kernel is slow in this dtype", "try float32, or another attention implementation"),
        Suspect("keys and values are repeated for every query head", "compare bytes per token with the cache's own"),
    ),
    Part.CACHE: (
        Suspect("appending copies the whole cache in every step", "try a preallocated cache: the rung should vanish"),
        Suspect("freed memory is given back and faulted in again", "compare page faults of a step"),
    ),
    Part.ELEMENTWISE: (
        Suspect("many small operations, each over all rows", "try torch.compile, which fuses them"),
        Suspect("routing loops over experts in Python", "count the experts touched"),
    ),
    FRAMEWORK: (
        Suspect("Python and dispatch between the kernels", "try torch.compile; a larger batch shares it"),
        Suspect("a hook, a wrapper or a delay in the loop", "time the model's forward without the caller's code"),
    ),
    Part.SAMPLING: (
        Suspect("the token goes back and forth to the host", "keep it on the device for several steps"),
        Suspect("sampling sorts the whole vocabulary", "compare greedy choice"),
    ),
    OTHER_LOAD: (
        Suspect("another process uses the cores", "see the strip's other load; run again when it is gone"),
        Suspect("the machine is shared", "see how much the hypervisor takes, and measure at another hour"),
    ),
    BELOW_QUIET: (
        Suspect("another process, or another machine on the host, reads the same memory", "run again when it is gone"),
        Suspect("the clock is lowered, or the machine shared", "probe again, and compare B with an hour ago"),
    ),
    BELOW_VENDOR: (
        Suspect("memory channels left empty, or a lower clock", "compare the modules and their speed with the manual"),
        Suspect("fewer threads than it takes to fill the memory", "probe: B by threads"),
    ),
    SPLIT_MEMORY: (
        Suspect("more bytes than the fast memory holds", "workbench fit: what a smaller type or context leaves free"),
        Suspect("the wrong part lies on the slower memory", "put experts there, of which a step reads few"),
    ),
    FIXED: (
        Suspect("kernels that don't reach B, or unpack quantised weights", "the same rows in another dtype or format"),
        Suspect("the framework between the kernels", "a model half as deep: the fixed cost halves as well"),
    ),
    CONTEXT: (
        Suspect("the engine copies or expands the cache in every step", "the same rows with a preallocated cache"),
        Suspect("the attention kernel is slow in this dtype", "the same rows with another attention or cache type"),
    ),
    SEQUENCES: (
        Suspect("products of few rows get little of C", "probe: the product rates of few rows"),
        Suspect("each sequence is handled by itself", "the step's growth with short contexts alone"),
    ),
    PROMPT: (
        Suspect("products run below C in this dtype", "probe: the product rates of the dtypes"),
        Suspect("the prompt is taken in small pieces", "a larger batch of prompt tokens, where the engine has that"),
    ),
    SQUARE: (Suspect("attention holds all n × n scores", "an attention kernel that works in tiles"),),
    REMAINDER: (Suspect("work that no experiment here isolates", "a profiler's shares, which slow what they time"),),
}
"""By rung, the likeliest first."""


def kinds(ladder: Ladder) -> tuple[Kind, ...]:
    """How far the measured time is from the ceiling: every kind that its interval allows, the nearest first."""
    nearest, farthest = map(_kind, ladder.times_from_to)
    every = tuple(Kind)
    return every[every.index(nearest) : every.index(farthest) + 1]


def _kind(times: float) -> Kind:
    if times <= PHYSICS_UP_TO:
        return Kind.PHYSICS
    return Kind.ORDINARY if times <= ORDINARY_UP_TO else Kind.SYMPTOM


def largest(ladder: Ladder) -> Rung | None:
    """The rung that adds most and is resolved; the remainder counts as well, None where nothing is resolved."""
    return max(
        (rung for rung in ladder.terms if rung.resolved and rung.time.value > 0),
        key=lambda rung: rung.time.value,
        default=None,
    )


def rivals(ladder: Ladder) -> tuple[Rung, ...]:
    """The resolved rungs that may cost more than the largest: their intervals reach past the low end of its own."""
    most = largest(ladder)
    if most is None:
        return ()
    others = (rung for rung in ladder.terms if rung is not most and rung.resolved and rung.high_s > most.low_s)
    return tuple(sorted(others, key=lambda rung: -rung.time.value))


@dataclass(frozen=True)
class Telling:
    """A change to the pass that moves these rungs and no other, so that it tells one of them from another."""

    moves: frozenset[str]
    words: str


TELLING: tuple[Telling, ...] = (
    Telling(
        frozenset({OTHER_LOAD, BELOW_QUIET}), "the same pass when nothing else runs, where what is of the minute goes"
    ),
    Telling(frozenset({Part.CACHE}), "the lever preallocated-cache, which acts on cache handling alone"),
    Telling(frozenset({Part.ATTENTION, Part.CACHE}), "the same pass with half the context, which halves these alone"),
    Telling(frozenset({Part.WEIGHTS, Part.HEAD}), "the lever of a smaller dtype, which acts on weights and head first"),
    Telling(
        frozenset({Part.ELEMENTWISE, Part.SAMPLING}),
        "the same pass with eight times the batch: what works on the tokens grows with it, dispatch and Python do not",
    ),
)
"""The cheapest first."""
MORE_ROUNDS = "more rounds on a quiet box (workbench gap --seconds 60)"
MORE_POINTS = "more points, further apart in context and batch"


def would_tell(ladder: Ladder) -> str:
    """The cheapest experiment that tells the largest rung from its first rival; empty where nothing needs telling.

    Where the ways of measuring agree, noise is what keeps them apart, and more rounds lessen it.
    """
    most, others = largest(ladder), rivals(ladder)
    if most is None or not others:
        return ""
    if not ladder.rounds:
        return MORE_POINTS
    both = (most, others[0])
    if not any(_ways_disagree(rung) or rung.name in (OTHER_LOAD, BELOW_QUIET) for rung in both):
        return MORE_ROUNDS
    found = (each.words for each in TELLING if sum(rung.name in each.moves for rung in both) == 1)
    return next(found, MORE_ROUNDS)


def _ways_disagree(rung: Rung) -> bool:
    """Whether more of the interval comes from the ways of measuring than from the spread of each."""
    ways = [way.value for way in rung.time.inputs if not way.symbol]
    return len(ways) > 1 and max(ways) - min(ways) > (rung.high_s - rung.low_s) / 2


def _time_words(rung: Rung) -> str:
    """A rung's milliseconds, and where they lie."""
    low, high = (f"{seconds * 1e3:,.1f}" for seconds in (rung.low_s, rung.high_s))
    between = "" if low == high else f" ({low} to {high})"
    return f"{rung.time.value * 1e3:,.1f} ms{between}"


def _names(others: tuple[Rung, ...]) -> str:
    return " or ".join(f"{rung.name}, {_time_words(rung)}" for rung in others)


def suspects(ladder: Ladder) -> tuple[Suspect, ...]:
    """What may be behind the largest rung."""
    rung = largest(ladder)
    return () if rung is None else SUSPECTS.get(rung.name, ())


def with_verdict(ladder: Ladder) -> Ladder:
    """The ladder with its sentence."""
    return replace(ladder, verdict=verdict(ladder))


def verdict(ladder: Ladder) -> str:
    """One sentence: the largest cause with its share of the gap, or what may be it, and what kind of gap it is."""
    what = "step" if ladder.phase == "decode" else "prefill"
    head = f"The {what} takes {ladder.measured.value * 1e3:,.1f} ms, {ladder.times:.2f} times its ceiling"
    rung = largest(ladder)
    if rung is None or ladder.gap_s <= 0:
        return f"{head}: nothing above the ceiling is resolved."
    share = rung.time.value / ladder.gap_s
    cause = f"{rung.name} cost most, {_time_words(rung)} or {share * 100:.0f} % of the gap"
    if others := rivals(ladder):
        cause = (
            f"can't tell what cost most: {rung.name}, {_time_words(rung)}, or {_names(others)}; "
            f"the cheapest that would tell: {would_tell(ladder)}"
        )
    found = kinds(ladder)
    first = suspects(ladder) if Kind.SYMPTOM in found else ()
    most = f" First suspect: {first[0].what} ({first[0].check})." if first else ""
    return f"{head}: {_kinds_words(ladder, found)}; {cause}.{most}"


def _kinds_words(ladder: Ladder, found: tuple[Kind, ...]) -> str:
    if len(found) == 1:
        return found[0]
    low, high = ladder.times_from_to
    return f"can't tell {found[0].word} from {found[-1].word}, the interval is {low:.2f} to {high:.2f} times"
