"""A line of text that is edited only after enter, so that single keys stay commands until then."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from workbench.ui.widgets.line_input import LineInput


class Entry(LineInput):
    """A text field: enter begins and keeps an edit, escape undoes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "undo_edit", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]
    editing: reactive[bool] = reactive(False, toggle_class="-editing")

    class EditingChanged(Message):
        """An edit began or ended: single keys are text, or commands again."""

    def __init__(self, value: str, placeholder: str = "", *, id: str) -> None:
        super().__init__(value, placeholder, id=id)
        self._before = value

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Printable keys are text only during an edit."""
        return self.editing and super().check_consume_key(key, character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Editing actions work only during an edit, and escape only then undoes one."""
        if action.startswith(("delete", "cut", "paste", "undo_edit")) and not self.editing:
            return False
        return super().check_action(action, parameters)

    async def _on_key(self, event: events.Key) -> None:
        if not self.editing:
            event.prevent_default()

    async def action_submit(self) -> None:
        """Begin an edit, or keep the one under way."""
        if self.editing:
            self.editing = False
            await super().action_submit()
            return
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
