"""Devices known by name, from presets: those people run models on, and boards by their memory channels."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from workbench import presets
from workbench.errors import SettingsError
from workbench.hardware.device import Device
from workbench.presets import Loaded, Ordinal, Positive, Preset, Text, find, mistake, name_key
from workbench.quantity import Origin, Quantity, Unit

GIGA, TERA = 1e9, 1e12
MEBI, GIBI = 2**20, 2**30
CHANNEL_BYTES = 8
"""A channel of memory is 64 bits wide."""


class Sourced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a figure in a file has beside its value: where it came from."""

    origin: Origin
    source: Text


class Rate(Sourced, frozen=True):
    """A rate of reading, in 10^9 bytes a second."""

    gb_per_s: Positive


class Memory(Sourced, frozen=True):
    """An amount of memory in one of three units: 10^9, 2^30 or 2^20 bytes."""

    gb: Positive | None = None
    gib: Positive | None = None
    mib: Positive | None = None


class Compute(Sourced, frozen=True):
    """A dense rate of arithmetic in 10^12 operations a second, two to a multiply-add."""

    tflop_per_s: Positive


class ComputeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rates of arithmetic by number format."""

    fp32: Compute | None = None
    fp16: Compute | None = None
    fp8: Compute | None = None
    int8: Compute | None = None
    fp4: Compute | None = None


class Board(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A board's memory: channels, which are not sticks, and millions of transfers a second on each."""

    channels: Ordinal
    mega_transfers: Positive


class DevicePreset(Preset, frozen=True):
    """A device as its file has it; its bandwidth is either printed, or follows from its board's channels."""

    title: Text
    bandwidth: Rate | None = None
    board: Board | None = None
    memory: Memory | None = None
    compute: ComputeTable = ComputeTable()
    measured_read: Rate | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Devices:
    """The devices that could be read, by name in lower case, and a sentence for each file that could not."""

    devices: Mapping[str, Device]
    problems: tuple[str, ...]


def load_devices(*folders: Path) -> Devices:
    """All devices in `folders` (by default the shipped and the person's own); a later folder wins."""
    loaded = presets.load("hardware", read_device, *folders)
    return Devices(loaded.by_name, loaded.problems)


def device(name: str, devices: Devices | None = None) -> Device:
    """The device named, whatever the case of the name.

    Raises SettingsError with the nearest known name when there is none.
    """
    devices = devices or load_devices()
    # People write RTX 5090 where the preset is rtx-5090.
    dashed = "-".join(name.split())
    asked = dashed if name_key(dashed) in devices.devices else name
    return find("device", asked, Loaded(devices.devices, devices.problems), SettingsError)


def read_device(path: Path) -> Device:
    """One device from its file.

    Raises SettingsError that names the file, the key, and the nearest known key for a mistyped one.
    """
    preset = presets.read_preset(path, DevicePreset, SettingsError)
    return Device(
        name=preset.name,
        title=preset.title,
        bandwidth=_bandwidth(preset, path),
        memory=None if preset.memory is None else _memory(preset.memory, path),
        compute=_compute(preset.compute),
        measured_read=None if preset.measured_read is None else _rate("read rate measured", preset.measured_read),
        notes=preset.notes,
    )


def board(channels: int, mega_transfers: float, source: str = "the board's specification") -> Quantity:
    """B = channels × transfers/s × 8 bytes, in bytes/s: what a board's memory can move.

    Channels are not sticks: four DIMMs on a desktop board are two channels.
    """
    c = Quantity("memory channels", channels, Unit.COUNT, Origin.VENDOR, "c", source=source)
    f = Quantity(
        "millions of transfers a second on each", mega_transfers, Unit.COUNT, Origin.VENDOR, "f", source=source
    )
    return Quantity(
        "memory bandwidth",
        _whole(channels * mega_transfers * 1e6 * CHANNEL_BYTES),
        Unit.BYTES_PER_SECOND,
        Origin.ARITHMETIC,
        "B",
        formula=f"c × f × 10^6 × {CHANNEL_BYTES} bytes",
        inputs=(c, f),
        source=source,
    )


def _bandwidth(preset: DevicePreset, path: Path) -> Quantity:
    if preset.bandwidth is not None and preset.board is None:
        return _rate("memory bandwidth", preset.bandwidth)
    if preset.board is not None and preset.bandwidth is None:
        return board(preset.board.channels, preset.board.mega_transfers, preset.title)
    raise mistake(
        path,
        "bandwidth: give either the table bandwidth, with gb_per_s, or the table board, with channels and "
        "mega_transfers.",
        SettingsError,
    )


def _rate(name: str, rate: Rate) -> Quantity:
    return Quantity(name, _whole(rate.gb_per_s * GIGA), Unit.BYTES_PER_SECOND, rate.origin, "B", source=rate.source)


def _memory(memory: Memory, path: Path) -> Quantity:
    units = ((memory.gb, GIGA), (memory.gib, GIBI), (memory.mib, MEBI))
    given = [amount * unit for amount, unit in units if amount is not None]
    if len(given) != 1:
        raise mistake(path, "memory: give one of gb, gib and mib.", SettingsError)
    return Quantity("memory", _whole(given[0]), Unit.BYTES, memory.origin, "M", source=memory.source)


def _compute(table: ComputeTable) -> dict[str, Quantity]:
    rates: dict[str, Compute | None] = msgspec.structs.asdict(table)
    return {
        number_format: Quantity(
            f"{number_format} arithmetic",
            _whole(rate.tflop_per_s * TERA),
            Unit.FLOP_PER_SECOND,
            rate.origin,
            "C",
            source=rate.source,
        )
        for number_format, rate in rates.items()
        if rate is not None
    }


def _whole(value: float) -> float:
    """A figure in its base unit without what binary fractions add: 66.9 × 10^12 is not 66,900,000,000,000.01."""
    return float(round(value))
