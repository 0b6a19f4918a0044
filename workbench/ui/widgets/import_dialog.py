"""Which file of another tool's results to import, asked until it could be read or the user gives up."""

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from workbench.errors import WorkbenchError
from workbench.runs.importers.importing import Imported, import_file
from workbench.runs.importers.standing import standing
from workbench.runs.store import Store
from workbench.ui.widgets.line_input import LineInput
from workbench.ui.widgets.overlay import Overlay


class ImportDialog(Overlay[Imported | None]):
    """A path, the model and the hardware its results are of, and the reason when one of them is refused."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    def compose(self) -> ComposeResult:
        """Three lines to fill, and room for what is wrong with them."""
        with Vertical(classes="panel"):
            yield Static("Import results of llama-bench or llama-batched-bench", classes="panel-title", markup=False)
            yield LineInput("", "the file: csv, json, jsonl, md, sql or the batched table", id="import-path")
            yield LineInput("", "its model, for a ceiling: a .gguf file, a folder or a preset", id="import-model")
            yield LineInput("", "its hardware, for a ceiling: a device, a track or this machine", id="import-hardware")
            yield Static("", id="import-problem", markup=False)
            yield Static("enter import   tab next   esc cancel", classes="panel-keys", markup=False)

    @on(Input.Submitted)
    def _try(self, event: Input.Submitted) -> None:
        event.stop()
        path, model, hardware = (self._text(name) for name in ("path", "model", "hardware"))
        if not path:
            self._tell("Name the file first.")
            return
        try:
            under = standing(model or None, hardware or None)
            with Store() as store:
                imported = import_file(store, Path(path), under)
        except WorkbenchError as error:
            self._tell(str(error))
            return
        self.dismiss(imported)

    def _text(self, name: str) -> str:
        return self.query_one(f"#import-{name}", LineInput).value.strip()

    def _tell(self, problem: str) -> None:
        self.query_one("#import-problem", Static).update(problem)

    def action_give_up(self) -> None:
        """Back without a file."""
        self.dismiss(None)
