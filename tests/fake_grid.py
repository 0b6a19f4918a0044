"""Stand-ins for a probe: cells and calibrations with known figures, and a grid that measures nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.hardware.calibration import Calibration, Cell, Work
from workbench.hardware.load import Load
from workbench.hardware.machine import this_machine

MB = 1_000_000
CACHE_BYTES = 100 * MB
QUIET = Load(other_share=0.01, stolen_share=0.0, frequency_mhz=2600.0, available_bytes=8_000 * MB, memory_pressure=0.5)
BUSY = replace(QUIET, other_share=0.4, stolen_share=0.08)


def a_cell(gb_s: float = 20.0, **changed: Any) -> Cell:
    """A read of 400 MB by two threads, ten passes of which the best has this rate and each later one is slower."""
    amount = changed.pop("amount", 400.0 * MB)
    passes = changed.pop("passes", 10)
    seconds = tuple(amount / (gb_s * 1e9) * (1 + 0.01 * index) for index in range(passes))
    values: dict[str, Any] = {
        "work": Work.READ,
        "kernel": "sum",
        "dtype": "float32",
        "threads": 2,
        "array_bytes": 400 * MB,
        "amount": amount,
        "seconds": seconds,
    }
    return Cell(**{**values, **changed})


def a_product(gflop_s: float, rows: int, dtype: str = "float32") -> Cell:
    return a_cell(gflop_s, work=Work.GEMM, kernel="matrix product", rows=rows, dtype=dtype, passes=3, shape="4×4")


def a_calibration(*cells: Cell, **changed: Any) -> Calibration:
    """A whole, quiet one of this machine's processor."""
    values: dict[str, Any] = {
        "calibration_id": "20260101-000000-cccc",
        "taken_at": "2026-01-01T00:00:00Z",
        "machine": str(this_machine()),
        "device": "cpu",
        "quick": False,
        "complete": True,
        "model": "qwen3-0.6b",
        "memory_bytes": 24_000 * MB,
        "last_level_cache_bytes": CACHE_BYTES,
        "instructions": ("AVX2",),
        "cells": cells or (a_cell(),),
        "load": QUIET,
        "load_before": QUIET,
        "load_after": QUIET,
        "drift": 0.01,
    }
    return Calibration(**{**values, **changed})


@dataclass
class FakeGrid:
    """A grid whose every cell is known; `on_cell` is called before each, with how many there were."""

    check: Callable[[], None]
    on_cell: Callable[[int], None] = lambda count: None
    device: str = "cpu"
    memory_bytes: int = 24_000 * MB
    cache_bytes: int | None = CACHE_BYTES
    array_bytes: int = 400 * MB
    again: float = 20.0
    asked: list[str] = field(default_factory=list)
    closed: bool = False
    _count: int = 0

    def reads(self, quick: bool) -> Iterator[Cell]:
        self.asked.append("reads")
        for threads, rate in ((2, 20.0), (1, 11.0)):
            for kernel in ("sum",) if quick else ("sum", "dot product"):
                yield self._cell(a_cell(rate, kernel=kernel, threads=threads, array_bytes=self.array_bytes))

    def read_again(self, first: Cell) -> Cell:
        self.asked.append("again")
        return a_cell(self.again, kernel=first.kernel, threads=first.threads)

    def sizes(self) -> Iterator[Cell]:
        self.asked.append("sizes")
        for size, rate in ((MB, 90.0), (64 * MB, 40.0), (150 * MB, 22.0), (300 * MB, 20.0)):
            yield self._cell(a_cell(rate, work=Work.SIZE, array_bytes=size))

    def copy(self) -> Cell:
        self.asked.append("copy")
        return self._cell(a_cell(30.0, work=Work.COPY, kernel="copy"))

    def matrix_vector(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        self.asked.append(f"matrix-vector {dtype}")
        yield self._cell(a_cell(7.0, work=Work.GEMV, kernel="matrix-vector product", dtype=dtype))

    def products(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        self.asked.append(f"products {dtype}")
        for rows, rate in ((1024, 200.0),) if quick else ((1, 4.0), (8, 30.0), (1024, 200.0)):
            yield self._cell(a_product(rate, rows, dtype))

    def close(self) -> None:
        self.closed = True

    def _cell(self, cell: Cell) -> Cell:
        self.on_cell(self._count)
        self.check()
        self._count += 1
        return cell
