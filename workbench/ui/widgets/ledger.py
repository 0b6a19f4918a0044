"""The ledger over the panes: how predictions have fared by model, dtype and phase, and each beside its measurement."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from workbench.predictions.ledger import Accuracy, Entry, accuracy, accuracy_by_model, worst_first
from workbench.ui.widgets.overlay import Overlay
from workbench.ui.widgets.record_table import RecordTable

EMPTY = (
    "No prediction has been measured on a quiet box yet: r on the Setup pane predicts each point, and then measures "
    "it. Rows that are judged disturbed or drifting, or follow from slices, are left out."
)
GROUP_SHOWN = ("model", "dtype", "phase", "count", "median_miss", "worst_miss", "inside")
MODEL_WIDTH = 19
ENTRY_SHOWN = ("context", "batch", "predicted", "low", "high", "measured", "error", "inside")


class LedgerScreen(Overlay[None]):
    """Groups with the worst miss first, under them the entries of the one under the cursor; enter explains a figure."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", show=False)]

    def __init__(self, ledger: Sequence[Entry]) -> None:
        super().__init__()
        self._ledger = worst_first(ledger)

    def compose(self) -> ComposeResult:
        """The accuracy of each phase, the groups, and the entries of one."""
        words = "\n".join(map(str, accuracy(self._ledger))) or EMPTY
        with Vertical(classes="panel", id="ledger-panel"):
            yield Static("Predicted against measured", classes="panel-title", markup=False)
            yield Static(words, id="ledger-words", markup=False)
            yield RecordTable(id="ledger-groups")
            yield Static("", id="ledger-of", markup=False)
            yield RecordTable(id="ledger-entries")
            yield Static("esc close   arrows choose a group   tab entries   enter explain", classes="panel-keys")

    def on_mount(self) -> None:
        """Fill the groups; the first is chosen."""
        groups = self._groups
        groups.show(accuracy_by_model(self._ledger), GROUP_SHOWN, widest=MODEL_WIDTH)
        groups.focus()
        self._show_entries()

    @property
    def _groups(self) -> RecordTable:
        return self.query_one("#ledger-groups", RecordTable)

    @on(DataTable.CellHighlighted, "#ledger-groups")
    def _show_entries(self) -> None:
        """The entries of the group under the cursor."""
        chosen = self._groups.selected
        if not isinstance(chosen, Accuracy):
            return
        heading = f"{chosen.model}, {chosen.dtype}, {chosen.phase}: ms, the worst miss first"
        self.query_one("#ledger-of", Static).update(heading)
        entries = [entry for entry in self._ledger if chosen.of(entry)]
        self.query_one("#ledger-entries", RecordTable).show(entries, ENTRY_SHOWN)

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the panes."""
        self.dismiss(result)
