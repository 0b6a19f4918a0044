"""Changes that can be made to a pass here and now: what each should save by the ladder, and what it does when tried."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from workbench.errors import SettingsError, unknown_name
from workbench.experiments.gap.ladder import FRAMEWORK
from workbench.experiments.gap.parts import Part
from workbench.experiments.gap.variant import AS_LOADED, Agreement, Cache, Stored, Variant, VariantRun
from workbench.experiments.statistics import Interval, median_interval, paired_ratio
from workbench.models.model import DTYPE_BYTES
from workbench.runs.ladder import PREFILL, Ladder, LeverTried

ALL = "all"
PAIRS = 6
"""Of passes with and without a change, in the order ABBA: an even number, so that neither comes first more often."""
LEAST_SHARE = 0.01
"""Of the pass: a lever that should save less is proposed only when it is asked for by name."""
INT8_BYTES = 1
VARIANTS: Mapping[str, Variant] = {
    "bfloat16": Variant(dtype="bfloat16"),
    "float16": Variant(dtype="float16"),
    "float32": Variant(dtype="float32"),
    "int8-weights": Variant(stored=Stored.INT8),
    "preallocated-cache": Variant(cache=Cache.PREALLOCATED),
    "eager-attention": Variant(attention="eager"),
    "compiled": Variant(compiled=True, cache=Cache.PREALLOCATED),
    "fewer-threads": Variant(threads=1),
}
"""Every lever this engine has, by the name it is asked for by."""

GemvRate = Callable[[str], float | None]
"""The bytes a second that one-row products of a dtype read by the probe; None where none has tried it."""


@dataclass(frozen=True)
class Lever:
    """A change, the seconds it should save of the pass, None where nothing is known to say so, and the reason."""

    name: str
    variant: Variant
    predicted_saving_s: float | None
    why: str

    @property
    def untried(self) -> LeverTried:
        """The record of it before it is measured."""
        return LeverTried(self.name, self.predicted_saving_s, note=self.why)


def check_names(names: Sequence[str]) -> None:
    """Raise SettingsError, with the nearest known one, for a name that is no lever's."""
    for name in names:
        if name != ALL and name not in VARIANTS:
            raise SettingsError(unknown_name("lever", name, (ALL, *VARIANTS)))


def levers(ladder: Ladder, dtype: str, threads: int, gemv: GemvRate, *, forced: Sequence[str] = ()) -> list[Lever]:
    """The levers that should save something of this ladder's pass, the greatest saving first, and those `forced`.

    One of which nothing is known beforehand comes last.
    """
    found = [_lever(name, variant, ladder, dtype, threads, gemv) for name, variant in VARIANTS.items()]
    least = LEAST_SHARE * ladder.measured.value

    def proposed(lever: Lever) -> bool:
        saving = lever.predicted_saving_s
        return _changes(lever.variant, dtype, threads) and (saving is None or saving >= least)

    chosen = [lever for lever in found if (lever.name in forced if forced else proposed(lever))]
    return sorted(chosen, key=lambda lever: (lever.predicted_saving_s is None, -(lever.predicted_saving_s or 0.0)))


def _changes(variant: Variant, dtype: str, threads: int) -> bool:
    """Whether it can be had and differs from what is loaded; the greater dtype is no lever unless it is asked for."""
    if variant.dtype is not None and DTYPE_BYTES[variant.dtype] >= DTYPE_BYTES[dtype]:
        return False
    if variant.compiled and without_compiler():
        return False
    return not (variant.threads is not None and variant.threads >= threads)


def without_compiler() -> str:
    """Why nothing can be compiled here; empty where the C++ compiler that torch would call is at hand."""
    name = os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    if shutil.which(name):
        return ""
    return (
        f"compiled is no lever here: torch.compile needs {name}, which isn't found; install it, or name another in CXX"
    )


