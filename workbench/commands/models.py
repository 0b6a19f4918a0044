"""The commands about what is known beforehand: inspect a model, list and show presets."""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from workbench.ceilings import experts
from workbench.errors import SettingsError, WorkbenchError, unknown_name
from workbench.hardware.device import Device
from workbench.hardware.devices import load_devices
from workbench.models.cache_types import DEFAULT_CACHE_TYPE
from workbench.models.inspection import inspection
from workbench.models.model import Model
from workbench.models.presets import load_presets, model_of
from workbench.models.resolve import resolve
from workbench.output import Format, note, print_json, print_records, print_table
from workbench.presets import in_short, name_key
from workbench.quantity import Quantity
from workbench.record import written
from workbench.runs.measured_device import device_named
from workbench.tracks import Track, load_tracks, suited, track_named

SMALL_SHARE = 0.001
"""Of the reads: what departs from the shortcut by less is left out of the table."""


def inspect(options: argparse.Namespace) -> int:
    """What a model is and what one token reads."""
    _print_inspection(resolve(options.model), options.kv_dtype, options.format)
    return 0


def presets(options: argparse.Namespace) -> int:
    """Every preset, or the one named: a track, a device or a model."""
    if options.name is not None:
        return _show(options.name, options.format)
    tracks, devices, models = load_tracks(), load_devices(), load_presets()
    problems = [*tracks.problems, *devices.problems, *models.problems]
    known: list[Model] = []
    for preset in models.models.values():
        try:
            known.append(model_of(preset))
        except WorkbenchError as error:
            problems.append(str(error))
    for problem in problems:
        note(f"workbench: {problem}")
    listed = {
        "tracks": [_track_line(track) for track in tracks.tracks.values()],
        "hardware": [_device_line(device) for device in devices.devices.values()],
        "models": [_model_line(model) for model in sorted(known, key=lambda model: model.name)],
    }
    match options.format:
        case Format.JSON:
            print_json(listed)
        case Format.CSV:
            print_records(
                [
                    {"kind": kind, "name": line["name"], "title": line.get("title", ""), "source": line["source"]}
                    for kind, lines in listed.items()
                    for line in lines
                ],
                Format.CSV,
            )
        case _:
            for lines in listed.values():
                print_records(lines, Format.TABLE)
                print()
            print("`workbench presets NAME` shows one in full, each figure with its origin and source.")
    return 0


def _show(name: str, chosen: Format) -> int:
    tracks, devices, models = load_tracks(), load_devices(), load_presets()
    key = name_key(name)
    if key in devices.devices:
        _print_device(devices.devices[key], chosen)
    elif key in models.models:
        _print_inspection(model_of(models.models[key]), DEFAULT_CACHE_TYPE, chosen)
    elif (named := track_named(name, tracks)) is not None:
        _print_track(named, chosen)
    else:
        known = [*tracks.tracks, *devices.devices, *models.models]
        problems = (*tracks.problems, *devices.problems, *models.problems)
        raise SettingsError(" ".join([unknown_name("preset", name, known), *in_short(problems, name)]))
    return 0


def _print_track(track: Track, chosen: Format) -> None:
    """The track's device, and which of its models fit in it with the context of its batch settings."""
    device = device_named(track.hardware)
    fitting = suited(track)
    settings = {"sweep": msgspec.structs.asdict(track.sweep), "batch": msgspec.structs.asdict(track.batch)}
    match chosen:
        case Format.JSON:
            described = {"name": track.name, "title": track.title, "engine": track.engine, "notes": track.notes}
            print_json({**described, **settings, "hardware": _device_record(device), "models": fitting})
        case Format.CSV:
            print_records(fitting, Format.CSV)
        case _:
            print(f"Track {track.name} · {track.title} · engine {track.engine}")
            for kind, values in settings.items():
                given = {name.replace("_", " "): _listed(v) for name, v in values.items() if v not in (None, (), [])}
                print(f"{kind}: " + ", ".join(f"{name} {words}" for name, words in given.items()))
            print()
            _print_device(device, Format.TABLE)
            print()
            print_records(fitting, Format.TABLE)
            _print_notes(track.notes)


def _print_device(device: Device, chosen: Format) -> None:
    figures = list(_figures(device))
    match chosen:
        case Format.JSON:
            print_json(_device_record(device))
        case Format.CSV:
            print_records(figures, Format.CSV)
        case _:
            print(f"{device.title} ({device.name})")
            print_records(figures, Format.TABLE, without=("unit",))
            _print_notes(device.notes)


def _device_record(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "title": device.title,
        "figures": list(_figures(device)),
        "notes": list(device.notes),
    }


def _figures(device: Device) -> Iterator[dict[str, Any]]:
    """Each figure of a device with its origin and source."""
    named = {
        "bandwidth": device.bandwidth,
        "memory": device.memory,
        **{f"compute {form}": rate for form, rate in device.compute.items()},
        "measured read": device.measured_read,
    }
    for name, figure in named.items():
        if figure is not None:
            yield {
                "figure": name,
                "value": figure,
                "unit": str(figure.unit),
                "origin": str(figure.origin),
                "source": _source(figure),
            }


def _track_line(track: Track) -> dict[str, Any]:
    """A track with the bandwidth it is about, which is its device's."""
    device = device_named(track.hardware)
    return {
        "name": track.name,
        "title": track.title,
        "hardware": track.hardware,
        "models": len(track.models),
        "bandwidth": device.bandwidth,
        "origin": str(device.bandwidth.origin),
        "source": _source(device.bandwidth),
    }


def _device_line(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "title": device.title,
        "bandwidth": device.bandwidth,
        "origin": str(device.bandwidth.origin),
        "memory": device.memory,
        "source": _source(device.bandwidth),
    }


def _source(figure: Quantity) -> str:
    """Where a figure comes from: of a computed one its formula, and what stands in it."""
    inputs = [f"{i.symbol} = {i.value:,g} {i.name}" for i in figure.inputs]
    return ", ".join([figure.formula, *inputs]) if figure.formula else figure.source


def _model_line(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "architecture": model.architecture,
        "quantisation": model.quantisation,
        "parameters": model.parameters,
        "read_parameters": model.read_parameters,
        "source": model.source,
    }


def _print_inspection(model: Model, kv_dtype: str, chosen: Format) -> None:
    found = inspection(model, kv_dtype)
    figures = {name: value for name, value in found.items() if name not in ("kv", "groups", "notes")}
    figures |= {f"kv.{name}": value for name, value in found["kv"].items()}
    beside = experts.shortcut(model)
    match chosen:
        case Format.JSON:
            print_json({**found, "shortcut": beside})
        case Format.CSV:
            print_records([figures], Format.CSV)
        case _:
            print_table(("figure", ""), [(name, written(value)) for name, value in figures.items()], left=(0, 1))
            print()
            print_records(found["groups"], Format.TABLE)
            print(
                f"\nThe shortcut {beside.shortcut.formula} gives {beside.shortcut}; counted tensor by tensor a token "
                f"reads {beside.counted}."
            )
            apart = [d for d in beside.deviations if abs(d.bytes) > SMALL_SHARE * beside.counted.value]
            print_table(("", "", ""), [(d.group, f"{d.bytes / 1e9:+.3f} GB", d.why) for d in apart], left=(0, 2))
            _print_notes(found["notes"])


def _print_notes(notes: Iterable[str]) -> None:
    for sentence in notes:
        print(f"\n! {sentence}")


def _listed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
