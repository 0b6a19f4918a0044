"""Screens over the panes, each of which closes itself and no other.

Textual closes the screen in front, whichever was told to close: of two keys typed at once the second closes another.
And a key that a screen behind left unanswered comes to the one in front, which may not be mounted yet: closed before it
is, it ends the app with an error.
"""

from typing import Any, TypeVar

from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.screen import ModalScreen, Screen

Result = TypeVar("Result")


class Overlay(ModalScreen[Result]):
    """A screen over the panes."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close this screen, where it is the one in front."""
        return super().dismiss(result) if _is_there(self) else AwaitComplete()


class Palette(CommandPalette):
    """Textual's palette of commands."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close the palette, where it is in front."""
        return super().dismiss(result) if _is_there(self) else AwaitComplete()


def _is_there(screen: Screen[Any]) -> bool:
    return screen.is_active and screen.is_mounted
