"""Linear layers whose weights are held in 8 bits with a scale for each output, and multiplied in bfloat16."""

from collections.abc import Iterable

import torch

from workbench.engines.int8_product import has_int8_product, int8_product

MOST_ROWS = 4
"""Rows up to which the kernel that unpacks as it multiplies is faster than a product with the unpacked matrix."""
LARGEST = 127
BLOCK_ROWS = 4096
FORMATS_MULTIPLE = 32
"""Inputs the kernel's blocks hold: another width is left as it is."""


class Int8Linear(torch.nn.Module):
    """The product of x, rows × inputs, with weights that are scale · int8, outputs × inputs."""

    packed: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: torch.nn.Linear, room: torch.Tensor | None = None) -> None:
        """Pack a layer, into `room` where that is given: int8 of the weight's shape on its device."""
        super().__init__()
        weight = linear.weight.detach()
        packed = torch.empty(weight.shape, dtype=torch.int8, device=weight.device) if room is None else room
        scale = torch.empty(weight.shape[0], dtype=torch.bfloat16, device=weight.device)
        for first in range(0, weight.shape[0], BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            w = weight[rows].float()
            # Rounded to what the kernel holds it in before it divides, so that the rounding is none of the weight's.
            s = (w.abs().amax(1) / LARGEST).clamp_min(1e-12).to(torch.bfloat16)
            scale[rows] = s
            packed[rows] = (w / s.float()[:, None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.bias = linear.bias
        self.has_product = has_int8_product(weight.device)
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """W·x + bias in the dtype of x, which is rounded for the product: to bfloat16, or more finely where it can."""
        flat = x.reshape(-1, self.in_features)
        if flat.shape[0] > MOST_ROWS:
            y = torch.nn.functional.linear(flat.bfloat16(), self.packed.bfloat16()) * self.scale
        elif self.has_product:
            y = int8_product(flat.float(), self.packed, self.scale)
        else:
            y = torch._weight_int8pack_mm(flat.bfloat16(), self.packed, self.scale)
        y = y.to(x.dtype).view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


def fits_int8(linear: torch.nn.Module) -> bool:
    """Whether a module can be held so."""
    return (
        isinstance(linear, torch.nn.Linear)
        and linear.in_features % FORMATS_MULTIPLE == 0
        and linear.out_features % FORMATS_MULTIPLE == 0
    )


def int8_bytes(linears: Iterable[torch.nn.Linear]) -> int:
    """What these hold in 8 bits."""
    return sum(each.weight.numel() + 2 * each.out_features for each in linears)
