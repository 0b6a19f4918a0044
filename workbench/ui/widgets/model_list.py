"""The models to choose from: presets, with what memory each needs and whether a track has it, and what is on disk."""

from collections.abc import Iterable

from textual.widgets import OptionList
from textual.widgets.option_list import Option

from workbench.tracks import Suited

NAME_WIDTH, BYTES_WIDTH = 23, 7
FORM_WIDTH = 11
AS_STORED = "as stored"
ON_DISK = "on disk"
FITS = {True: "fits", False: "too big", None: "unknown"}


def heading(form: str) -> str:
    """What stands over the lines, whose bytes are of models in this form."""
    return f"{'model':<{NAME_WIDTH + BYTES_WIDTH - FORM_WIDTH}}{form:>{FORM_WIDTH}} memory"


class ModelList(OptionList):
    """One model a line; `names` are what it is asked for by, in the order of the lines."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self.names: list[str] = []
        self._about: dict[str, str] = {}

    def offer(self, models: Iterable[tuple[str, str]]) -> None:
        """Add models by name, each with a word on what it is; those already there stay as they are."""
        for name, about in models:
            if name not in self._about:
                self.names.append(name)
                self._about[name] = f"{'':>{BYTES_WIDTH}} {about}"
                self.add_option(Option(self._line(name)))

    def suit(self, suited: Iterable[Suited]) -> None:
        """Say what memory models need, and whether a track has it."""
        for found in suited:
            if found.model in self._about:
                self._about[found.model] = f"{found.memory_needed_bytes!s:>{BYTES_WIDTH}} {FITS[found.fits]}"
                self.replace_option_prompt_at_index(self.names.index(found.model), self._line(found.model))

    def choose(self, name: str) -> None:
        """Put the cursor on a model, where it is in the list."""
        if name in self.names:
            self.highlighted = self.names.index(name)

    def action_cursor_down(self) -> None:
        """Down, and past the last model on to what follows, as in a table."""
        if self.highlighted is None or self.highlighted < self.option_count - 1:
            super().action_cursor_down()
        else:
            self.screen.focus_next()

    def action_cursor_up(self) -> None:
        """Up, and past the first model back to what comes before."""
        if self.highlighted:
            super().action_cursor_up()
        else:
            self.screen.focus_previous()

    def _line(self, name: str) -> str:
        shown = name if len(name) < NAME_WIDTH else f"…{name[-(NAME_WIDTH - 2) :]}"
        return f"{shown:<{NAME_WIDTH}}{self._about[name]}"
