"""Trying levers on a loaded model, one by one or in the combinations of a search within a time limit."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median

from workbench.engines.engine import PointError
from workbench.experiments.events import Event, LadderMeasured, Progress
from workbench.experiments.gap.gap_plan import GapPlan
from workbench.experiments.gap.levers import ALL, Lever, Trial, combined, levers, tried, try_variant, without_compiler
from workbench.experiments.gap.variant import AS_LOADED, Variant, VariantRun
from workbench.experiments.judging import others_words
from workbench.experiments.measured_run import MeasuredRun
from workbench.experiments.settings import Weights
from workbench.runs.ladder import Fastest, Ladder, LeverTried
from workbench.runs.measured_device import calibrated_gemv

MOST_PROMPT = 256
"""Tokens of the prefill whose time is compared: its ratio says enough, and a long one would take most of the time."""
COMPILING_TIMES = 6.0
"""How much longer than the longest other trial one that compiles is taken to last: it can't be stopped on the way."""
ALONE_SHARE = 0.6
"""Of the time, for levers each alone, once one has helped: the rest is for combinations."""
WORTH = 1.02
"""A combination must be this much faster than the best so far to take its place: less is within the noise."""

Save = Callable[[Variant, Fastest], str]
"""Keeps a winner as a preset and gives the name of its file."""


@dataclass
class Bench:
    """The plain model beside which variants are tried, and what has been found so far."""

    sweep: MeasuredRun[GapPlan]
    ladder: Ladder
    plain: VariantRun
    clock: Callable[[], float] = time.monotonic
    trials: dict[Variant, Trial] = field(default_factory=dict)
    disturbed: dict[Variant, str] = field(default_factory=dict)
    longest_s: float = 0.0
    longest_compiled_s: float = 0.0

    def expected_s(self, variant: Variant) -> float:
        """Seconds a trial may take, by the longest of its kind so far."""
        if not variant.compiled:
            return self.longest_s
        return self.longest_compiled_s or COMPILING_TIMES * self.longest_s

    @property
    def synthetic(self) -> bool:
        """Whether the weights only take the place of the model's own."""
        return self.sweep.planned.weights is Weights.SYNTHETIC

    @property
    def other_bytes(self) -> int:
        """What the process needs beside the weights."""
        need = self.sweep.planned.need
        return int(need.total - need.weights)

    def trial(self, variant: Variant) -> Trial:
        """A variant made ready, timed beside the plain model and freed; raises PointError where it can't be run."""
        began = self.clock()
        run = make_ready(self.sweep, variant)
        try:
            found, beside = self.sweep.timed_beside(lambda: try_variant(self.plain, run, self.ladder.phase))
        finally:
            run.close()
        self.trials[variant] = found
        self.disturbed[variant] = others_words(beside.other_load)
        took = self.clock() - began
        if variant.compiled:
            self.longest_compiled_s = max(self.longest_compiled_s, took)
        else:
            self.longest_s = max(self.longest_s, took)
        return found


@contextmanager
def bench(sweep: MeasuredRun[GapPlan], ladder: Ladder, clock: Callable[[], float] = time.monotonic) -> Iterator[Bench]:
    """A bench with the plain model on it, freed at the end."""
    plain = make_ready(sweep, AS_LOADED)
    try:
        yield Bench(sweep, ladder, plain, clock)
    finally:
        plain.close()


def make_ready(sweep: MeasuredRun[GapPlan], variant: Variant) -> VariantRun:
    """A variant on the sequences of the plan."""
    settings = sweep.planned.settings
    prompt = settings.context if settings.prefill else min(settings.context, MOST_PROMPT)
    return sweep.loaded.variant(variant, settings.context, settings.batch, prompt, sweep.cancel)


def try_levers(sweep: MeasuredRun[GapPlan], ladder: Ladder, names: Sequence[str]) -> Iterator[Event]:
    """Try the levers of these names, or all that should save something: the predictions first, then each measured."""
    chosen = _levers(sweep, ladder, () if ALL in names else names)
    ladder = _untried(ladder, chosen)
    yield LadderMeasured(sweep.run.run_id, ladder)
    if not chosen:
        return
    with bench(sweep, ladder) as on:
        for at, lever in enumerate(chosen):
            sweep.cancel.check()
            yield _progress(sweep, f"trying {lever.name}", at + 1, len(chosen))
            ladder = _with(ladder, at, _tried(on, lever))
            yield LadderMeasured(sweep.run.run_id, ladder)