def _lever(name: str, variant: Variant, ladder: Ladder, dtype: str, threads: int, gemv: GemvRate) -> Lever:
    saving, why = _predicted(variant, ladder, dtype, gemv)
    if variant.threads is not None:
        variant = replace(variant, threads=max(1, threads // 2))
    return Lever(name, variant, saving, why)


def _predicted(variant: Variant, ladder: Ladder, dtype: str, gemv: GemvRate) -> tuple[float | None, str]:
    weights_s = part_seconds(ladder, Part.WEIGHTS) + part_seconds(ladder, Part.HEAD)
    if variant.dtype is not None or variant.stored is Stored.INT8:
        if ladder.phase == PREFILL:
            return None, "a prefill's products are bound by operations, and the rates of the two forms are not compared"
        to = variant.dtype or "int8"
        share, rates = _bytes_share(dtype, to, gemv)
        return (
            weights_s * (1 - share),
            f"weights and head take {weights_s * 1e3:.1f} ms; in {to} they would take {share:.2f} of it, by {rates}",
        )
    if variant.compiled:
        names = (Part.CACHE, Part.ELEMENTWISE, FRAMEWORK)
        saving = sum(max(0.0, _rung_seconds(ladder, name)) for name in names)
        return saving, "at most the rungs of the framework, of elementwise work and of the cache"
    if variant.cache is Cache.PREALLOCATED:
        return max(0.0, _rung_seconds(ladder, Part.CACHE)), "the rung of cache handling: nothing is copied any more"
    if variant.attention is not None:
        saving = max(0.0, _rung_seconds(ladder, Part.ATTENTION))
        return saving, "at most the rung of attention, where its kernel is the cause"
    return None, "what fewer threads change is not known beforehand: products of few rows may run on one core anyway"


def _bytes_share(dtype: str, to: str, gemv: GemvRate) -> tuple[float, str]:
    """The time of weights in another form over their time now: bytes over rates, one rate where not both are known."""
    shrunk = DTYPE_BYTES.get(to, INT8_BYTES) / DTYPE_BYTES[dtype]
    now, then = gemv(dtype), gemv(to)
    if now is None or then is None:
        return shrunk, f"bytes alone ({shrunk:.2f}), were they read as fast"
    return (
        shrunk * now / then,
        f"bytes ({shrunk:.2f}) and the probe's rates ({now / 1e9:.1f} and {then / 1e9:.1f} GB/s)",
    )


def part_seconds(ladder: Ladder, part: Part) -> float:
    """Seconds of a part as the ladder found them: its rung and the floor that was taken off it."""
    rung = next((rung for rung in ladder.rungs if rung.name == part), None)
    if rung is None:
        return 0.0
    return rung.time.value + sum(quantity.value for quantity in rung.time.inputs if quantity.symbol == "floor")


def _rung_seconds(ladder: Ladder, name: str) -> float:
    return next((rung.time.value for rung in ladder.rungs if rung.name == name), 0.0)


@dataclass(frozen=True)
class Trial:
    """A variant timed beside the plain model: pairs of passes, a prefill each, its memory, and how outputs agree."""

    plain_s: tuple[float, ...]
    variant_s: tuple[float, ...]
    ttft_ratio: float
    weight_bytes: int
    agreement: Agreement

    @property
    def savings_s(self) -> tuple[float, ...]:
        """Seconds saved, pair by pair."""
        return tuple(plain - variant for plain, variant in zip(self.plain_s, self.variant_s, strict=True))

    @property
    def saving_s(self) -> float:
        """The median saving."""
        return median(self.savings_s)

    @property
    def interval(self) -> Interval | None:
        """Where that lies at 95 per cent; unknown of fewer than two pairs."""
        return median_interval(self.savings_s)

    @property
    def saves(self) -> bool:
        """Whether it is faster beyond doubt: the interval of its saving lies above zero."""
        return self.interval is not None and self.interval.low > 0

    @property
    def speedup(self) -> float:
        """The median of the ratios of pairs."""
        return paired_ratio(self.plain_s, self.variant_s).value


def try_variant(plain: VariantRun, run: VariantRun, phase: str) -> Trial:
    """Time a variant beside the plain model, interleaved; its outputs come first, which also warm it."""
    agreement = run.agreement(plain)

    def passed(one: VariantRun) -> float:
        return one.prefill() if phase == PREFILL else one.step()

    for one in (plain, run):
        passed(one)
    plain_s: list[float] = []
    variant_s: list[float] = []
    for pair in range(PAIRS):
        order = [(plain, plain_s), (run, variant_s)]
        for one, seconds in order if pair % 2 == 0 else reversed(order):
            seconds.append(passed(one))
    ttft_ratio = median(variant_s) / median(plain_s) if phase == PREFILL else run.prefill() / plain.prefill()
    return Trial(tuple(plain_s), tuple(variant_s), ttft_ratio, run.weight_bytes, agreement)


def tried(lever: LeverTried, trial: Trial, other_bytes: int, *, synthetic: bool, disturbed: str = "") -> LeverTried:
    """The record of a lever with what it did; `other_bytes` are what the process needs beside the weights.

    `disturbed` says what ran beside its trial.
    """
    spread = trial.interval
    of_synthetic = (
        "; of synthetic weights, whose logits lie closer together than a trained model's" if synthetic else ""
    )
    return replace(
        lever,
        measured_saving_s=trial.saving_s,
        low_s=None if spread is None else spread.low,
        high_s=None if spread is None else spread.high,
        speedup=trial.speedup,
        as_loaded_s=trial.plain_s,
        with_it_s=trial.variant_s,
        disturbed=disturbed,
        ttft_ratio=trial.ttft_ratio,
        memory_bytes=trial.weight_bytes + other_bytes,
        agrees=trial.agreement.holds,
        note=f"{trial.agreement}{of_synthetic}. {lever.note}",
    )


def combined(variants: Sequence[Variant]) -> Variant:
    """One variant with all these changes."""
    whole = AS_LOADED
    for each in variants:
        whole = whole.with_change(each)
    return whole
