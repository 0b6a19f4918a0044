"""The app in its process: where libraries print to, every way out, and the exit code."""

import os
import sys

from workbench.engines.engine import load_engine
from workbench.experiments.measured_run import Load
from workbench.experiments.settings import SweepSettings
from workbench.paths import log_file
from workbench.tracks import Track
from workbench.ui.app import WorkbenchApp
from workbench.ui.live_run import mark_interrupted
from workbench.ui.terminal import WayOut, end_process, library_output_to
from workbench.ui.terminal_fit import doubtful_characters

RUNNER_WAIT_S = 1.0


def run_app(settings: SweepSettings, load: Load = load_engine, track: Track | None = None) -> int:
    """Open the app and return its exit code; the process ends here where a layer outlasts the wait.

    `track` is the one opened on, where it is none of the presets' own.
    """
    app = WorkbenchApp(settings, load, track)
    app.doubtful_characters = doubtful_characters(os.environ)
    with library_output_to(log_file()), WayOut(app.leave) as way_out:
        app.way_out = way_out.begin  # type: ignore[method-assign]
        app.run(mouse=False)
        code = app.return_code or app.return_value or 0
        way_out.begin(code)
        ended = app.runner.wait(RUNNER_WAIT_S)
        if not ended:
            mark_interrupted(app.live)
    if app.return_code and not app.return_value:
        print(
            f"workbench: the app ended on an unexpected error. Rows measured so far are in the store; "
            f"the details are in {log_file()}: please report them.",
            file=sys.stderr,
        )
    if not ended:
        end_process(code)
    return code
