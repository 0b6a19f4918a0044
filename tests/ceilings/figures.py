"""The models and boxes that the texts compute with, and how a figure is written with a printed figure's digits."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from workbench.ceilings.box import Box
from workbench.models.model import KvKind, KvLayer, Model, ModelKind, Read, TensorGroup
from workbench.models.presets import preset_model
from workbench.quantity import Origin, Quantity, Unit

Figures = Mapping[str, tuple[str, Callable[[], float]]]
"""Figures by what they are: as printed, and computed."""

GB = 1e9
FP16, FP32 = 2, 4

DENSE, MIXTURE, GPT_OSS = "Qwen3-8B", "Qwen3-30B-A3B", "gpt-oss-120b"
MODELS = (DENSE, MIXTURE, GPT_OSS)
_PRESETS = {DENSE: "qwen3-8b-q4_k_m", MIXTURE: "qwen3-30b-a3b-q4_k_m", GPT_OSS: "gpt-oss-120b-mxfp4"}


@cache
def exact(name: str) -> Model:
    """A model of the texts with the bytes of its file's tensor table."""
    return preset_model(_PRESETS[name])


@cache
def small() -> Model:
    """Qwen3-0.6B in float32, which the timed runs load."""
    return preset_model("qwen3-0.6b").in_dtype("float32")


def rounded(name: str) -> Model:
    """A model of the texts with the calculator's own inputs: bytes to a thousandth of a GB."""
    match name:
        case "Qwen3-8B":
            return _calculator(name, shared=4_672, kv=(KvLayer(KvKind.FULL, 73_728),))
        case "Qwen3-30B-A3B":
            return _calculator(name, shared=823, routed=17_553, used=8, kv=(KvLayer(KvKind.FULL, 49_152),))
        case "70B in FP16":
            return _calculator(name, shared=140_000, kv=())
        case _:
            kv = KvLayer(KvKind.FULL, 18_432), KvLayer(KvKind.SLIDING, 18_432, window=128)
            return _calculator(name, shared=1_686, routed=61_073, used=4, kv=kv)


def _calculator(name: str, *, shared: int, kv: tuple[KvLayer, ...], routed: int = 0, used: int = 0) -> Model:
    groups = [TensorGroup("read every token", ("Q4_K",), 1, shared * 1_000_000, Read.ALL)]
    if routed:
        groups.append(TensorGroup("routed experts", ("Q4_K",), 128, routed * 1_000_000, Read.ROUTED))
    return Model(
        name=name,
        source="the calculator's inputs",
        kind=ModelKind.PRESET,
        architecture="",
        quantisation="",
        groups=tuple(groups),
        kv_layers=kv,
        attention_layers=(),
        vocabulary=0,
        hidden=0,
        context_limit=None,
        tied_embeddings=False,
        file_bytes=None,
        experts=128 if routed else 0,
        experts_used=used,
    )


def bandwidth(gb_per_second: float) -> Quantity:
    """B from GB/s."""
    return Quantity("bandwidth", gb_per_second * GB, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B", source="given")


def arithmetic_rate(tflop_per_second: float) -> Quantity:
    """C from TFLOP/s."""
    return Quantity("peak", tflop_per_second * 1e12, Unit.FLOP_PER_SECOND, Origin.VENDOR, "C", source="given")


def memory(gb: float) -> Quantity:
    """M from GB."""
    return Quantity("memory", gb * GB, Unit.BYTES, Origin.VENDOR, "M", source="given")


def box(gb_per_second: float) -> Box:
    """A box of which the bandwidth alone is known."""
    return Box(bandwidth(gb_per_second))


def digits_of(printed: str, value: float) -> str:
    """The value with as many decimals, and thousands separated, as the printed figure has."""
    decimals = len(printed.partition(".")[2])
    return f"{value:,.{decimals}f}"


def cells(table: Mapping[Any, Sequence[str]], columns: Sequence[str] = MODELS) -> list[Any]:
    """A case (column, row, printed) for each cell of a table, named after its column and row; an empty cell is none."""
    return [
        pytest.param(column, row, printed, id=f"{column} at {row:,}" if isinstance(row, int) else f"{column} at {row}")
        for row, figures in table.items()
        for column, printed in zip(columns, figures, strict=True)
        if printed
    ]
