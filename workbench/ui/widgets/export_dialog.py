"""Where to write the CSV, asked until it could be written or the user gives up."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from workbench.errors import StoreError
from workbench.ui.widgets.line_input import LineInput
from workbench.ui.widgets.overlay import Overlay


class ExportDialog(Overlay[Path | None]):
    """A path, `write` called on it, and the reason when it refuses."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    def __init__(self, path: str, write: Callable[[Path], Path]) -> None:
        super().__init__()
        self._path = path
        self._write = write

    def compose(self) -> ComposeResult:
        """The path to edit, and room for what is wrong with it."""
        with Vertical(classes="panel"):
            yield Static("Export the run as CSV to", classes="panel-title", markup=False)
            yield LineInput(self._path, id="export-path")
            yield Static("", id="export-problem", markup=False)
            yield Static("enter write   esc cancel", classes="panel-keys", markup=False)

    @on(Input.Submitted)
    def _try(self, event: Input.Submitted) -> None:
        try:
            written = self._write(Path(event.value.strip()))
        except StoreError as error:
            self.query_one("#export-problem", Static).update(str(error))
            return
        self.dismiss(written)

    def action_give_up(self) -> None:
        """Back without a file."""
        self.dismiss(None)
