"""The product of few rows with 8-bit weights, compiled for this processor, as an operation that graphs can hold."""

import ctypes
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")
"""No -ffast-math: linking with it would have the whole process flush small numbers to zero."""
WIDE = ("-mprefer-vector-width=512",)
"""Asked of compilers for x86, which otherwise take half the width where they have it."""
COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 30

_operations: Any = torch.library.Library("workbench", "FRAGMENT")  # type: ignore[no-untyped-call]
_operations.define("int8_product(Tensor x, Tensor packed, Tensor scale) -> Tensor")


def int8_product(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """scale · (packed · x), rows × outputs in float32; each row of x is rounded to at most 16 bits.

    `x` is rows × inputs in float32, `packed` outputs × inputs in int8, `scale` a factor for each output in bfloat16.
    Only where `has_int8_product`.
    """
    y: torch.Tensor = torch.ops.workbench.int8_product(x, packed, scale)
    return y


def has_int8_product(device: torch.device) -> bool:
    """Whether the product can be had on a device: on a processor under Linux, with a C compiler."""
    return device.type == "cpu" and _kernel() is not None


@cache
def _kernel() -> Callable[..., None] | None:
    """The compiled product; None where there is no compiler, or it can't compile it."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if sys.platform != "linux" or compiler is None:
        return None
    wide = WIDE if platform.machine() == "x86_64" else ()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "int8_product.so")
        command = [compiler, *FLAGS, *wide, str(SOURCE), "-o", str(library), "-Wl,--as-needed", *_threads_of_torch()]
        try:
            subprocess.run([*command, "-lm"], check=True, capture_output=True, timeout=COMPILE_S)
            found = ctypes.CDLL(str(library)).int8_product
        except (OSError, subprocess.SubprocessError):
            return None
    found.argtypes = [*(4 * [ctypes.c_void_p]), *(3 * [ctypes.c_int64]), ctypes.c_int]
    found.restype = None
    kernel: Callable[..., None] = found
    return kernel


def _threads_of_torch() -> list[str]:
    """The OpenMP that torch brings: with another one beside it, two sets of threads would spin on the same cores."""
    return [str(each) for each in sorted(Path(torch.__file__).with_name("lib").glob("libgomp*.so*"))[:1]]


@torch.library.impl(_operations, "int8_product", "CPU")
def _product(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    kernel = _kernel()
    assert kernel is not None
    x = x.contiguous()
    (rows, inputs), outputs = x.shape, packed.shape[0]
    y = x.new_empty(rows, outputs)
    pointers = packed.data_ptr(), scale.data_ptr(), x.data_ptr(), y.data_ptr()
    kernel(*pointers, rows, outputs, inputs, torch.get_num_threads())
    return y


def _product_shape(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], packed.shape[0])


torch.library.register_fake("workbench::int8_product", _product_shape, lib=_operations)
