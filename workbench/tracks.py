"""Hardware tracks by name, from presets: a device, the models that suit it, and what is measured on it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from workbench import presets as shared
from workbench.ceilings.memory_fit import needed
from workbench.errors import SettingsError, WorkbenchError, unknown_name
from workbench.experiments.engine_plan import run_need
from workbench.experiments.gap.named_variants import variant_named
from workbench.experiments.settings import AutoRepeats, BatchSettings, SweepSettings, check_settings
from workbench.hardware.device import Device
from workbench.hardware.devices import Devices, load_devices
from workbench.hardware.machine import THIS_MACHINE, available_bytes, runs_in_host_memory
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE
from workbench.models.presets import Presets, load_presets, preset_model
from workbench.models.slices import larger_slice
from workbench.presets import Loaded, Ordinal, Preset, Text, find, in_short, mistake, name_key
from workbench.quantity import Origin, Quantity, Unit, arithmetic
from workbench.record import headed
from workbench.runs.measured_device import device_named


class TrackSweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prefill/decode sweep a track starts with; its `levers` are what else is changed of the model as loaded."""

    prompts: tuple[int, ...] = SweepSettings.prompts
    new_tokens: int = SweepSettings.new_tokens
    repeats: int | AutoRepeats = SweepSettings.repeats
    dtype: str = SweepSettings.dtype
    device: str = SweepSettings.device
    threads: int | None = SweepSettings.threads
    levers: tuple[str, ...] = ()


class TrackBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The batch sweep a track starts with: sequences a step, tokens each holds, steps of a pass, and passes."""

    batches: Annotated[tuple[Ordinal, ...], Meta(min_length=1)] = BatchSettings.batches
    contexts: Annotated[tuple[Ordinal, ...], Meta(min_length=1)] = BatchSettings.contexts
    steps: Ordinal = BatchSettings.steps
    repeats: int | AutoRepeats = BatchSettings.repeats


class Track(Preset, frozen=True):
    """Hardware by the name of its device or THIS_MACHINE, and model presets, the first of which it opens with.

    Whether a model fits follows from its bytes and the device's memory, and isn't said here.
    """

    title: Text
    hardware: Text
    models: Annotated[tuple[str, ...], Meta(min_length=1)]
    engine: Literal["transformers"] = "transformers"
    sweep: TrackSweep = TrackSweep()
    batch: TrackBatch = TrackBatch()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tracks:
    """The tracks that could be read, by name in lower case, and a sentence for each file that could not."""

    tracks: Mapping[str, Track]
    problems: tuple[str, ...]


def load_tracks(*folders: Path, devices: Devices | None = None, models: Presets | None = None) -> Tracks:
    """All tracks in `folders` (by default the shipped and the person's own); a later folder wins.

    The devices and models they may name are all that are known, where they aren't given.
    """
    devices, models = devices or load_devices(), models or load_presets()
    loaded = shared.load("tracks", lambda path: read_track(path, devices, models), *folders)
    return Tracks(loaded.by_name, loaded.problems)


def track_settings(track: Track) -> SweepSettings:
    """The sweep a track starts with, on the first of its models; raises SettingsError for a lever that is none."""
    sweep = track.sweep
    return SweepSettings(
        model=track.models[0],
        prompts=sweep.prompts,
        new_tokens=sweep.new_tokens,
        repeats=sweep.repeats,
        dtype=sweep.dtype,
        device=sweep.device,
        threads=sweep.threads,
        variant=variant_named(sweep.levers),
        track=track.name,
    )


def track_batch(track: Track) -> BatchSettings:
    """The batch sweep a track starts with, on the first of its models; raises SettingsError as `track_settings`."""
    return BatchSettings(
        model=track.models[0],
        contexts=track.batch.contexts,
        batches=track.batch.batches,
        steps=track.batch.steps,
        repeats=track.batch.repeats,
        dtype=track.sweep.dtype,
        device=track.sweep.device,
        threads=track.sweep.threads,
        variant=variant_named(track.sweep.levers),
        track=track.name,
    )


@dataclass(frozen=True)
class Suited:
    """A model of a track, and whether weights and one cache fit in the memory of its device."""

    model: str = headed("model")
    context: int = headed("context")
    memory_needed_bytes: Quantity = headed("needs")
    memory_bytes: Quantity | None = headed("of")
    fits: bool | None = headed("fits")


def suited(track: Track, models: Iterable[str] | None = None) -> tuple[Suited, ...]:
    """The models of a track, or the presets named, as they are stored, with a cache of its batch settings' context.

    Raises ModelError for a preset that can't be computed.
    """
    memory, t = device_named(track.hardware).memory, max(track.batch.contexts)
    found = []
    for name in track.models if models is None else models:
        need = needed(preset_model(name), t, CACHE_TYPE_BYTES[DEFAULT_CACHE_TYPE])
        found.append(Suited(name, t, need, memory, None if memory is None else need.value <= memory.value))
    return tuple(found)


def suited_here(settings: SweepSettings, models: Iterable[str]) -> Iterator[Suited]:
    """Model presets as transformers would run this sweep of each here: what it holds against what may still be taken.

    Where an accelerator holds them, whether they fit is known only to torch. Presets that can't be computed are left
    out. Raises SettingsError for a sweep that no model can run.
    """
    check_settings(settings)
    t, M = max(settings.prompts) + settings.new_tokens, available_bytes()
    here = runs_in_host_memory(settings.device)
    source = "the system, within this process's own limits"
    memory = Quantity("memory this process may still take", M, Unit.BYTES, Origin.MEASURED, "M", source=source)
    for name in models:
        with suppress(WorkbenchError):
            resident = larger_slice(settings.held(preset_model(name)), settings.layers)
            need = run_need(settings, resident, max(settings.prompts), settings.new_tokens).total
            needed_bytes = arithmetic("memory a run needs", need, Unit.BYTES, "need")
            yield Suited(name, t, needed_bytes, memory, need <= M if here else None)


def opened_on(name: str | None) -> Track:
    """The track to open on: the one of that name, one made of the device or model named, or this machine's.

    Raises SettingsError with the nearest known name when it is none of them.
    """
    tracks, devices, models = load_tracks(), load_devices(), load_presets()
    here = tracks.tracks.get(THIS_MACHINE) or Track(
        name=THIS_MACHINE, title="This machine", hardware=THIS_MACHINE, models=(SweepSettings.model,)
    )
    if name is None:
        return here
    if (found := track_named(name, tracks)) is not None:
        return found
    key = name_key(name)
    if key in devices.devices:
        device = devices.devices[key]
        return msgspec.structs.replace(here, name=device.name, title=device.title, hardware=device.name)
    if key in models.models:
        return msgspec.structs.replace(here, models=(models.models[key].name, *here.models))
    known = [*tracks.tracks, *devices.devices, *models.models]
    problems = (*tracks.problems, *devices.problems, *models.problems)
    raise SettingsError(" ".join([unknown_name("preset", name, known, shared.LISTER), *in_short(problems, name)]))


def track(name: str, tracks: Tracks | None = None) -> Track:
    """The track `track_named` finds; raises SettingsError with the nearest known name when there is none."""
    tracks = tracks or load_tracks()
    return track_named(name, tracks) or find("track", name, Loaded(tracks.tracks, tracks.problems), SettingsError)


def track_named(name: str, tracks: Tracks) -> Track | None:
    """The track of that name, title or device, whatever the case, with or without the word "track" before it."""
    known = tracks.tracks.values()
    named = {
        **{name_key(track.hardware): track for track in known},
        **{name_key(track.title): track for track in known},
        **tracks.tracks,
    }
    asked = name_key(name)
    return named.get(asked) or named.get(asked.removeprefix("track").strip()) or named.get(asked.replace("-", " "))


def hardware_named(name: str) -> Device:
    """The device of that name, this machine, or the device of the track of that name.

    Raises SettingsError with the nearest known device.
    """
    try:
        return device_named(name)
    except SettingsError:
        found = track_named(name, load_tracks())
        if found is None:
            raise
        return device_named(found.hardware)


def read_track(path: Path, devices: Devices, models: Presets) -> Track:
    """One track from its file.

    Raises SettingsError that names the file and the key for anything mistyped, out of range, or naming a device or
    model that isn't known.
    """
    track = shared.read_preset(path, Track, SettingsError)
    try:
        check_settings(track_settings(track))
    except SettingsError as error:
        raise mistake(path, f"sweep: {error}", SettingsError) from error
    if track.hardware != THIS_MACHINE:
        try:
            find("device", track.hardware, Loaded(devices.devices, devices.problems), SettingsError)
        except SettingsError as error:
            raise mistake(path, f"hardware: {error}", SettingsError) from error
    for model in track.models:
        try:
            find("model preset", model, Loaded(models.models, models.problems), SettingsError)
        except SettingsError as error:
            raise mistake(path, f"models: {error}", SettingsError) from error
    return track
