"""How much the workbench disturbs its own timings: the same decode steps with and without it, interleaved.

A shared box changes by more than the bars within seconds, so each block of steps beside the workbench stands between
two bare ones in the same process, while which the screen's thread and the terminal are held still.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import mean, median

from workbench.engines.engine import BatchTiming, BoxRates, EngineLabels, LoadedModel, RequestTiming
from workbench.errors import SettingsError
from workbench.experiments.events import Event, PointFailed, RowMeasured
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection
from workbench.experiments.gap.variant import Variant, VariantRun
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import Plan, check_before_loading, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import SweepSettings
from workbench.experiments.statistics import Interval, bootstrap_interval, quantile
from workbench.experiments.window import TimedWindow
from workbench.models.model import Model
from workbench.quantity import Quantity
from workbench.record import headed
from workbench.runner import CancelToken, Experiment, Runner
from workbench.runs.row import Row

CONTEXT, STEPS = 64, 12
"""Tokens each block holds before its steps, and its steps: about half a second of a 135M shape on two cores."""
REQUESTS = 6
"""Blocks of a condition in a round, of which each lies between two bare ones."""
LEAST_ROUNDS = 10
STOP_WAIT_S = 1.5
MEDIAN_BAR, P90_BAR = 1.01, 1.03
"""What the steps under a live screen may take of the bare ones: this project's own bars."""


class Condition(StrEnum):
    """What stands beside the same decode steps, in one measuring thread; nothing at all in the first two."""

    BARE = "bare"
    BARE_AGAIN = "bare again"
    HEADLESS = "headless"
    IDLE_APP = "idle app"
    SWEEP_ON_SCREEN = "sweep on screen"
    KEYS_PRESSED = "keys pressed"


MEASURED = tuple(condition for condition in Condition if condition is not Condition.BARE)
"""Bare blocks are measured in every other condition."""
APP = (Condition.IDLE_APP, Condition.SWEEP_ON_SCREEN, Condition.KEYS_PRESSED)


@dataclass(frozen=True)
class SelfcheckSettings:
    """What the steps are of, and how many rounds; more follow up to `most_rounds` while they can't tell."""

    model: str = "smollm2-135m"
    dtype: str = "float32"
    device: str = "auto"
    threads: int | None = None
    rounds: int = LEAST_ROUNDS
    most_rounds: int = 30

    @property
    def sweep(self) -> SweepSettings:
        """The sweep that runs in every condition: prompts that the screen shows apart, one repeat of each."""
        return SweepSettings(
            model=self.model,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            prompts=tuple(CONTEXT * 2**i for i in range(REQUESTS)),
            new_tokens=STEPS + 1,
            repeats=1,
        )


def check_selfcheck(settings: SelfcheckSettings) -> None:
    """Raise SettingsError where there are too few rounds to tell anything."""
    if settings.rounds < LEAST_ROUNDS:
        raise SettingsError(
            f"{settings.rounds} rounds are too few for an interval that can be trusted; take at least {LEAST_ROUNDS}."
        )
    if settings.most_rounds < settings.rounds:
        raise SettingsError(
            f"The most rounds are {settings.most_rounds}, and {settings.rounds} are wanted at least: raise the first."
        )


Hold = Callable[[], AbstractContextManager[None]]
"""Keeps what stands beside the steps still for as long as the context is open; called in the measuring thread."""


