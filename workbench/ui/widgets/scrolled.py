"""A screen over the panes that is read: a title, what stands under it however long, and a way back."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from workbench.ui.widgets.overlay import Overlay

FRAME_LINES = 6
"""What the title, the keys and the frame take of the screen's height."""
LEAST_LINES = 3


class ScrolledScreen(Overlay[None]):
    """The panel in the middle of the screen, whose contents scroll when they are longer than it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark", "dismiss", show=False),
        Binding("down", "scroll('down')", show=False),
        Binding("up", "scroll('up')", show=False),
        Binding("pagedown,space", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
        Binding("home", "scroll('home')", show=False),
        Binding("end", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, *, is_error: bool = False) -> None:
        super().__init__(classes="-error" if is_error else None)
        self.title_text = title

    def contents(self) -> Widget:
        """What is read; called once, as the screen is composed."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The title, the contents and the keys."""
        with Vertical(classes="panel"):
            yield Static(self.title_text, classes="panel-title", markup=False)
            with VerticalScroll(classes="panel-text", can_focus=False):
                yield self.contents()
            yield Static("esc close   up, down scroll", classes="panel-keys", markup=False)

    def on_resize(self) -> None:
        """Leave room for what stands around the contents."""
        self.query_one(VerticalScroll).styles.max_height = max(LEAST_LINES, self.size.height - FRAME_LINES)

    def action_scroll(self, way: str) -> None:
        """Scroll the contents."""
        getattr(self.query_one(VerticalScroll), f"scroll_{way}")(animate=False)

    async def action_dismiss(self, result: None = None) -> None:
        """Back to the panes."""
        self.dismiss(result)
