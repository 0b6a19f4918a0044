"""A question before what can't be undone."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from workbench.ui.widgets.overlay import Overlay


class ConfirmScreen(Overlay[bool]):
    """What would be done; only y does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,enter,q", "answer(False)", show=False),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.title_text = title
        self.text = text

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical(classes="panel"):
            yield Static(self.title_text, classes="panel-title", markup=False)
            yield Static(self.text, classes="panel-text", markup=False)
            yield Static("y yes   esc no", classes="panel-keys", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
