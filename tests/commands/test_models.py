"""The commands about what is known beforehand: inspect and presets, and the preset the app opens on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.conftest import Workbench
from tests.models_on_disk import smollm2_gguf
from workbench.errors import SettingsError
from workbench.tracks import opened_on

OwnPresets = Callable[[str, str, str], Path]
INSPECT_KEYS = [
    "model",
    "source",
    "architecture",
    "parameters",
    "read_parameters",
    "file_bytes",
    "resident_bytes",
    "read_bytes_per_token",
    "shared_read_bytes",
    "routed_expert_bytes",
    "experts",
    "experts_used",
    "tied_embeddings",
    "kv",
    "groups",
]
KV_KEYS = ["dtype", "bytes_per_token", "full_bytes_per_token", "windowed_bytes_per_token", "window", "constant_bytes"]
MIXTURE = "qwen3-30b-a3b-q4_k_m"
OWN_TRACK = 'name = "lab"\ntitle = "The lab\'s box"\nhardware = "rtx-4090"\nmodels = ["qwen3-8b", "qwen3-32b"]\n'


def test_inspect_has_the_keys_scripts_rely_on(workbench: Workbench) -> None:
    found = workbench("inspect", MIXTURE, "--format", "json").json
    assert [key for key in found if key in INSPECT_KEYS] == INSPECT_KEYS
    assert [key for key in found["kv"] if key in KV_KEYS] == KV_KEYS
    whole = {key for key in INSPECT_KEYS if key.endswith("bytes") or "parameters" in key or "experts" in key}
    assert {type(found[key]) for key in whole} == {int}
    assert found["tied_embeddings"] is False
    assert found["kv"]["bytes_per_token"] == 98_304
    assert found["kv"]["window"] is None
    for group in found["groups"]:
        assert set(group) >= {"name", "types", "parameters", "bytes", "read"}
        assert group["read"] in ("all", "one row", "K of N", "none")
    assert sum(group["bytes"] for group in found["groups"]) == found["resident_bytes"]


def test_inspect_as_csv_is_one_line_with_the_same_names(workbench: Workbench) -> None:
    (line,) = workbench("inspect", MIXTURE, "--format", "csv").csv
    assert set(line) >= {*INSPECT_KEYS, *(f"kv.{key}" for key in KV_KEYS)} - {"kv", "groups"}
    assert (line["read_bytes_per_token"], line["tied_embeddings"], line["kv.window"]) == ("1919597696", "false", "")
    assert line["kv.layers"] == "48 full"


@pytest.mark.parametrize("model", [MIXTURE, "smollm2-135m", "gpt-oss-120b"])
def test_inspect_as_a_table(workbench: Workbench, model: str) -> None:
    """smollm2-135m has one type throughout, so that nothing departs from the shortcut."""
    ended = workbench("inspect", model)
    assert (ended.code, ended.err) == (0, "")
    assert ended.line("model")[1] == model
    assert "counted tensor by tensor a token reads" in ended.out


def test_inspect_a_file(workbench: Workbench) -> None:
    ended = workbench("inspect", smollm2_gguf())
    assert ended.line("parameters")[1] == "134,515,008"
    assert ended.line("attention projections")[1] == "Q4_1"


def test_presets_lists_tracks_hardware_and_models_with_sources(workbench: Workbench) -> None:
    listed = workbench("presets", "--format", "json").json
    assert list(listed) == ["tracks", "hardware", "models"]
    assert {line["name"] for line in listed["tracks"]} == {"S", "X", "M", "N", "this machine"}
    assert {"dgx-spark", "rtx-3060-12gb"} <= {line["name"] for line in listed["hardware"]}
    assert {"smollm2-135m", MIXTURE} <= {line["name"] for line in listed["models"]}
    assert all(line["source"] for lines in listed.values() for line in lines)
    assert all(line["origin"] for kind in ("tracks", "hardware") for line in listed[kind])
    lines = workbench("presets", "--format", "csv").csv
    assert [line["name"] for line in lines] == [line["name"] for lines in listed.values() for line in lines]
    table = workbench("presets")
    assert table.err == ""
    assert table.line("S ")[:6] == ["S", "DGX Spark", "dgx-spark", "9", "273 GB/s", "vendor"]


def test_a_board_shows_how_its_bandwidth_follows(workbench: Workbench) -> None:
    cells = workbench("presets", "ddr5-5600-2ch").line("bandwidth")
    assert cells[1:3] == ["89.6 GB/s", "arithmetic"]
    assert "c = 2 memory channels" in cells[3]


@pytest.mark.parametrize("name", ["S", "track s", "DGX Spark"])
def test_a_track_in_full(workbench: Workbench, name: str) -> None:
    found = workbench("presets", name, "--format", "json").json
    assert (found["name"], found["hardware"]["name"]) == ("S", "dgx-spark")
    assert [model["fits"] for model in found["models"]] == [True] * len(found["models"])
    lines = workbench("presets", name, "--format", "csv").csv
    assert [line["model"] for line in lines] == [model["model"] for model in found["models"]]
    table = workbench("presets", name)
    assert table.out.startswith("Track S · DGX Spark")
    assert table.line("gpt-oss-120b-mxfp4")[-1] == "yes"


def test_a_track_says_what_does_not_fit(workbench: Workbench) -> None:
    fits = {model["model"]: model["fits"] for model in workbench("presets", "N", "--format", "json").json["models"]}
    assert fits[MIXTURE] is True
    assert fits["gpt-oss-120b-mxfp4"] is False


def test_a_device_in_full(workbench: Workbench) -> None:
    found = workbench("presets", "RTX-4090", "--format", "json").json
    bandwidth = found["figures"][0]
    assert (found["name"], bandwidth["figure"], bandwidth["value"], bandwidth["unit"]) == (
        "rtx-4090", "bandwidth", 1008e9, "bytes/s",
    )  # fmt: skip
    lines = workbench("presets", "rtx-4090", "--format", "csv").csv
    assert [line["figure"] for line in lines] == [figure["figure"] for figure in found["figures"]]
    assert all(line["origin"] and line["source"] for line in lines)
    assert workbench("presets", " rtx-4090 ").line("memory")[1] == "24.0 GB"


def test_a_model_in_full_is_inspected(workbench: Workbench) -> None:
    for chosen in ("table", "json", "csv"):
        shown = workbench("presets", MIXTURE.upper(), "--format", chosen)
        assert shown == workbench("inspect", MIXTURE, "--format", chosen)


def test_a_persons_own_track_is_listed_with_its_devices_source(workbench: Workbench, own_presets: OwnPresets) -> None:
    own_presets("tracks", "lab.toml", OWN_TRACK)
    ended = workbench("presets")
    assert ended.err == ""
    assert ended.line("lab")[:6] == ["lab", "The lab's box", "rtx-4090", "2", "1,008 GB/s", "vendor"]
    assert workbench("presets", "LAB").line("qwen3-32b")[-1] == "no"


def test_broken_presets_are_told_and_the_rest_still_load(workbench: Workbench, own_presets: OwnPresets) -> None:
    broken = [
        own_presets("hardware", "card.toml", 'name = "card"\ntitel = "A card"\n'),
        own_presets("tracks", "far.toml", OWN_TRACK.replace("rtx-4090", "rtx-4099")),
        own_presets("models", "odd.toml", "name = \n"),
    ]
    own_presets("tracks", "lab.toml", OWN_TRACK)
    ended = workbench("presets", "--format", "json")
    assert ended.code == 0
    assert "lab" in {line["name"] for line in ended.json["tracks"]}
    told = ended.err.splitlines()
    assert len(told) == 3
    assert all(any(str(path) in line for line in told) for path in broken)
    assert "Did you mean title?" in ended.err
    assert "no device named 'rtx-4099'. Did you mean rtx-4090?" in ended.err
    missing = workbench("presets", "card")
    assert missing.code == 2
    assert str(broken[0]) in missing.err


def test_the_app_opens_on_a_track_a_device_or_a_model() -> None:
    assert opened_on(None).name == "this machine"
    assert opened_on("track n").hardware == "rtx-5090"
    device = opened_on("H100-SXM")
    assert (device.name, device.title, device.hardware) == ("h100-sxm", "NVIDIA H100 SXM", "h100-sxm")
    model = opened_on("Qwen3-32B")
    assert (model.name, model.models[0]) == ("this machine", "qwen3-32b")
    with pytest.raises(SettingsError, match=r"no preset named 'qwen3-33b'\. Did you mean qwen3-32b\?"):
        opened_on("qwen3-33b")


def test_the_app_opens_on_a_persons_own(own_presets: OwnPresets) -> None:
    own_presets("tracks", "lab.toml", OWN_TRACK)
    own_presets("tracks", "mine.toml", OWN_TRACK.replace('"lab"', '"S"'))
    assert opened_on("Lab").models == ("qwen3-8b", "qwen3-32b")
    assert opened_on("s").hardware == "rtx-4090"
