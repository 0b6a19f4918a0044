"""What engines that only time have in common: a model whose weights and passes can't be looked into from here."""

from typing import NoReturn

from workbench.engines.engine import PointError
from workbench.experiments.gap.floors import SlowMemory
from workbench.models.model import Model

MOST_BYTES = 1 << 60


class TimedOnly:
    """A model that runs elsewhere: its pass can't be taken apart, nor run otherwise; what memory it has isn't known."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def free_bytes(self) -> int:
        """More than any point needs: a server refuses what it can't hold."""
        return MOST_BYTES

    def slow_memory(self) -> SlowMemory | None:
        """Not known."""
        return None

    def dissect(self, *_: object, **__: object) -> NoReturn:
        """Raises PointError."""
        raise PointError(
            "this engine's pass can't be taken apart; `workbench gap --run RUN` reads a ladder from its rows"
        )

    def variant(self, *_: object, **__: object) -> NoReturn:
        """Raises PointError."""
        raise PointError("this engine's model can't be run otherwise; set it with the engine's own options")
