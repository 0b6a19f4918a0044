"""What a result of another tool measured, before it is a row: the point, its times, and under which labels."""

from dataclasses import dataclass, field
from statistics import median

MOST_SECONDS = 1e7
MOST_RATE = 1e8
"""Tokens a second: more than any machine computes of any model."""


@dataclass(frozen=True)
class Times:
    """Seconds of each repeat, in the order they were taken; of a file that has none of them their mean alone."""

    samples_s: tuple[float, ...] = ()
    mean_s: float | None = None

    @property
    def best_s(self) -> float:
        """The shortest repeat, or the mean."""
        return min(self.samples_s) if self.samples_s else self.mean_s or 0.0

    @property
    def median_s(self) -> float | None:
        """Unknown without the repeats."""
        return median(self.samples_s) if self.samples_s else None

    def each(self, parts: int) -> "Times":
        """The times of one of so many equal parts."""
        return Times(tuple(s / parts for s in self.samples_s), None if self.mean_s is None else self.mean_s / parts)


@dataclass(frozen=True)
class Labels:
    """What a result says of itself; a word that the file lacks is empty, a number None.

    `settings` are all that it was run with, by name, those among them that no label has; `remarks` are what a
    reader must know of them before a rate is compared.
    """

    tool: str
    version: str = ""
    model: str = ""
    architecture: str = ""
    quantisation: str = ""
    cache_types: tuple[str, str] | None = None
    device: str = ""
    threads: int | None = None
    machine: str = ""
    parameters: int | None = None
    weight_bytes: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedPoint:
    """One point: a prefill of `prompt_tokens` after `depth` tokens, `steps` decode steps of `batch` sequences, or both.

    `prefill` is of all sequences together, `step` of one step of them. `problem` says why there is no figure.
    With `is_shared` all sequences go on from one prompt.
    """

    line: int
    labels: Labels
    prompt_tokens: int = 0
    depth: int = 0
    steps: int = 0
    batch: int = 1
    prefill: Times | None = None
    step: Times | None = None
    started_at: str = ""
    problem: str = ""
    is_shared: bool = False
    remarks: tuple[str, ...] = field(default=())


def differs(one: float, other: float, share: float) -> bool:
    """Whether two figures lie further apart than that share of the larger."""
    return abs(one - other) > share * max(one, other)
