"""One of a few values, changed with left and right."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class Choice(Widget, can_focus=True):
    """A field that holds one of its options."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space,enter", "turn(1)", "Next", show=False),
        Binding("left", "turn(-1)", "Previous", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
    ]
    value: reactive[str] = reactive("")

    class Changed(Message):
        """Another option was chosen."""

        def __init__(self, choice: "Choice") -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> "Choice":
            """The field it was chosen in."""
            return self.choice

    def __init__(self, options: Sequence[str], value: str, *, id: str) -> None:
        super().__init__(id=id)
        self.options = tuple(options) if value in options else (*options, value)
        self.set_reactive(Choice.value, value)

    def offer(self, options: Sequence[str], value: str) -> None:
        """Hold one of these options from now on; saying so is left to whoever offers them."""
        self.options = tuple(options) if value in options else (*options, value)
        self.value = value

    def render(self) -> str:
        """The value between the arrows that change it."""
        return f"< {self.value} >" if self.has_focus else f"  {self.value}"

    def action_turn(self, by: int) -> None:
        """Choose the next option or the one before."""
        self.value = self.options[(self.options.index(self.value) + by) % len(self.options)]
        self.post_message(self.Changed(self))