def find_fastest(
    sweep: MeasuredRun[GapPlan],
    ladder: Ladder,
    within_s: float,
    save: Save,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Event]:
    """Search the combinations of levers: each alone, then the best with one more at a time, while the time lasts.

    No combination is begun that might not end in time by the longest one so far, and none is built on a lever whose
    outputs left the bound or that saved nothing beyond doubt.
    """
    began = clock()
    chosen = sorted(_levers(sweep, ladder, ()), key=lambda lever: lever.variant.compiled)
    ladder = _untried(ladder, chosen)
    yield LadderMeasured(sweep.run.run_id, ladder)
    with bench(sweep, ladder, clock) as on:

        def left_s() -> float:
            return within_s - (clock() - began)

        def fits(variant: Variant, kept_back_s: float = 0.0) -> bool:
            return on.expected_s(variant) < left_s() - kept_back_s

        useful: list[Lever] = []
        for at, lever in enumerate(chosen):
            sweep.cancel.check()
            if not fits(lever.variant, (1 - ALONE_SHARE) * within_s if useful else 0.0):
                ladder = _with(ladder, at, replace(ladder.levers[at], note=f"no time was left for it. {lever.why}"))
                continue
            yield _progress(sweep, f"trying {lever.name}", at + 1, len(chosen), left_s())
            found = _tried(on, lever)
            ladder = _with(ladder, at, found)
            if found.agrees and on.trials[lever.variant].saves:
                useful.append(lever)
            ladder = replace(ladder, fastest=_fastest(on, clock() - began))
            yield LadderMeasured(sweep.run.run_id, ladder)
        useful.sort(key=lambda lever: on.trials[lever.variant].speedup, reverse=True)
        best = useful[0].variant if useful else AS_LOADED
        for lever in useful[1:]:
            variant = combined([best, lever.variant])
            if not best.goes_with(lever.variant) or variant in on.trials or not fits(variant):
                continue
            sweep.cancel.check()
            yield _progress(sweep, f"trying {variant}", len(on.trials) + 1, len(chosen) + len(useful) - 1, left_s())
            together = on.trials[best].saving_s + on.trials[lever.variant].saving_s
            record = LeverTried(str(variant), together, note="predicted: what its parts saved, summed")
            ladder = replace(ladder, levers=(*ladder.levers, record))
            yield LadderMeasured(sweep.run.run_id, ladder)
            found = _measured(on, record, variant)
            if found.agrees and on.trials[variant].speedup > WORTH * on.trials[best].speedup:
                best = variant
            ladder = replace(_with(ladder, -1, found), fastest=_fastest(on, clock() - began))
            yield LadderMeasured(sweep.run.run_id, ladder)
        won = _fastest(on, clock() - began)
        winner = _winner(on)
        if winner != AS_LOADED:
            won = replace(won, preset=save(winner, won))
    yield LadderMeasured(sweep.run.run_id, replace(ladder, fastest=won))


def _levers(sweep: MeasuredRun[GapPlan], ladder: Ladder, names: Sequence[str]) -> list[Lever]:
    labels = sweep.loaded.labels

    def gemv(dtype: str) -> float | None:
        rate = calibrated_gemv(labels.device, dtype)
        return None if rate is None else rate.value

    return levers(ladder, labels.dtype, labels.threads, gemv, forced=names)


def _untried(ladder: Ladder, chosen: Sequence[Lever]) -> Ladder:
    """The ladder with the predictions alone, and why what needs a compiler is left out where there is none."""
    notes = tuple(note for note in (without_compiler(),) if note and note not in ladder.notes)
    predictions = tuple(lever.untried for lever in chosen)
    return replace(ladder, levers=predictions, fastest=None, notes=(*ladder.notes, *notes))


def _tried(on: Bench, lever: Lever) -> LeverTried:
    return _measured(on, lever.untried, lever.variant)


def _measured(on: Bench, record: LeverTried, variant: Variant) -> LeverTried:
    try:
        trial = on.trial(variant)
    except PointError as error:
        return replace(record, note=f"it can't be run here: {error}. {record.note}")
    return tried(record, trial, on.other_bytes, synthetic=on.synthetic, disturbed=on.disturbed[variant])


def _winner(on: Bench) -> Variant:
    """The fastest variant whose outputs agree and which is faster beyond doubt; as loaded where there is none."""
    useful = {v: trial.speedup for v, trial in on.trials.items() if trial.agreement.holds and trial.saves}
    return max(useful, key=lambda variant: useful[variant], default=AS_LOADED)


def _fastest(on: Bench, seconds: float) -> Fastest:
    winner = _winner(on)
    if winner == AS_LOADED:
        step = on.ladder.measured.value
        return Fastest(
            "as loaded",
            1.0,
            step,
            step,
            None,
            None,
            seconds,
            len(on.trials),
            "nothing tried is surely faster and agrees",
        )
    trial = on.trials[winner]
    return Fastest(
        name=str(winner),
        speedup=trial.speedup,
        pass_s=median(trial.variant_s),
        as_loaded_s=median(trial.plain_s),
        ttft_ratio=trial.ttft_ratio,
        memory_bytes=trial.weight_bytes + on.other_bytes,
        seconds=seconds,
        tried=len(on.trials),
        note=str(trial.agreement) + (", of synthetic weights" if on.synthetic else ""),
    )


def _with(ladder: Ladder, at: int, lever: LeverTried) -> Ladder:
    changed = list(ladder.levers)
    changed[at] = lever
    return replace(ladder, levers=tuple(changed))


def _progress(sweep: MeasuredRun[GapPlan], stage: str, at: int, of: int, left_s: float | None = None) -> Progress:
    settings = sweep.planned.settings
    return Progress(stage, at, of, prompt_tokens=settings.context, left_s=left_s, batch=settings.batch)
