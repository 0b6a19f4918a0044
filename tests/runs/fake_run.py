"""A sweep on the fake engine in a process of its own, for tests that kill it.

It tells of each row it has committed, and goes on past a row for each line it is given.
"""

import sys

from tests.fakes import fake_load
from workbench.experiments.events import Event, RowMeasured
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import SweepSettings
from workbench.experiments.sittings import Earlier, earlier_sittings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, Listener, drive
from workbench.runs.store import Store

PROMPTS = tuple(range(1, 101))


def tell(event: Event) -> None:
    """Say which row was committed, and wait to be let on."""
    if isinstance(event, RowMeasured):
        print(event.row.prompt_tokens, flush=True)
        sys.stdin.readline()


def run(store: Store, earlier: Earlier | None, listener: Listener) -> None:
    """The sweep, or what is missing of it."""
    settings = SweepSettings(model="smollm2-135m", prompts=PROMPTS, repeats=1, new_tokens=2)
    drive(sweep(settings, fake_load(), TimedWindow(), earlier), CancelToken(), store, listener)


if __name__ == "__main__":
    with Store() as opened:
        run(opened, earlier_sittings(opened, "last") if sys.argv[1] == "resume" else None, tell)
