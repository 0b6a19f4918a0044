"""The controlled perturbation: the prompt varied with the output fixed, then the sequences with the prompt fixed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import log
from typing import Any

from workbench.experiments.batch import batch_sweep
from workbench.experiments.events import Event, Finished
from workbench.experiments.measured_run import Load
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, RunSettings, SweepSettings, check_settings
from workbench.experiments.window import TimedWindow
from workbench.models.resolve import resolve
from workbench.quantity import Origin, Quantity, Unit, format_number
from workbench.record import headed
from workbench.runner import CancelToken, Experiment
from workbench.runs.checks import Verdict, judged, other_work
from workbench.runs.doubling import LEAST_GAIN, doublings
from workbench.runs.readings import (
    Reading,
    Times,
    over_batches,
    over_contexts,
    over_prompts,
    range_words,
    readings,
    times,
)
from workbench.runs.row import BATCH, Row
from workbench.runs.run import RunStatus
from workbench.runs.symptoms import GROWS

PROMPTS = (16, 64, 256, 1024)
BATCHES = (1, 2, 4, 8, 16)
PROPORTIONAL = (0.8, 1.15)
"""Powers of the prompt that count as in proportion to it: fetching the weights lowers them, attention raises them."""
AGAIN = "measure again when the box is quiet, or with more repeats"


@dataclass(frozen=True)
class Sentence:
    """What one perturbation shows, in words, with the figures it rests on; None where that was not measured."""

    text: str = headed("reading")
    varied: str = headed("varied")
    ttft_growth: Quantity | None = field(default=None, metadata={"heading": "TTFT"})
    tpot_growth: Quantity | None = field(default=None, metadata={"heading": "TPOT"})
    total_growth: Quantity | None = field(default=None, metadata={"heading": "total tok/s"})


def perturbations(
    settings: RunSettings,
    context: int,
    prompts: tuple[int, ...] = PROMPTS,
    batches: tuple[int, ...] = BATCHES,
) -> tuple[SweepSettings, BatchSettings]:
    """The two sweeps of a perturbation of a model on a device: over prompts, and over sequences of `context` tokens.

    Prompts that the model's own context can't hold are left out. Raises ModelError for a model that can't be read.
    """
    limit = resolve(settings.model).context_limit
    held = tuple(n for n in prompts if limit is None or n + SweepSettings.new_tokens <= limit)
    about: dict[str, Any] = {each.name: getattr(settings, each.name) for each in fields(RunSettings)}
    return (
        SweepSettings(**about, prompts=held or prompts),
        BatchSettings(**about, contexts=(context,), batches=batches),
    )


def perturbation(prompts: SweepSettings, sequences: BatchSettings, load: Load, window: TimedWindow) -> Experiment:
    """The experiment that runs both sweeps, one after the other.

    Each is kept as a run of its own, of its usual kind: its pane shows it, it can be compared, and resumed where it was
    stopped. Once the first is stopped the second is not begun. Raises SettingsError before either is started.
    """

    def experiment(cancel: CancelToken) -> Iterator[Event]:
        check_settings(prompts)
        check_settings(sequences)
        for each in (sweep(prompts, load, window), batch_sweep(sequences, load, window)):
            status = RunStatus.FINISHED
            for event in each(cancel):
                if isinstance(event, Finished):
                    status = event.status
                yield event
            if status is not RunStatus.FINISHED:
                return

    return experiment


def reading(rows: Sequence[Row]) -> tuple[Sentence, ...]:
    """What the rows of both sweeps say, in words; what is lacking is said too."""
    found = readings(rows)
    return (_over_prompts(found), _over_batches(found, rows), *_other_load(found))


def _over_prompts(found: Sequence[Reading]) -> Sentence:
    requests = over_prompts(found)
    if len(requests) < 2:
        return Sentence(
            "fewer than two prompt lengths were measured: which phase the prompt acts on isn't known", "prompt"
        )
    short, long = requests[0], requests[-1]
    longer = long.prompt_tokens / short.prompt_tokens
    ttft = _growth("TTFT", long.ttft_s, short.ttft_s)
    tpot = _growth("TPOT", long.tpot_s, short.tpot_s)
    waits, slows = ttft.value >= GROWS, tpot.value >= GROWS
    head = (
        f"with a prompt of {long.prompt_tokens:,} instead of {short.prompt_tokens:,}, {format_number(longer)} times "
        f"longer, TTFT is {format_number(ttft.value)} times and TPOT {format_number(tpot.value)} times what it was"
    )
    unsure = [
        _unsure_words(what, spread)
        for what, spread in (
            ("TTFT", times(long.ttft_s or 0.0, long.ttft_interval, short.ttft_s or 1.0, short.ttft_interval)),
            ("TPOT", times(long.tpot_s or 0.0, long.tpot_interval, short.tpot_s or 1.0, short.tpot_interval)),
        )
        if judged(GROWS, spread) is Verdict.UNKNOWN
    ]
    if unsure:
        return Sentence(f"{head}: can't tell, {' and '.join(unsure)}; {AGAIN}", "prompt", ttft, tpot)
    match waits, slows:
        case True, False:
            meaning = f"the prompt acts on prefill alone, {_power_words(requests)}; decode hardly notices it"
        case True, True:
            meaning = f"the prompt acts on prefill, {_power_words(requests)}, and {_cache_words(found)}"
        case False, True:
            meaning = f"prefill still waits for the weights, while {_cache_words(found)}"
        case _:
            meaning = "neither notices the prompt: both wait for the same fetch of the weights, below n*"
    return Sentence(f"{head}: {meaning}", "prompt", ttft, tpot)


def _unsure_words(what: str, spread: Times) -> str:
    """Where a ratio lies that its repeats don't decide."""
    return f"by its repeats {what} may be {range_words(spread.interval)} times what it was"


