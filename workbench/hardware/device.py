"""A device as its maker and others print it: how fast it reads memory, how much it has, how much it multiplies."""

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.quantity import Quantity

FULL_WIDTH = ("float32", "f32", "fp32")
"""What the types of 32-bit weights are called, by torch, GGUF files and here."""


@dataclass(frozen=True)
class Device:
    """A device by name; every figure carries its origin and its source.

    `bandwidth` is B in bytes/s; `memory` M in bytes, None where it depends on what is fitted; `compute` C in FLOP/s by
    number format (fp32, fp16, fp8, int8, fp4), dense and with sums kept in 32 bits, where fp16 stands for bfloat16
    too; `measured_read` a rate in bytes/s at which somebody saw it read.
    """

    name: str
    title: str
    bandwidth: Quantity
    memory: Quantity | None
    compute: Mapping[str, Quantity]
    measured_read: Quantity | None = None
    notes: tuple[str, ...] = ()

    def compute_for(self, dtype: str) -> Quantity | None:
        """The rate in FLOP/s at which weights of a type are multiplied; None where none is known.

        A rate measured in that very type comes first. Types under 32 bits, the quantised ones among them, are unpacked
        to 16 bits and multiplied at that rate; where it isn't known, at the 32-bit one, which is never higher.
        """
        if (exact := self.compute.get(dtype.lower())) is not None:
            return exact
        full = self.compute.get("fp32")
        return full if dtype.lower() in FULL_WIDTH else self.compute.get("fp16", full)
