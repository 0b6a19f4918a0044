"""The app on an engine that is stuck where the first argument says, for tests of leaving it."""

import sys
import time

from tests.fakes import fake_load
from workbench.engines.engine import LoadedModel
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import SweepSettings
from workbench.runner import CancelToken
from workbench.ui.run_app import run_app

STUCK_S = 3600
PLACE = sys.argv[1]


def on_request(prompt: int) -> None:
    if PLACE == "layer" and prompt == 64:
        time.sleep(STUCK_S)


def load(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
    if PLACE == "loading":
        time.sleep(STUCK_S)
    return fake_load(on_request=on_request)(planned, cancel)


if __name__ == "__main__":
    sys.exit(run_app(SweepSettings(model="smollm2-135m", prompts=(1, 64), repeats=1), load))
