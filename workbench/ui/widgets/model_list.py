"""The models to choose from: presets, and what was found on disk, with what the track says of each."""

from collections.abc import Iterable

from textual.widgets import OptionList
from textual.widgets.option_list import Option

from workbench.tracks import Suited

NAME_WIDTH = 25


class ModelList(OptionList):
    """One model a line; `names` are what it is asked for by, in the order of the lines."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self.names: list[str] = []
        self._about: dict[str, str] = {}
        self._suited: dict[str, str] = {}

    def offer(self, models: Iterable[tuple[str, str]]) -> None:
        """Add models by name, each with a word on what it is; those already there stay as they are."""
        for name, about in models:
            if name not in self._about:
                self.names.append(name)
                self._about[name] = about
                self.add_option(Option(self._line(name)))

    def suit(self, track: str, suited: Iterable[Suited]) -> None:
        """Say of the models of a track whether they fit its memory."""
        words = {True: f"suits {track}", False: f"too big: {track}", None: f"suits {track}"}
        self._suited = {found.model: words[found.fits] for found in suited}
        for index, name in enumerate(self.names):
            self.replace_option_prompt_at_index(index, self._line(name))

    def choose(self, name: str) -> None:
        """Put the cursor on a model, where it is in the list."""
        if name in self.names:
            self.highlighted = self.names.index(name)

    def _line(self, name: str) -> str:
        shown = name if len(name) < NAME_WIDTH else f"…{name[-(NAME_WIDTH - 2) :]}"
        return f"{shown:<{NAME_WIDTH}}{self._suited.get(name) or self._about[name]}"
