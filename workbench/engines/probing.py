"""The probe's grid on a device of torch: its cache, its free memory, and how its passes are timed."""

from collections.abc import Callable, Iterator, Sequence

import torch

from workbench.engines.device import choose_device, device_name, free_bytes, free_cached, synchroniser, total_bytes
from workbench.hardware.caches import last_level_cache_bytes
from workbench.hardware.calibration import Cell
from workbench.hardware.machine import available_bytes, this_machine
from workbench.hardware.probe.arrays import ACCELERATOR_BYTES, LEAST_BYTES, array_bytes
from workbench.hardware.probe.grid import QUICK_ROWS, ROWS, Grid
from workbench.hardware.probe.timers import timer_for


def open_grid(device: str, quick: bool, threads: Sequence[int], check: Callable[[], None]) -> "DeviceGrid":
    """The grid on the device named, which calls `check` before each pass; raises SettingsError where none is there."""
    return DeviceGrid(choose_device(device), quick, threads, check)


class DeviceGrid:
    """A grid with its array on one device; every method is called in the thread that measures."""

    def __init__(self, device: torch.device, quick: bool, threads: Sequence[int], check: Callable[[], None]) -> None:
        self.device = device_name(device)
        self.memory_bytes = total_bytes(device) or this_machine().memory_bytes
        self.cache_bytes = _cache_bytes(device)
        free = free_bytes(device)
        least = LEAST_BYTES if device.type == "cpu" else ACCELERATOR_BYTES
        size = array_bytes(self.cache_bytes, available_bytes() if free is None else free, quick, least)
        self._device = device
        self._threads_before = torch.get_num_threads()
        timer = timer_for(device, synchroniser(device))
        self._grid = Grid(device, timer, size, threads, self.cache_bytes, check)

    def reads(self, quick: bool) -> Iterator[Cell]:
        """As `Grid.reads`."""
        return self._grid.reads(quick)

    def read_again(self, first: Cell) -> Cell:
        """As `Grid.read_again`."""
        return self._grid.read_again(first)

    def sizes(self) -> Iterator[Cell]:
        """As `Grid.sizes`."""
        return self._grid.sizes()

    def copy(self) -> Cell:
        """As `Grid.copy`."""
        return self._grid.copy()

    def matrix_vector(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """As `Grid.matrix_vector`."""
        return self._grid.matrix_vector(dtype, shapes, quick)

    def products(self, dtype: str, shapes: Sequence[tuple[int, int]], quick: bool) -> Iterator[Cell]:
        """As `Grid.products`, over few or many counts of rows."""
        return self._grid.products(dtype, shapes, QUICK_ROWS if quick else ROWS)

    def close(self) -> None:
        """Give the memory back, and torch the threads it had."""
        self._grid.close()
        torch.set_num_threads(self._threads_before)
        free_cached(self._device)


def _cache_bytes(device: torch.device) -> int | None:
    """The last-level cache of the processor, or an accelerator's second-level one where torch tells it."""
    if device.type == "cpu":
        return last_level_cache_bytes()
    if device.type in ("cuda", "xpu"):
        found = getattr(getattr(torch, device.type).get_device_properties(device), "L2_cache_size", None)
        return int(found) if found else None
    return None
