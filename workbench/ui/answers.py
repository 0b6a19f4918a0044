"""What was looked up in a thread, handed to the widget that asked for it."""

from collections.abc import Callable
from typing import ParamSpec

from textual.widget import Widget

Answer = ParamSpec("Answer")


def hand_over(widget: Widget, take: Callable[Answer, None], *answer: Answer.args, **named: Answer.kwargs) -> None:
    """From a thread: let `widget` take an answer in the app's own thread, unless the app is leaving by then.

    An app that leaves takes the widgets of a pane out before the pane itself, which then finds nothing to write in.
    """

    def taken() -> None:
        if widget.app.is_running and widget.is_attached:
            take(*answer, **named)

    widget.app.call_from_thread(taken)
