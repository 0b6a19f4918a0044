"""Linear layers whose weights are held in 8 bits with a scale for each output: multiplied in bfloat16, or in 8 bits."""

from collections.abc import Iterable

import torch

MOST_ROWS = 4
"""Rows up to which the kernel that unpacks as it multiplies is faster than a product with the unpacked matrix."""
LARGEST = 127
LEAST_SCALE = 1e-12
"""Of a row of zeros, which is divided by it."""
BLOCK_ROWS = 4096
FORMATS_MULTIPLE = 32
"""Inputs the kernel's blocks hold: another width is left as it is."""


class Int8Linear(torch.nn.Module):
    """The product of x, rows × inputs, with weights that are scale · int8, outputs × inputs."""

    packed: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        packed, scale = _rounded(linear.weight.detach(), torch.bfloat16)
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.bias = linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """W·x + bias in the dtype of x, which is rounded to bfloat16 for the product."""
        flat = x.reshape(-1, self.in_features).to(torch.bfloat16)
        if flat.shape[0] <= MOST_ROWS:
            y = torch._weight_int8pack_mm(flat, self.packed, self.scale)
        else:
            y = torch.nn.functional.linear(flat, self.packed.to(torch.bfloat16)) * self.scale
        y = y.to(x.dtype).view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


class Int8Product(torch.nn.Module):
    """The product of x with weights that are scale · int8, where every row of x is rounded to 8 bits as well.

    Raises RuntimeError where torch has no oneDNN for the device of the weights.
    """

    packed: torch.Tensor
    scale: torch.Tensor
    no_offset: torch.Tensor

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
            raise RuntimeError("products in 8 bits are oneDNN's, which torch has on processors only")
        packed, scale = _rounded(weight, torch.float32)
        # In oneDNN's own order: such a tensor can be neither copied nor sliced.
        self.register_buffer("packed", torch.ops.onednn.qlinear_prepack(packed, None))
        self.register_buffer("scale", scale)
        self.register_buffer("no_offset", torch.zeros(weight.shape[0], dtype=torch.int32))
        self.bias = linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """W·x + bias in the dtype of x."""
        flat = x.reshape(-1, self.in_features).float()
        s = (flat.abs().amax(1, keepdim=True) / LARGEST).clamp_min(LEAST_SCALE)
        rounded = (flat / s).round().to(torch.int8)
        y = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, 0),
            *(self.packed, self.scale, self.no_offset),
            *(None, 1.0, 0, torch.float32),
            *("none", [], ""),
        )
        y = (y * s).to(x.dtype).view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


def _rounded(weight: torch.Tensor, scale_dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix, outputs × inputs, as int8 and the scale of each output."""
    packed = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scale = torch.empty(weight.shape[0], dtype=scale_dtype, device=weight.device)
    for first in range(0, weight.shape[0], BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        w = weight[rows].float()
        # Rounded to what the kernel holds it in before it divides, so that the rounding is none of the weight's.
        s = (w.abs().amax(1) / LARGEST).clamp_min(LEAST_SCALE).to(scale_dtype)
        scale[rows] = s
        packed[rows] = (w / s.float()[:, None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
    return packed, scale


def fits_int8(linear: torch.nn.Module) -> bool:
    """Whether a module can be held so."""
    return (
        isinstance(linear, torch.nn.Linear)
        and linear.in_features % FORMATS_MULTIPLE == 0
        and linear.out_features % FORMATS_MULTIPLE == 0
    )


def int8_bytes(linears: Iterable[torch.nn.Linear]) -> int:
    """What these hold in 8 bits, with a scale and an offset of 4 bytes at most for each output."""
    return sum(each.weight.numel() + 8 * each.out_features for each in linears)
