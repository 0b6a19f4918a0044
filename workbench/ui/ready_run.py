"""Runs ready to start: the settings that panes or the store have for one, checked, with its experiment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.errors import SettingsError
from workbench.experiments.batch import batch_sweep
from workbench.experiments.gap.fresh import is_fresh
from workbench.experiments.gap.gap import gap
from workbench.experiments.gap.perturbation import perturbation, perturbations
from workbench.experiments.measured_run import Load
from workbench.experiments.plan import check_before_loading
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings, SweepSettings, check_settings
from workbench.experiments.sittings import earlier_sittings
from workbench.experiments.window import TimedWindow
from workbench.runner import Experiment
from workbench.runs.row import Row
from workbench.runs.store import Store
from workbench.ui.frame import Frame
from workbench.ui.live_run import LiveRun
from workbench.ui.panes.setup import SetupPane


@dataclass(frozen=True)
class ReadyRun:
    """What is measured, the pane that shows it, and the rows of its earlier sittings."""

    settings: RunSettings
    pane: str
    experiment: Experiment
    earlier: Sequence[Row] = ()


def run_in_sight(frame: Frame, load: Load, window: TimedWindow) -> ReadyRun:
    """What the Batch or Gap pane is set to while it is in sight, else the sweep of Setup; raises WorkbenchError."""
    match frame.pane:
        case "batch":
            return batch_of(frame.batch_pane.settings(frame.setup_pane.settings()), load, window)
        case "gap":
            return gap_of(frame.gap_pane.settings(frame.setup_pane.settings()), load, window)
        case _:
            return sweep_of(frame.setup_pane, load, window)


def sweep_of(setup: SetupPane, load: Load, window: TimedWindow) -> ReadyRun:
    """The sweep of the Setup pane; raises WorkbenchError with what forbids it."""
    settings = setup.settings()
    if problem := setup.problem_of(settings):
        raise SettingsError(problem)
    planned = setup.planned_for(settings)
    if planned is not None:
        check_before_loading(planned)
    else:
        # Bad input is told at once; what only the files can tell, the run does when it has read them.
        check_settings(settings)
    return ReadyRun(settings, "prefill_decode", sweep(settings, load, window))


def batch_of(settings: BatchSettings, load: Load, window: TimedWindow) -> ReadyRun:
    """A batch sweep; raises SettingsError where it can't be run."""
    check_settings(settings)
    return ReadyRun(settings, "batch", batch_sweep(settings, load, window))


def gap_of(settings: GapSettings, load: Load, window: TimedWindow, before: LiveRun | None = None) -> ReadyRun:
    """A ladder, and the levers it is to try; raises SettingsError where it can't be run.

    The ladder of the run `before`, of the same pass, is taken where it is fresh, with the row that was measured.
    """
    check_settings(settings)
    if before is None or before.ladder is None or before.run is None or not is_fresh(before.ladder, before.run):
        return ReadyRun(settings, "gap", gap(settings, load, window))
    known = replace(before.ladder, levers=(), fastest=None)
    return ReadyRun(settings, "gap", gap(settings, load, window, known), tuple(before.rows))


def perturbation_of(frame: Frame, load: Load, window: TimedWindow) -> ReadyRun:
    """A sweep of prompts and then one of sequences, at the Gap pane's context; raises SettingsError."""
    chosen = frame.gap_pane.settings(frame.setup_pane.settings())
    prompts, sequences = perturbations(chosen, chosen.context)
    for each in (prompts, sequences):
        check_settings(each)
    return ReadyRun(prompts, "prefill_decode", perturbation(prompts, sequences, load, window))


def rest_of(run_id: str, load: Load, window: TimedWindow) -> ReadyRun:
    """What is missing of a kept run; raises WorkbenchError where it can't be resumed."""
    with Store() as store:
        earlier = earlier_sittings(store, run_id)
    check_settings(earlier.settings)
    match earlier.settings:
        case SweepSettings() as settings:
            return ReadyRun(settings, "prefill_decode", sweep(settings, load, window, earlier), earlier.rows)
        case BatchSettings() as settings:
            return ReadyRun(settings, "batch", batch_sweep(settings, load, window, earlier), earlier.rows)
