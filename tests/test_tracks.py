"""Tracks from presets: what they name exists, how they are asked for, and a person's own files."""

from dataclasses import replace
from pathlib import Path

import pytest

from workbench.errors import SettingsError
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings, check_settings
from workbench.hardware.devices import Devices, load_devices
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.presets import Presets, load_presets
from workbench.presets import preset_folders
from workbench.tracks import Tracks, load_tracks, read_track, suited_here, track

GGUF = {"qwen3-8b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "gpt-oss-120b-mxfp4"}
HARDWARE = {
    "S": ("dgx-spark", 273),
    "X": ("ryzen-ai-max-395", 256),
    "M": ("mac-studio-m4-max", 546),
    "N": ("rtx-5090", 1792),
}


@pytest.fixture(scope="module")
def devices() -> Devices:
    return load_devices(preset_folders("hardware")[0])


@pytest.fixture(scope="module")
def models() -> Presets:
    return load_presets(preset_folders("models")[0])


@pytest.fixture(scope="module")
def shipped(devices: Devices, models: Presets) -> Tracks:
    return load_tracks(preset_folders("tracks")[0], devices=devices, models=models)


def test_every_shipped_track_is_expected_and_loads(shipped: Tracks) -> None:
    assert shipped.problems == ()
    assert {each.name for each in shipped.tracks.values()} == {*HARDWARE, THIS_MACHINE}


def test_what_a_track_names_exists(shipped: Tracks, devices: Devices, models: Presets) -> None:
    for each in shipped.tracks.values():
        assert each.hardware == THIS_MACHINE or each.hardware in devices.devices
        assert set(each.models) <= models.models.keys()
        assert len(set(each.models)) == len(each.models)
        assert set(each.models) >= GGUF


@pytest.mark.parametrize(("name", "hardware", "gb_per_s"), [(name, *rest) for name, rest in HARDWARE.items()])
def test_the_four_tracks_and_their_bandwidth(
    shipped: Tracks, devices: Devices, name: str, hardware: str, gb_per_s: float
) -> None:
    found = track(name, shipped)
    assert found.hardware == hardware
    assert devices.devices[hardware].bandwidth.value == gb_per_s * 1e9
    assert found.sweep.dtype == "bfloat16"


def test_this_machine_starts_with_the_settings_of_a_plain_sweep(shipped: Tracks) -> None:
    here, plain = track(THIS_MACHINE, shipped), SweepSettings()
    assert (here.name, here.hardware, here.models[0]) == (plain.track, THIS_MACHINE, plain.model)
    sweep = here.sweep
    assert (sweep.prompts, sweep.new_tokens, sweep.repeats) == (plain.prompts, plain.new_tokens, plain.repeats)
    assert (sweep.dtype, sweep.device) == (plain.dtype, plain.device)


def test_every_track_measures_what_can_be_measured(shipped: Tracks) -> None:
    for each in shipped.tracks.values():
        sweep = each.sweep
        check_settings(SweepSettings(prompts=sweep.prompts, new_tokens=sweep.new_tokens, dtype=sweep.dtype))
        assert (each.batch.batches, each.batch.contexts, each.batch.steps) == ((1, 2, 4, 8, 16, 32), (2, 256), 9)
        assert each.engine == "transformers"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("S", "S"),
        ("s", "S"),
        ("track s", "S"),
        ("Track  S ", "S"),
        ("dgx spark", "S"),
        ("DGX-Spark", "S"),
        ("RTX-5090", "N"),
        ("this machine", THIS_MACHINE),
        ("This Machine", THIS_MACHINE),
    ],
)
def test_a_track_is_found_by_name_title_and_hardware(shipped: Tracks, asked: str, name: str) -> None:
    assert track(asked, shipped).name == name


def test_a_track_that_is_not_known_is_told_with_the_nearest(shipped: Tracks) -> None:
    with pytest.raises(
        SettingsError, match=r"no track named 'this machin'\. Did you mean this machine\?.*Known: M, N, S"
    ):
        track("this machin", shipped)


