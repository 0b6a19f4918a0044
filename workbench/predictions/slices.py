"""A whole model's time from two slices of it: what each layer costs, and what is paid once."""

from dataclasses import dataclass

from workbench.quantity import Quantity, Unit, arithmetic


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

    def seconds(self, few: float, more: float) -> float:
        """fixed + L·(y_2k − y_k)/k, where fixed = 2·y_k − y_2k; never less than the larger slice took."""
        per_layer = (more - few) / self.layers
        return max(more, few + (self.whole - self.layers) * per_layer)

    def quantity(self, name: str, few: Quantity, more: Quantity) -> Quantity:
        """The same as a figure that carries both slices."""
        layers = arithmetic("layers of the smaller slice", self.layers, Unit.COUNT, "k")
        whole = arithmetic("layers of the model", self.whole, Unit.COUNT, "L")
        value = self.seconds(few.value, more.value)
        formula = "y_k + (L − k)·(y_2k − y_k) / k"
        return arithmetic(name, value, few.unit, formula=formula, inputs=(few, more, whole, layers))
