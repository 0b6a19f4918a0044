"""How much the workbench disturbs its own timings: the same decode steps with and without it, interleaved.

A shared box changes by more than the bars within seconds, so each block of steps beside the workbench stands between
two bare ones in the same process, while which the screen's thread and the terminal are held still.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean

from workbench.errors import SettingsError
from workbench.experiments.events import Event, PointFailed, RowMeasured
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import Plan, check_before_loading, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.selfcheck.blocks import CONTEXT, REQUESTS, STEPS, Hold, SteppedModel, steps_alone
from workbench.experiments.selfcheck.comparison import MEASURED, Compared, Condition, Taken, Verdict, compared, overall
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import STOP_WAIT_S, CancelToken, Ending, Experiment, Runner
from workbench.runs.row import Row

LEAST_ROUNDS = 10


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


Experimented = Callable[[TimedWindow], Experiment]
"""The sweep of a condition, inside the window of what stands beside it."""
InApp = Callable[[Runner, Condition, SweepSettings, Experimented, Callable[[Hold], None]], None]
"""Opens the app on a terminal of its own, says how it is held still, drives the sweep in it and closes it.

Raises what the sweep raised.
"""


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
    ratios = ", ".join(f"{each} {taken[each].median_ratio:.3f}" for each in MEASURED)
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
    ending = Ending()
    runner.start(experiment, lambda _event: None, ending.tell)
    try:
        ending.wait()
    except KeyboardInterrupt:
        runner.cancel()
        runner.wait(STOP_WAIT_S)
        raise
    if ending.error is not None:
        raise ending.error
