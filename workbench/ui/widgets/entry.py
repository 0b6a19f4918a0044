"""A line of text as in a spreadsheet: typing replaces it, enter edits it, escape undoes that."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from workbench.ui.widgets.line_input import LineInput


class Entry(LineInput):
    """A text field: what is typed on it replaces its text, enter edits the text in place and keeps it.

    While it has the focus printable keys are text, so that a name typed there never acts as commands.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "undo_edit", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]
    editing: reactive[bool] = reactive(False, toggle_class="-editing")

    class EditingChanged(Message):
        """An edit began or ended: single keys are text, or commands again."""

    class Kept(Message):
        """An edit was kept with enter."""

    def __init__(self, value: str, placeholder: str = "", *, id: str) -> None:
        super().__init__(value, placeholder, id=id)
        self._before = value

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Printable keys are text here, whether an edit is under way or begins with them."""
        return super().check_consume_key(key, character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Editing actions work only during an edit, and escape only then undoes one."""
        if action.startswith(("delete", "cut", "paste", "undo_edit")) and not self.editing:
            return False
        return super().check_action(action, parameters)

    async def _on_key(self, event: events.Key) -> None:
        if self.editing:
            return
        event.prevent_default()
        if event.is_printable and event.character is not None:
            event.stop()
            self._begin()
            self.value = event.character
            self.cursor_position = len(self.value)

    async def action_submit(self) -> None:
        """Begin an edit, or keep the one under way."""
        if self.editing:
            self.editing = False
            self.cursor_position = 0
            await super().action_submit()
            self.post_message(self.Kept())
            return
        self._begin()

    def _begin(self) -> None:
        self._before = self.value
        self.editing = True
        self.cursor_position = len(self.value)

    def action_undo_edit(self) -> None:
        """Put back what stood here before the edit."""
        self.value = self._before
        self.editing = False

    def watch_editing(self) -> None:
        """Say so: other keys work now."""
        self.post_message(self.EditingChanged())

    def _on_blur(self, event: events.Blur) -> None:
        self.editing = False
