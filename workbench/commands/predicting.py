"""The command that predicts what a run would take, and the ledger of what was predicted before."""

import argparse

from workbench.ceilings.memory_fit import MemoryNeed
from workbench.errors import SettingsError
from workbench.experiments.batch_plan import BatchPlan, Point, plan_batch
from workbench.experiments.engine_plan import run_need
from workbench.experiments.foretelling import point_passes, predict
from workbench.experiments.operation_timer import TransformersTimer
from workbench.experiments.plan import LoadPlan, Plan, check_memory, layers_that_fit, plan
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.hardware.machine import this_machine
from workbench.headless import FAILED_EXIT, run_foretelling
from workbench.output import note
from workbench.prediction_output import PredictionPrinter, predicted_points, print_ledger
from workbench.predictions.ledger import accuracy, entries, worst_first
from workbench.predictions.passes import can_be_predicted
from workbench.runs.store import Store


def predict_run(options: argparse.Namespace) -> int:
    """Predict a sweep over prompts, or with batches a batch sweep; returns the exit code."""
    if options.ledger:
        return show_ledger(options)
    planned = _planned(options)
    if not can_be_predicted(planned.resident):
        raise SettingsError(
            f"{planned.model.name} can't be predicted: its layers keep compressed or recurrent states, whose "
            "operations aren't timed. `workbench ceiling` says what this box could do at most."
        )
    if not point_passes(planned):
        check_memory(planned)
    if planned.is_refused:
        note(_refused_words(planned))
    printer = PredictionPrinter()
    experiment = predict(planned, TransformersTimer(), Store, TimedWindow(), renew=options.renew)
    if code := run_foretelling(experiment, printer.show):
        return code
    if printer.foretold is None:
        note("Nothing is predicted here: on an accelerator operations can't be timed one by one yet.")
        return FAILED_EXIT
    if not printer.foretold.points:
        note(
            "Nothing is predicted: of every point one operation alone needs too much of this box's free memory to be "
            "timed. Try shorter prompts, smaller batches or a narrower --dtype."
        )
        return FAILED_EXIT
    with Store() as store:
        ledger = entries(store.predicted_rows(str(this_machine())))
    memory = [_need(planned, at.prompt_tokens, at.batch) for at in printer.foretold.points]
    points = predicted_points(planned.model.name, planned.settings.dtype, printer.foretold, memory)
    printer.end(points, accuracy(ledger), options.format)
    return 0


def _refused_words(planned: LoadPlan) -> str:
    """Of a model that doesn't fit what its predicted times are good for, and what can be measured of it here."""
    settings, layers = planned.settings, layers_that_fit(planned)
    slices = ""
    if layers:
        asked = f"workbench sweep {planned.model.name} --layers {layers} --dtype {settings.dtype}"
        slices = f" Slices of its layers can: `{asked}`."
    return (
        f"{planned.model.name} in {settings.form} needs {planned.need.total / 1e9:.1f} GB and this process may take "
        f"{planned.available / 1e9:.1f} GB: it can't be run here. The times are those of this box with the memory "
        f"for it.{slices}"
    )


def show_ledger(options: argparse.Namespace) -> int:
    """What was predicted beside what was measured, the worst misses first."""
    with Store() as store:
        ledger = entries(store.predicted_rows(str(this_machine())))
    if not ledger:
        note("The ledger is empty: `workbench sweep MODEL` predicts each point before it measures it.")
    print_ledger(worst_first(ledger), options.format)
    return 0


def _planned(options: argparse.Namespace) -> LoadPlan:
    about = {"model": options.model, "dtype": options.dtype, "device": options.device, "threads": options.threads}
    if options.batches is not None:
        contexts = BatchSettings.contexts if options.contexts is None else options.contexts
        return plan_batch(BatchSettings(**about, contexts=contexts, batches=options.batches))
    prompts = SweepSettings.prompts if options.prompts is None else options.prompts
    return plan(SweepSettings(**about, prompts=prompts, new_tokens=options.new_tokens))


def _need(planned: LoadPlan, context: int, batch: int) -> MemoryNeed:
    if isinstance(planned, BatchPlan):
        return planned.need_at(Point(context, batch))
    assert isinstance(planned, Plan), "what is predicted is a sweep over prompts or over batches"
    return run_need(planned.settings, planned.resident, context, planned.settings.new_tokens)
