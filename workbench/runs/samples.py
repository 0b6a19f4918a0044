"""The timings behind a row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Discarded:
    """What was timed while the process stood still, why it doesn't count, and the seconds that it took by the clock."""

    reason: str
    seconds: float
    ttft_s: tuple[float, ...] = ()
    tpot_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Samples:
    """Every timing behind a row, in the order it was taken, in seconds; what was dropped came before the rest."""

    ttft_s: tuple[float, ...] = ()
    tpot_s: tuple[float, ...] = ()
    dropped_ttft_s: tuple[float, ...] = ()
    dropped_tpot_s: tuple[float, ...] = ()
    discarded: tuple[Discarded, ...] = ()
