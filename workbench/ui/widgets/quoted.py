"""How good the box's predictions have been, quoted where a run's are shown."""

from collections.abc import Sequence

from workbench.errors import StoreError
from workbench.hardware.machine import this_machine
from workbench.predictions.ledger import accuracy, accuracy_by_model, entries, quoted, quoted_briefly
from workbench.runs.store import Store
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.explained import Explained

TITLE = "Predictions so far, on the machine of this run"


class Quoted(Explained):
    """One line over a run that was predicted, none over another; enter shows the same by model, dtype and phase."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.add_class("quoted")
        self.lines: Sequence[str] = ()
        self._shown: tuple[str, bool] | None = None

    def follow(self, live: LiveRun) -> None:
        """Read the ledger as a run is foretold, and once more when it is over: not while it is measured."""
        this = (live.run.run_id, live.over) if live.run is not None and live.was_foretold else None
        if this == self._shown:
            return
        self._shown = this
        self.set_class(this is not None, "-known")
        if live.run is None or this is None:
            self.lines = ()
            self.show("")
            return
        try:
            with Store() as store:
                ledger = entries(store.predicted_rows(live.run.machine or str(this_machine())))
        except StoreError:
            # What failed the store is told where the run's own rows are kept.
            self.lines = ()
            self.set_class(False, "-known")
            return
        phases = accuracy(ledger)
        self.lines = tuple(map(str, phases)) or (quoted(phases),)
        whole = quoted(phases)
        text = whole if len(whole) <= self.app.size.width - 2 else quoted_briefly(phases)
        self.show(text, TITLE, (*self.lines, "", *map(str, accuracy_by_model(ledger))))
