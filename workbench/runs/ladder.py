"""The ladder of one pass: from its ceiling to its measured time in milliseconds, rung by rung, and what was made of it.

One record feeds the table, the JSON, the store and the screen.
"""

from dataclasses import dataclass

from workbench.quantity import Quantity

DECODE, PREFILL = "decode", "prefill"
BELOW_VENDOR = "rates below the vendor's figures"
SPLIT_MEMORY = "split memory"
OTHER_LOAD = "other load on the machine"
BELOW_QUIET = "rates lower than when quiet"
REMAINDER = "remainder"


@dataclass(frozen=True)
class Rung:
    """What one cause adds to the pass: its time with the interval it lies in, in seconds, and the experiment behind it.

    `time` carries the ways it was measured as its inputs.
    """

    name: str
    time: Quantity
    low_s: float
    high_s: float
    evidence: str

    @property
    def resolved(self) -> bool:
        """Whether its interval is clear of zero."""
        return self.low_s > 0 or self.high_s < 0


@dataclass(frozen=True)
class LeverTried:
    """A change that can be made here, what it should save of the pass in seconds, and what it did.

    `measured_saving_s` is None where it was not tried; `low_s` and `high_s` are the ends of its 95 per cent interval,
    and `speedup` the pass as loaded over the pass with it. `ttft_ratio` and `memory_bytes` say what else it does;
    `agrees` whether the outputs stayed within the bound, None where that was not looked at. `as_loaded_s` and
    `with_it_s` are the passes it was measured by, pair by pair; `disturbed` says what ran beside them, empty for
    nothing that counts.
    """

    name: str
    predicted_saving_s: float | None
    measured_saving_s: float | None = None
    ttft_ratio: float | None = None
    memory_bytes: int | None = None
    agrees: bool | None = None
    note: str = ""
    low_s: float | None = None
    high_s: float | None = None
    speedup: float | None = None
    as_loaded_s: tuple[float, ...] = ()
    with_it_s: tuple[float, ...] = ()
    disturbed: str = ""

    @property
    def resolved(self) -> bool:
        """Whether the interval of what it saved is known and clear of zero."""
        return self.low_s is not None and self.high_s is not None and (self.low_s > 0 or self.high_s < 0)


@dataclass(frozen=True)
class Fastest:
    """What a search over combinations of levers found: the fastest of those whose outputs stayed within the bound.

    `pass_s` is its time beside `as_loaded_s`, interleaved; `seconds` is what the search took, `tried` how many
    combinations it timed, `preset` the file that holds the winner, empty where nothing was faster.
    """

    name: str
    speedup: float
    pass_s: float
    as_loaded_s: float
    ttft_ratio: float | None
    memory_bytes: int | None
    seconds: float
    tried: int
    note: str = ""
    preset: str = ""


@dataclass(frozen=True)
class Ladder:
    """The gap of one pass: `phase` decode or prefill, of `batch` sequences that each hold, or bring, `tokens`.

    `measured` is the sum of `ceiling`, the rungs and the remainder, exactly; `low_s` and `high_s` are the ends of its
    95 per cent interval, None where it has none. `rounds` are the interleaved rounds behind it, `notes` what a person
    must know before trusting it; `run_id` the run that measured it, at `measured_at`, UTC.
    """

    phase: str
    tokens: int
    batch: int
    ceiling: Quantity
    measured: Quantity
    rungs: tuple[Rung, ...]
    remainder: Rung
    rounds: int
    verdict: str = ""
    levers: tuple[LeverTried, ...] = ()
    notes: tuple[str, ...] = ()
    fastest: Fastest | None = None
    run_id: str = ""
    measured_at: str = ""
    low_s: float | None = None
    high_s: float | None = None

    @property
    def gap_s(self) -> float:
        """Seconds between the ceiling and the measurement."""
        return self.measured.value - self.ceiling.value

    @property
    def times(self) -> float:
        """How many times the ceiling the measured time is."""
        return self.measured.value / self.ceiling.value

    @property
    def times_from_to(self) -> tuple[float, float]:
        """Where that lies, at 95 per cent; both ends are the figure itself where no interval is known."""
        low, high = (self.measured.value if end is None else end for end in (self.low_s, self.high_s))
        return low / self.ceiling.value, high / self.ceiling.value

    @property
    def terms(self) -> tuple[Rung, ...]:
        """Every rung, the remainder last."""
        return (*self.rungs, self.remainder)