class SteppedModel:
    """One loaded model for all conditions: every request is the same block of steps, after a bare one.

    `blocks` are those of the requests, `bare` those before each. The first of a condition are its warm-up and not kept.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.rates = loaded.box_rates()
        self.bare: list[tuple[float, ...]] = []
        self.blocks: list[tuple[float, ...]] = []
        self.hold: Hold = nullcontext

    @property
    def model(self) -> Model:
        """As it is resident."""
        return self.loaded.model

    @property
    def labels(self) -> EngineLabels:
        """The engine's."""
        return self.loaded.labels

    def begin(self) -> None:
        """Forget the steps of the last condition."""
        self.bare, self.blocks, self.hold = [], [], nullcontext

    def hold_with(self, hold: Hold) -> None:
        """What keeps the rest of this condition still during its bare blocks."""
        self.hold = hold

    @property
    def taken(self) -> tuple["Block", ...]:
        """The blocks kept, each with the bare ones before and after it."""
        return tuple(Block(self.blocks[i], tuple(self.bare[i : i + 2])) for i in range(1, len(self.blocks)))

    def box_rates(self) -> BoxRates:
        """Those of the beginning: reading memory between steps would only take time."""
        return self.rates

    def read_again(self) -> Quantity:
        """As `box_rates`."""
        return self.rates.read

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """The bare block before the next request, outside of any window."""
        with self.hold():
            self.bare.append(self._block(CancelToken()).step_s)

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """Prefill and steps of one sequence of CONTEXT tokens, whatever was prepared."""
        timing = self._block(cancel)
        self.blocks.append(timing.step_s)
        return RequestTiming(timing.prefill_s, sum(timing.step_s), STEPS)

    def _block(self, cancel: CancelToken) -> BatchTiming:
        return self.loaded.batch((CONTEXT,), STEPS, seed=len(self.blocks), cancel=cancel)

    def free_bytes(self) -> int:
        """As the engine has it."""
        return self.loaded.free_bytes()

    def slow_memory(self) -> SlowMemory | None:
        """As the engine has it."""
        return self.loaded.slow_memory()

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """As the engine has it."""
        return self.loaded.batch(lengths, steps, seed, cancel)

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        """As the engine has it."""
        return self.loaded.dissect(tokens, batch, seed, prefill=prefill, cancel=cancel)

    def variant(self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken) -> VariantRun:
        """As the engine has it."""
        return self.loaded.variant(variant, tokens, batch, prompt_tokens, cancel)

    def close(self) -> None:
        """Stay loaded for the next condition."""


@dataclass(frozen=True)
class Block:
    """Seconds of one block's steps, and of those of the bare blocks before and, if there was one more, after it."""

    step_s: tuple[float, ...]
    around: tuple[tuple[float, ...], ...]

    @property
    def ratio(self) -> float:
        """Its median step over that of the bare ones around it."""
        return median(self.step_s) / mean(median(bare) for bare in self.around)


def steps_alone(model: SteppedModel) -> Experiment:
    """The blocks with nothing around them: no window, no events, no store."""

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        for _ in range(1 + REQUESTS):
            cancel.check()
            model.prepare(CONTEXT, 0)
            model.request(STEPS + 1, cancel)
        yield from ()

    return experiment


@dataclass(frozen=True)
class Taken:
    """One condition of one round: its blocks, and what their windows say of the instrument."""

    blocks: tuple[Block, ...]
    ui_share: float | None = None

    @property
    def step_s(self) -> tuple[float, ...]:
        """Every step's seconds."""
        return tuple(seconds for block in self.blocks for seconds in block.step_s)

    @property
    def bare_s(self) -> tuple[float, ...]:
        """Every bare step's, of the block before each."""
        return tuple(seconds for block in self.blocks for seconds in block.around[0])

    @property
    def p90_ratio(self) -> float:
        """The step that a tenth of them exceed, over that of the bare ones."""
        return _p90(self.step_s) / _p90(self.bare_s)


def _p90(seconds: Sequence[float]) -> float:
    return quantile(sorted(seconds), 0.9)


Experimented = Callable[[TimedWindow], Experiment]
"""The sweep of a condition, inside the window of what stands beside it."""
InApp = Callable[[Runner, Condition, SweepSettings, Experimented, Callable[[Hold], None]], None]
"""Opens the app on a terminal of its own, says how it is held still, drives the sweep in it and closes it.

Raises what the sweep raised.
"""


