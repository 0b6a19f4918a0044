"""What a box offers a model: the three figures every ceiling rests on."""

from dataclasses import dataclass
from math import isfinite

from workbench.errors import SettingsError
from workbench.hardware.device import Device
from workbench.models.model import Model
from workbench.quantity import Quantity


@dataclass(frozen=True)
class Box:
    """B in bytes/s, C in FLOP/s and M in bytes; C and M are None where they aren't known, and limit nothing then.

    Raises SettingsError for a figure that isn't above 0 and finite.
    """

    B: Quantity
    C: Quantity | None = None
    M: Quantity | None = None

    def __post_init__(self) -> None:
        for figure in (self.B, self.C, self.M):
            if figure is not None and not (isfinite(figure.value) and figure.value > 0):
                raise SettingsError(f"The {figure.name} is {figure}; it must be above 0, and finite.")


def box_of(device: Device, model: Model | None = None) -> Box:
    """A device's figures, C at the width its weights are multiplied in: 16 bit where no model says otherwise."""
    return Box(device.bandwidth, device.compute_for("float16" if model is None else model.main_type), device.memory)
