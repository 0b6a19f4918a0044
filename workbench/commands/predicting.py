"""The command that predicts what a run would take, and the ledger of what was predicted before."""

import argparse

from workbench.errors import SettingsError
from workbench.experiments.batch_plan import BatchPlan, plan_batch
from workbench.experiments.foretelling import TransformersTimer, point_passes, predict
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.hardware.machine import this_machine
from workbench.headless import FAILED_EXIT, run_foretelling
from workbench.output import note
from workbench.prediction_output import PredictionPrinter, predicted_points, print_ledger
from workbench.predictions.ledger import accuracy, entries, worst_first
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.runs.store import Store


def predict_run(options: argparse.Namespace) -> int:
    """Predict a sweep over prompts, or with batches a batch sweep; returns the exit code."""
    if options.ledger:
        return show_ledger(options)
    planned = _planned(options)
    if not point_passes(planned):
        raise SettingsError(
            f"{planned.model.name} can't be predicted: its layers keep compressed or recurrent states, whose "
            "operations aren't timed. `workbench ceiling` says what this box could do at most."
        )
    printer = PredictionPrinter()
    experiment = predict(planned, TransformersTimer(), Store, TimedWindow(), renew=options.renew)
    if code := run_foretelling(experiment, printer.show):
        return code
    if printer.foretold is None:
        note("Nothing is predicted here: on an accelerator operations can't be timed one by one yet.")
        return FAILED_EXIT
    with Store() as store:
        ledger = entries(store.predicted_rows(str(this_machine())))
    memory = [_peak(planned, at.prompt_tokens, at.batch) for at in printer.foretold.points]
    points = predicted_points(planned.model.name, planned.settings.dtype, printer.foretold, memory)
    printer.end(points, accuracy(ledger), options.format)
    return 0


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


def _peak(planned: LoadPlan, context: int, batch: int) -> Quantity:
    need = planned.need
    if isinstance(planned, BatchPlan):
        at = next(point for point in planned.points if (point.context, point.batch) == (context, batch))
        need = planned.need_at(at)
    return arithmetic("memory of the process at its peak", need.total, Unit.BYTES, source=planned.model.source)