class Verdict(StrEnum):
    """Whether a condition's ratios are within the bars."""

    WITHIN = "within"
    NOT_WITHIN = "not within"
    TOO_NOISY = "can't tell: too noisy"


@dataclass(frozen=True)
class Compared:
    """A condition against the bare steps between its own: milliseconds, ratios with their intervals, a verdict.

    `median_ratio` is the median over all blocks of their median steps over those of the bare blocks around them, with
    an interval from drawing rounds; `p90_ratio` the median over the rounds of the ratio of the 90th percentiles. None
    for the bare steps themselves. `ui_share` is the CPU time of all threads of ours but the measuring
    one inside the timed windows, over their length.
    """

    condition: Condition = headed("steps")
    rounds: int = headed("rounds")
    median_ms: float = headed("median ms")
    p90_ms: float = headed("p90 ms")
    median_ratio: float | None = headed("median / bare")
    median_low: float | None = headed("from")
    median_high: float | None = headed("to")
    p90_ratio: float | None = headed("p90 / bare")
    p90_low: float | None = headed("p90 from")
    p90_high: float | None = headed("p90 to")
    ui_share: float | None = headed("UI share")
    verdict: Verdict | None = headed("verdict")


def verdict(median_ratio: Interval, p90_ratio: Interval) -> Verdict:
    """Within where both intervals lie under their bars, not within where one lies above; else it can't be told."""
    bars = ((median_ratio, MEDIAN_BAR), (p90_ratio, P90_BAR))
    if any(interval.low > bar for interval, bar in bars):
        return Verdict.NOT_WITHIN
    return Verdict.WITHIN if all(interval.high <= bar for interval, bar in bars) else Verdict.TOO_NOISY


def compared(rounds: Sequence[Mapping[Condition, Taken]]) -> list[Compared]:
    """Each condition over its own bare steps, in the order of Condition."""
    bare = [Taken(tuple(block for taken in each.values() for block in taken.blocks)) for each in rounds]
    found = [_figures(Condition.BARE, [taken.bare_s for taken in bare])]
    for condition in MEASURED:
        taken = [each[condition] for each in rounds]
        ratios = [[block.ratio for block in each.blocks] for each in taken]
        tails = [each.p90_ratio for each in taken]
        middle, tail = bootstrap_interval(ratios, _middle_of_all), bootstrap_interval(tails, median)
        shares = [each.ui_share for each in taken if each.ui_share is not None]
        found.append(
            replace(
                _figures(condition, [each.step_s for each in taken]),
                median_ratio=_middle_of_all(ratios),
                median_low=middle.low,
                median_high=middle.high,
                p90_ratio=median(tails),
                p90_low=tail.low,
                p90_high=tail.high,
                ui_share=mean(shares) if shares else None,
                verdict=verdict(middle, tail),
            )
        )
    return found


def _middle_of_all(ratios: Sequence[Sequence[float]]) -> float:
    return median(ratio for of_round in ratios for ratio in of_round)


def _figures(condition: Condition, step_s: Sequence[Sequence[float]]) -> Compared:
    """A condition's milliseconds, from its steps round by round, before anything is compared."""
    return Compared(
        condition=condition,
        rounds=len(step_s),
        median_ms=median(median(each) for each in step_s) * 1e3,
        p90_ms=median(_p90(each) for each in step_s) * 1e3,
        median_ratio=None,
        median_low=None,
        median_high=None,
        p90_ratio=None,
        p90_low=None,
        p90_high=None,
        ui_share=None,
        verdict=None,
    )


def overall(found: Sequence[Compared]) -> Verdict:
    """The gravest verdict of the conditions in which the app is open."""
    gravest_first = (Verdict.NOT_WITHIN, Verdict.TOO_NOISY, Verdict.WITHIN)
    verdicts = [each.verdict for each in found if each.condition in APP and each.verdict is not None]
    return min(verdicts, key=gravest_first.index)


