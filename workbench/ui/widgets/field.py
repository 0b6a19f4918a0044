"""A labelled field, and what is read from the text in one."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Static

from workbench.errors import SettingsError

SHOWN = 40
"""Characters of a field's text that are quoted when it holds no number."""


def field(label: str, widget: Widget, classes: str = "") -> ComposeResult:
    """A field's label with its widget beside it; `classes` are of the line that both stand on."""
    with Horizontal(classes=f"field {classes}"):
        yield Static(label, classes="label", markup=False)
        yield widget


def whole_number(text: str, field: str) -> int:
    """The number a field holds; raises SettingsError where it holds none."""
    try:
        return int(text.strip().replace("_", ""))
    except ValueError:
        raise _no_number(text, field, "a whole number") from None


def number(text: str, field: str) -> float:
    """The number a field holds, whole or not; raises SettingsError where it holds none."""
    try:
        return float(text.strip().replace("_", ""))
    except ValueError:
        raise _no_number(text, field, "a number") from None


def whole_numbers(text: str, field: str) -> tuple[int, ...]:
    """The numbers a field holds with commas between them, each once; raises SettingsError where one is none."""
    return tuple(dict.fromkeys(whole_number(part, field) for part in text.split(",") if part.strip()))


def _no_number(text: str, field: str, expected: str) -> SettingsError:
    held = text.strip()
    shown = held if len(held) <= SHOWN else f"{held[:SHOWN]}…"
    return SettingsError(f"{field} holds {shown!r}, which is not {expected}.")
