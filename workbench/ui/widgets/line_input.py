"""A line of text whose keys take effect in the order they were pressed."""

from textual import events
from textual.widgets import Input


class LineInput(Input):
    """Textual's input without a blinking cursor.

    Textual runs bindings after a key has bubbled to the app: in a burst, as a script or a slow link sends it,
    ctrl+u would clear text typed after it. Here the input's own bindings run at once.
    """

    def __init__(self, value: str, placeholder: str = "", *, id: str) -> None:
        super().__init__(value, placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        # Textual itself goes on to Input's handler, which inserts what is printable.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.stop()
            event.prevent_default()
            await self.app.run_action(binding.action, self)
