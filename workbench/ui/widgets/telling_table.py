"""A table of a run that says, while it is empty, what would fill it."""

from rich.text import Text
from textual.widgets import DataTable

from workbench.ui.widgets.explanation import TextScreen


class TellingTable(DataTable[Text]):
    """A table whose enter is answered where there is nothing under the cursor, too."""

    def action_select_cursor(self) -> None:
        """Select what is under the cursor, or say why there is nothing."""
        if self.row_count:
            super().action_select_cursor()
        else:
            self.app.push_screen(
                TextScreen("There is nothing to explain yet", ["r begins a run; enter then explains its figures."])
            )