OWN = """
name = "lab"
title = "The lab's box"
hardware = "rtx-4090"
models = ["qwen3-8b", "Qwen3-0.6B"]
"""


def test_what_a_track_leaves_out_is_the_plain_setting(tmp_path: Path, devices: Devices, models: Presets) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(OWN + "[sweep]\nrepeats = 5\n")
    own = read_track(path, devices, models)
    assert (own.sweep.repeats, own.sweep.prompts) == (5, SweepSettings.prompts)
    assert (own.engine, own.batch.steps, own.notes) == ("transformers", 9, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.replace("rtx-4090", "rtx-4099"), "hardware: There is no device named 'rtx-4099'. Did you mean rtx-4090?"),
        (
            OWN.replace("qwen3-8b", "qwen3-8c"),
            "models: There is no model preset named 'qwen3-8c'. Did you mean qwen3-8b?",
        ),
        (OWN.replace("title", "titel"), "there is no key 'titel'. Did you mean title?"),
        (OWN + "[sweep]\nprompt = [1]", "there is no key 'prompt' in sweep. Did you mean prompts?"),
        (OWN + "[batch]\nbatch = [1]", "there is no key 'batch' in batch. Did you mean batches?"),
        (OWN + "[sweep]\ndtype = 'bfloat15'", "sweep: There is no dtype named 'bfloat15'. Did you mean bfloat16?"),
        (OWN + "[sweep]\ndevice = 'cud'", "sweep: There is no device named 'cud'. Did you mean cuda?"),
        (OWN + "[sweep]\nprompts = []", "sweep: No prompt lengths"),
        (OWN + "[sweep]\nprompts = [0]", "sweep: A prompt length is 0"),
        (OWN + "[sweep]\nnew_tokens = 1", "sweep: The number of new tokens is 1"),
        (OWN + "[batch]\nbatches = [1, 0]", "batch.batches[1] is 0"),
        (OWN + "[batch]\nbatches = []", "batch.batches"),
        (OWN + "[batch]\nsteps = 0", "batch.steps is 0"),
        (OWN.replace('["qwen3-8b", "Qwen3-0.6B"]', "[]"), "models: expected a list of length >= 1"),
        (OWN + "engine = 'vllm'", "engine is 'vllm', which is not known. Known: transformers."),
    ],
)
def test_mistakes_in_a_track_name_the_file_and_the_key(
    tmp_path: Path, devices: Devices, models: Presets, text: str, words: str
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_track(path, devices, models)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_persons_own_track_wins_and_a_broken_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.presets.config_folder", lambda: tmp_path)
    folder = tmp_path / "presets" / "tracks"
    folder.mkdir(parents=True)
    (folder / "lab.toml").write_text(OWN)
    (folder / "mine.toml").write_text(OWN.replace('"lab"', '"s"'))
    (folder / "broken.toml").write_text(OWN.replace("rtx-4090", "abacus"))
    tracks = load_tracks()
    assert track("track lab", tracks).hardware == track("S", tracks).hardware == "rtx-4090"
    assert track("X", tracks).hardware == "ryzen-ai-max-395"
    assert len(tracks.problems) == 1
    assert "broken.toml: hardware: There is no device named 'abacus'" in tracks.problems[0]


def test_models_here_need_what_a_run_of_them_is_planned_with() -> None:
    settings = SweepSettings(prompts=(1, 64), dtype="bfloat16")
    found = {each.model: each for each in suited_here(settings, ("qwen3-0.6b", "llama-3.1-70b"))}
    for name, each in found.items():
        planned = plan(replace(settings, model=name))
        assert each.memory_needed_bytes.value == planned.need.total
        assert each.fits is not planned.is_refused
    assert len(found) == 2
    (elsewhere,) = suited_here(replace(settings, device="cuda"), ("qwen3-0.6b",))
    assert elsewhere.fits is None
