"""A process that plays one condition of the selfcheck in the real app, on an engine of known timings."""

import sys
import tempfile
from pathlib import Path

from tests.fakes import fake_load
from workbench.experiments.plan import plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.selfcheck.blocks import SteppedModel
from workbench.experiments.selfcheck.comparison import Condition
from workbench.experiments.selfcheck.selfcheck import SelfcheckSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, Experiment, Runner
from workbench.runs.store import Store
from workbench.ui.selfcheck import in_app


def main(condition: Condition) -> None:
    settings = SelfcheckSettings().sweep
    model = SteppedModel(fake_load()(plan(settings), CancelToken()))
    windows: list[TimedWindow] = []

    def swept(window: TimedWindow) -> Experiment:
        windows.append(window)
        return sweep(settings, lambda _planned, _cancel: model, window)

    with tempfile.TemporaryDirectory() as folder:
        in_app(Runner(lambda: Store(Path(folder) / "runs.sqlite3")), condition, settings, swept, model.hold_with)
    print(f"{condition}: {len(model.taken)} blocks in {len(windows)} app")


if __name__ == "__main__":
    main(Condition(sys.argv[1]))
