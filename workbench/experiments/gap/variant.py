"""A way of running a model other than it was loaded: what can be changed, and what an engine must offer to time it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

RMS_BOUND = 0.10
CHOICE_BOUND = 0.25
"""In standard deviations of the logits. Of nearly equal tokens another may win without the outputs having changed."""


class Cache(StrEnum):
    """Where keys and values of past tokens go."""

    GROWING = "growing"
    PREALLOCATED = "preallocated"


class Stored(StrEnum):
    """How the weights of linear layers are held."""

    AS_LOADED = "as loaded"
    INT8 = "int8"


@dataclass(frozen=True)
class Variant:
    """What differs from the model as it was loaded; None, and the first of each choice, leave it as it is.

    `compiled` asks for a preallocated cache: a graph is compiled for one shape.
    """

    threads: int | None = None
    dtype: str | None = None
    cache: Cache = Cache.GROWING
    attention: str | None = None
    compiled: bool = False
    stored: Stored = Stored.AS_LOADED

    def __str__(self) -> str:
        words = [
            self.dtype or "",
            "int8 weights" if self.stored is Stored.INT8 else "",
            "preallocated cache" if self.cache is Cache.PREALLOCATED else "",
            f"{self.attention} attention" if self.attention else "",
            "compiled" if self.compiled else "",
            "" if self.threads is None else f"{self.threads} thread{'' if self.threads == 1 else 's'}",
        ]
        return ", ".join(filter(None, words)) or "as loaded"

    @property
    def stored_words(self) -> str:
        """How its weights are held; empty as loaded."""
        return "" if self.stored is Stored.AS_LOADED else str(Variant(stored=self.stored))

    @property
    def run_words(self) -> str:
        """How it is run, whatever its weights are held in; empty as loaded."""
        run = replace(self, dtype=None, threads=None, stored=Stored.AS_LOADED)
        return "" if run == AS_LOADED else str(run)

    def with_change(self, other: "Variant") -> "Variant":
        """This one with everything that `other` changes."""
        return replace(self, **other.changes)

    @property
    def changes(self) -> dict[str, Any]:
        """What it sets other than as loaded."""
        return {name: value for name, value in vars(self).items() if value != getattr(AS_LOADED, name)}

    def goes_with(self, other: "Variant") -> bool:
        """Whether both can be had at once: whether neither sets what the other sets otherwise."""
        ours, theirs = self.changes, other.changes
        return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


AS_LOADED = Variant()


@dataclass(frozen=True)
class Agreement:
    """How far a variant's logits are from the plain model's, over the same tokens after the same prompts.

    Both distances are in standard deviations of the plain logits of a position, over the vocabulary: `rms` that of all
    logits at the position that is farthest off, and `choice` how far the token that the variant chooses lies below the
    plain model's choice by the plain model's own logits, where that is most. `same` is the share of positions with the
    same choice.
    """

    rms: float
    choice: float
    same: float
    positions: int

    @property
    def holds(self) -> bool:
        """Whether logits stay within RMS_BOUND, and choices differ only between tokens within CHOICE_BOUND."""
        return self.rms <= RMS_BOUND and self.choice <= CHOICE_BOUND

    def __str__(self) -> str:
        return (
            f"logits {self.rms * 100:.1f} % of their spread apart (bound {RMS_BOUND * 100:.0f} %), "
            f"same choice at {self.same * 100:.0f} % of {self.positions} positions, "
            f"others within {self.choice * 100:.0f} % (bound {CHOICE_BOUND * 100:.0f} %)"
        )


class VariantRun(Protocol):
    """A variant made ready: every timing is of it alone, on its own cache."""

    @property
    def weight_bytes(self) -> int:
        """What its weights take in memory, those it shares with the loaded model among them."""

    def step(self) -> float:
        """Seconds of one decode step of the sequences, each holding the context it was made for."""

    def prefill(self) -> float:
        """Seconds of a prefill of `prompt_tokens` of each sequence."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that `prefill` takes of each sequence."""

    def agreement(self, plain: "VariantRun") -> Agreement:
        """How its logits compare with the plain model's."""

    def close(self) -> None:
        """Free what it holds."""
