"""A whole model's time from two slices of it: what each layer costs, and what is paid once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Slices:
    """Slices of k and 2k layers of a model that has L."""

    layers: int
    whole: int

    @property
    def more(self) -> int:
        """Layers of the larger slice, 2k."""
        return 2 * self.layers

    def __str__(self) -> str:
        return f"slices of {self.layers} and {self.more} of {self.whole} layers"

    def seconds(self, larger: float, later: float) -> float:
        """y_2k + (L − 2k) · l / k: the larger slice, and the layers it lacks as long as its `later` k, which took l."""
        return larger + (self.whole - self.more) * later / self.layers