def selfcheck(
    settings: SelfcheckSettings,
    load: Load,
    runner: Runner,
    in_app: InApp,
    tell: Callable[[str], None],
) -> list[Compared]:
    """Measure every condition once a round, in an order that moves on by one each round, and compare them.

    Called in the main thread, where the app has to run; the steps run in the runner's. Raises SettingsError, ModelError
    and MemoryRefused before anything is measured, and what a condition raised.
    """
    check_selfcheck(settings)
    planned = plan(settings.sweep)
    tell(f"loading {planned.model.name} in {settings.dtype}")
    model = _loaded(planned, load, runner)
    try:
        rounds: list[dict[Condition, Taken]] = []
        while len(rounds) < settings.most_rounds:
            first = len(rounds) % len(MEASURED)
            order = MEASURED[first:] + MEASURED[:first]
            taken: dict[Condition, Taken] = {}
            for condition in order:
                tell(f"round {len(rounds) + 1}: {condition}")
                taken[condition] = _measured(condition, model, settings.sweep, runner, in_app)
            rounds.append(taken)
            tell(_progress(len(rounds), settings, taken))
            if len(rounds) >= settings.rounds and overall(compared(rounds)) is not Verdict.TOO_NOISY:
                break
        return compared(rounds)
    finally:
        _conduct(runner, _closing(model))


def _progress(done: int, settings: SelfcheckSettings, taken: Mapping[Condition, Taken]) -> str:
    of = settings.rounds if done <= settings.rounds else settings.most_rounds
    ratios = ", ".join(f"{each} {_middle_of_all([[b.ratio for b in taken[each].blocks]]):.3f}" for each in MEASURED)
    return f"round {done} of {of}: median step over the bare ones: {ratios}"


def _measured(
    condition: Condition, model: SteppedModel, settings: SweepSettings, runner: Runner, in_app: InApp
) -> Taken:
    rows: list[Row] = []

    def swept(window: TimedWindow) -> Experiment:
        return _watched(sweep(settings, lambda _planned, _cancel: model, window), rows)

    model.begin()
    if condition is Condition.BARE_AGAIN:
        _conduct(runner, steps_alone(model))
    elif condition is Condition.HEADLESS:
        _conduct(runner, swept(TimedWindow()))
    else:
        in_app(runner, condition, settings, swept, model.hold_with)
    shares = [row.ui_share for row in rows if row.ui_share is not None]
    return Taken(model.taken, mean(shares) if shares else None)


def _watched(experiment: Experiment, rows: list[Row]) -> Experiment:
    """The experiment, whose rows are noted; a point that fails ends it."""

    def watched(cancel: CancelToken) -> Iterator[Event]:
        for event in experiment(cancel):
            if isinstance(event, PointFailed):
                raise SettingsError(f"The steps can't be measured: {event.reason}. Choose a smaller model.")
            if isinstance(event, RowMeasured):
                rows.append(event.row)
            yield event

    return watched


def _loaded(planned: Plan, load: Load, runner: Runner) -> SteppedModel:
    """The model, loaded in the runner's thread."""
    models: list[SteppedModel] = []

    def loading(cancel: CancelToken) -> Iterator[Event]:
        models.append(SteppedModel(load(planned, cancel)))
        yield from ()

    check_before_loading(planned)
    _conduct(runner, loading)
    return models[0]


def _closing(model: SteppedModel) -> Experiment:
    def closing(_cancel: CancelToken) -> Iterator[Event]:
        model.loaded.close()
        yield from ()

    return closing


def _conduct(runner: Runner, experiment: Experiment) -> None:
    """Drive an experiment without the app, and raise what it raised; an interrupt cancels it."""
    errors: list[BaseException] = []
    ended = threading.Event()

    def done(error: BaseException | None) -> None:
        if error is not None:
            errors.append(error)
        ended.set()

    runner.start(experiment, lambda _event: None, done)
    try:
        ended.wait()
    except KeyboardInterrupt:
        runner.cancel()
        runner.wait(STOP_WAIT_S)
        raise
    if errors:
        raise errors[0]
