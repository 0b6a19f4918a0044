"""What the command palette offers, by what can be done now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from workbench.ui.panes.runs import RunsPane

if TYPE_CHECKING:
    from workbench.ui.app import WorkbenchApp


def commands(app: WorkbenchApp) -> Iterator[SystemCommand]:
    """The commands of this moment, each with the key that does the same."""
    if app.runner.busy:
        yield SystemCommand("Stop", "Stop the run; its rows are kept (x)", app.action_stop)
    else:
        yield SystemCommand("Run", "Run the sweep of the Setup pane, or what this pane is set to (r)", app.action_run)
        yield SystemCommand("Probe", "Measure this box itself, about a minute (p)", app.action_probe)
        yield SystemCommand(
            "Probe quickly", "Measure it in seconds: fewer kernels, one dtype", partial(app.action_probe, True)
        )
        about = "Vary the prompt, then the sequences, and read the result in words (v on the Gap pane)"
        yield SystemCommand("Perturb", about, app.action_perturb)
    if app.live is not None and app.live.run is not None:
        yield SystemCommand("Export CSV", "Write the rows of the run shown (e)", app.action_export)
        yield SystemCommand(
            "Symptoms", "What the rows of the run shown say, and what acts on it (w)", app.action_symptoms
        )
    yield SystemCommand("Setup", "Choose model and sweep (1)", partial(app.action_pane, "setup"))
    yield SystemCommand("Ceiling", "What arithmetic allows (2)", partial(app.action_pane, "ceiling"))
    yield SystemCommand("Prefill/Decode", "The live sweep (3)", partial(app.action_pane, "prefill_decode"))
    yield SystemCommand("Box", "The box over the last minutes (enter on the strip)", app.action_box)
    yield SystemCommand("Batch", "The live batch sweep (4)", partial(app.action_pane, "batch"))
    yield SystemCommand("Gap", "One pass from its ceiling to its measured time (5)", partial(app.action_pane, "gap"))
    yield SystemCommand("Runs", "Every run kept: open, compare, resume, export (6)", partial(app.action_pane, "runs"))
    if not app.runner.busy:
        about = "Results of llama-bench or llama-batched-bench as runs (i on the Runs pane)"
        yield SystemCommand("Import a file", about, partial(_import, app))
    yield SystemCommand("Help", "Explain this pane (?)", app.action_help)
    yield SystemCommand("Chart markers", "Dots, or ASCII for fonts without them", app.action_markers)
    yield SystemCommand("Log", "Where errors and library output are written", app.action_log)
    yield SystemCommand("Quit", "Leave; rows are kept (q)", partial(app.leave, 0))


def _import(app: WorkbenchApp) -> None:
    app.action_pane("runs")
    app.screen_stack[0].query_one(RunsPane).action_import()
