"""The ledger over the panes: what was predicted beside what was measured, the worst misses first."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from workbench.predictions.ledger import Entry, accuracy
from workbench.ui.widgets.record_table import RecordTable

EMPTY = "No prediction has been measured yet: r on the Setup pane predicts each point, and then measures it."
SHOWN = ("model", "dtype", "phase", "context", "batch", "predicted", "low", "high", "measured", "error")


class LedgerScreen(ModalScreen[None]):
    """How good predictions have been on this box, and each beside its measurement; enter explains a figure."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", show=False)]

    def __init__(self, ledger: Sequence[Entry]) -> None:
        super().__init__()
        self._ledger = sorted(ledger, key=lambda entry: -entry.miss)

    def compose(self) -> ComposeResult:
        """The accuracy of each phase, and the entries."""
        words = "\n".join(map(str, accuracy(self._ledger))) or EMPTY
        with Vertical(classes="panel"):
            yield Static("Predicted against measured", classes="panel-title", markup=False)
            with VerticalScroll(classes="panel-text", can_focus=False):
                yield Static(words, id="ledger-words", markup=False)
                yield RecordTable(id="ledger-entries")
            yield Static("esc close   arrows move   enter explain", classes="panel-keys", markup=False)

    def on_mount(self) -> None:
        """Fill the table."""
        table = self.query_one(RecordTable)
        table.show(self._ledger, SHOWN)
        table.focus()

    def on_resize(self) -> None:
        """Leave room for the title, the keys and the frame."""
        self.query_one(VerticalScroll).styles.max_height = max(3, self.size.height - 6)

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the panes."""
        self.dismiss(result)
