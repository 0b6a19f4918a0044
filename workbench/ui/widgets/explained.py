"""A line of text that enter explains."""

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from workbench.ui.widgets.explanation import TextScreen


class Explained(Static, can_focus=True):
    """Says something in short; takes the focus, and enter, only while there is something to say."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "explain", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self.can_focus = False
        self._title = ""
        self._lines: tuple[str, ...] = ()

    def show(self, text: str, title: str = "", lines: Iterable[str] = ()) -> None:
        """Say this; `lines` under `title` explain it."""
        self._title, self._lines = title, tuple(lines)
        self.can_focus = bool(self._lines)
        if text != str(self.content):
            self.update(text, layout=False)

    def action_explain(self) -> None:
        """Where it comes from."""
        self.app.push_screen(TextScreen(self._title, self._lines))