def _power_words(requests: Sequence[Reading]) -> str:
    """How TTFT grows at the long end, as the power of the prompt between the two longest."""
    before, after = requests[-2:]
    ratio = (after.ttft_s or 1.0) / (before.ttft_s or 1.0)
    power = log(ratio) / log(after.prompt_tokens / before.prompt_tokens)
    low, high = PROPORTIONAL
    if power < low:
        return "less than in proportion: the fetch of the weights is still shared by more tokens"
    if power <= high:
        return "in proportion at the long end: its arithmetic binds"
    return "more than in proportion at the long end: attention's n² work adds to the arithmetic"


def _cache_words(found: Sequence[Reading]) -> str:
    """Whether the caches' bytes explain the growth of TPOT, where both are known."""
    steps = [r for r in over_contexts(found) if r.row is not None and r.row.bytes_per_step]
    if len(steps) < 2:
        return "TPOT grows with the cache"
    short, long = steps[0], steps[-1]
    assert short.row is not None
    assert long.row is not None
    expected = (long.row.bytes_per_step or 1) / (short.row.bytes_per_step or 1)
    grew = (long.tpot_s or 1.0) / (short.tpot_s or 1.0)
    if grew - 1 <= 2 * (expected - 1):
        return f"TPOT grows with the bytes of the cache, which make it {format_number(expected)} times"
    return (
        f"TPOT grows by more than the bytes of the cache, which make it {format_number(expected)} times: the engine "
        "moves it more than once, attention is slow, or other work came between"
    )


def _over_batches(found: Sequence[Reading], rows: Sequence[Row]) -> Sentence:
    contexts = over_batches(found)
    if not contexts:
        return Sentence(
            "fewer than two batches were measured: what sequences do to each other isn't known", "sequences"
        )
    steps = max(contexts.values(), key=len)
    few, many = steps[0], steps[-1]
    tpot = _growth("step", many.tpot_s, few.tpot_s)
    more = many.batch / few.batch
    total = Quantity(
        "total rate of the most sequences over that of the fewest",
        more / tpot.value,
        Unit.TIMES,
        Origin.MEASURED,
        formula="(b / step) / (b / step)",
        inputs=(tpot,),
    )
    head = (
        f"with {many.batch:,} sequences of {few.prompt_tokens:,} tokens instead of {few.batch:,} the step takes "
        f"{format_number(tpot.value)} times as long and all together get {format_number(total.value)} times the rate"
    )
    spread = times(many.tpot_s or 0.0, many.tpot_interval, few.tpot_s or 1.0, few.tpot_interval)
    unsure = ""
    if tpot.value < 1 / GROWS:
        unsure = "more sequences are no less work, so something else held the smaller batch up"
    elif judged(GROWS, spread) is Verdict.UNKNOWN:
        unsure = _unsure_words("the step", spread)
    if unsure:
        return Sentence(f"{head}: can't tell, {unsure}; {AGAIN}", "sequences", None, tpot, total)
    match tpot.value >= GROWS, total.value >= LEAST_GAIN:
        case False, _:
            meaning = "they share one fetch of the weights and hardly slow each other"
        case True, True:
            meaning = f"they share the fetch of the weights, while each slows: {_limit_words(rows, few.prompt_tokens)}"
        case _:
            meaning = f"they only wait for each other: {_limit_words(rows, few.prompt_tokens)}"
    return Sentence(
        f"{head}: {meaning}. All began together, so no time in a queue is in it", "sequences", None, tpot, total
    )


def _limit_words(rows: Sequence[Row], context: int) -> str:
    """What the rows name as the limit of that context."""
    of_context = [row for row in rows if row.kind == BATCH and row.prompt_tokens == context]
    return next((each.sentence for each in doublings(of_context)), "arithmetic of few rows, or reading their caches")


def _other_load(found: Sequence[Reading]) -> Iterator[Sentence]:
    told = other_work(GROWS, found)
    if told.verdict is Verdict.PRESENT:
        yield Sentence(f"{told.why}: the figures above hold that too; measure again when it is gone", "beside")


def _growth(what: str, after: float | None, before: float | None) -> Quantity:
    later, earlier = after or 0.0, before or 1.0
    return Quantity(
        f"{what} at the largest over {what} at the smallest",
        later / earlier,
        Unit.TIMES,
        Origin.MEASURED,
        formula=f"{what}_max / {what}_min",
        inputs=(
            Quantity(f"{what} at the largest", later, Unit.SECONDS, Origin.MEASURED, f"{what}_max"),
            Quantity(f"{what} at the smallest", earlier, Unit.SECONDS, Origin.MEASURED, f"{what}_min"),
        ),
    )
