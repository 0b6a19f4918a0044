"""What a box offers a model: the three figures every ceiling rests on."""

from dataclasses import dataclass

from workbench.quantity import Quantity


@dataclass(frozen=True)
class Box:
    """B in bytes/s, C in FLOP/s and M in bytes; C and M are None where they aren't known, and limit nothing then."""

    B: Quantity
    C: Quantity | None = None
    M: Quantity | None = None
