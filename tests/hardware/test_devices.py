"""Devices from presets: the figures as printed, where each came from, and a person's own files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.errors import SettingsError
from workbench.hardware.device import Device
from workbench.hardware.devices import Devices, board, device, load_devices, read_device
from workbench.presets import preset_folders
from workbench.quantity import Origin, Quantity, Unit


@pytest.fixture(scope="module")
def shipped() -> Devices:
    return load_devices(preset_folders("hardware")[0])


def figures(device: Device) -> Iterator[Quantity]:
    yield from (device.bandwidth, *device.compute.values())
    yield from (figure for figure in (device.memory, device.measured_read) if figure is not None)


def tera(device: Device) -> dict[str, float]:
    return {number_format: rate.value / 1e12 for number_format, rate in device.compute.items()}


def test_every_shipped_device_loads_and_has_its_name_for_its_file(shipped: Devices) -> None:
    assert shipped.problems == ()
    files = preset_folders("hardware")[0].glob("*.toml")
    assert sorted(shipped.devices) == sorted(path.stem for path in files)
    assert len(shipped.devices) == 77


def test_every_figure_has_its_unit_its_origin_and_a_source(shipped: Devices) -> None:
    for shown in shipped.devices.values():
        assert shown.title
        assert shown.bandwidth.unit is Unit.BYTES_PER_SECOND
        assert shown.bandwidth.symbol == "B"
        for figure in figures(shown):
            assert figure.source, shown.name
            assert figure.value == round(figure.value) > 0
            remembered = "remembered" in figure.source
            assert remembered is (figure.origin is Origin.ASSUMED), (shown.name, figure)
        for rate in shown.compute.values():
            assert (rate.unit, rate.symbol) == (Unit.FLOP_PER_SECOND, "C")
        if shown.memory is not None:
            assert (shown.memory.unit, shown.memory.symbol) == (Unit.BYTES, "M")
        if shown.measured_read is not None:
            assert shown.measured_read.origin is Origin.MEASURED
            assert shown.measured_read.value < shown.bandwidth.value


@pytest.mark.parametrize(
    ("name", "gb_per_s", "gb", "rates"),
    [
        ("dgx-spark", 273, 128, {"fp32": 29.7, "fp16": 125, "fp8": 250, "fp4": 500}),
        ("ryzen-ai-max-395", 256, 128, {"fp32": 29.7, "fp16": 59}),
        ("mac-studio-m4-max", 546, 128, {"fp32": 18, "fp16": 18}),
        ("rtx-5090", 1792, 32, {"fp32": 104.8, "fp16": 209.5, "fp8": 419, "int8": 838, "fp4": 1676}),
        ("rtx-4090", 1008, 24, {"fp32": 82.6, "fp16": 165.2, "fp8": 330.3, "int8": 660.6}),
        ("rtx-5060-ti-8gb", 448, 8, {"fp32": 23.7}),
        ("rtx-5060-ti-16gb", 448, 16, {"fp32": 23.7}),
        ("a100-80gb-sxm", 2039, 80, {"fp32": 19.5, "fp16": 312, "int8": 624}),
        ("h100-sxm", 3350, 80, {"fp32": 66.9, "fp16": 989, "fp8": 1979, "int8": 1979}),
        ("rx-9070-xt", 640, 16, {"fp32": 48.7, "fp16": 195}),
        ("m1-ultra", 819.2, 128, {"fp32": 21}),
        ("raspberry-pi-5", 17.1, 16, {}),
        ("m5-max", 614, None, {}),
    ],
)
def test_golden_figures(
    shipped: Devices, name: str, gb_per_s: float, gb: float | None, rates: dict[str, float]
) -> None:
    found = device(name, shipped)
    assert found.bandwidth.value / 1e9 == gb_per_s
    assert (None if found.memory is None else found.memory.value / 1e9) == gb
    assert tera(found) == rates


def test_what_is_remembered_of_the_tracks_is_assumed(shipped: Devices) -> None:
    remembered = {
        "dgx-spark": {"fp16", "fp8"},
        "ryzen-ai-max-395": {"fp32", "fp16"},
        "mac-studio-m4-max": {"fp32", "fp16"},
        "rtx-5090": {"fp16", "fp8"},
    }
    for name, formats in remembered.items():
        rates = device(name, shipped).compute
        assert {f for f, rate in rates.items() if rate.origin is Origin.ASSUMED} == formats
        assert device(name, shipped).bandwidth.origin is Origin.VENDOR


@pytest.mark.parametrize(
    ("name", "read"),
    [("dgx-spark", 214), ("rtx-5090", 1628), ("rtx-3090", 854.2), ("m1-max", 332), ("jetson-thor-t5000", 257)],
)
def test_read_rates_that_were_measured(shipped: Devices, name: str, read: float) -> None:
    measured = device(name, shipped).measured_read
    assert measured is not None
    assert measured.value == read * 1e9


def test_int8_is_never_taken_from_fp8(shipped: Devices) -> None:
    assert tera(device("b300-sxm", shipped)) == {"fp16": 2250, "fp8": 4500, "int8": 153.5, "fp4": 14000}
    assert "int8" not in device("rtx-6000-ada", shipped).compute


def test_no_rate_with_sparsity_stands_for_a_dense_one(shipped: Devices) -> None:
    assert tera(device("mi300x", shipped))["fp16"] == 1307
    spark = device("dgx-spark", shipped).compute["fp4"]
    assert (spark.value, spark.origin) == (500e12, Origin.ARITHMETIC)
    assert device("jetson-orin-nano-super", shipped).compute == {}
    assert "int8" not in device("jetson-agx-orin-64gb", shipped).compute
    assert "fp4" not in device("jetson-thor-t5000", shipped).compute


def test_rates_are_those_with_sums_in_32_bits(shipped: Devices) -> None:
    assert tera(device("rtx-5090", shipped))["fp16"] == 209.5
    assert tera(device("rtx-4090", shipped))["fp8"] == 330.3


@pytest.mark.parametrize("name", ["rx-9070-xt", "a10g", "b200-sxm"])
def test_where_tables_disagree_a_note_says_so(shipped: Devices, name: str) -> None:
    assert any("disagree" in note for note in device(name, shipped).notes)


def test_memory_given_in_binary_units_is_converted_exactly(shipped: Devices) -> None:
    memory = {name: found.memory.value for name, found in shipped.devices.items() if found.memory is not None}
    assert memory["rtx-pro-6000-blackwell-server"] == 97_887 * 2**20
    assert memory["b200-sxm"] == 180 * 2**30
    assert memory["b300-sxm"] // 2**30 == 268
    assert memory["gb200"] // 2**30 == 185


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("ddr4-3200-2ch", 51.2),
        ("ddr5-4800-2ch", 76.8),
        ("ddr5-5600-2ch", 89.6),
        ("ddr5-6000-2ch", 96.0),
        ("ddr5-6400-2ch", 102.4),
        ("ddr4-3200-8ch", 204.8),
        ("ddr5-4800-8ch", 307.2),
        ("ddr5-4800-12ch", 460.8),
        ("ddr5-6000-12ch", 576.0),
        ("mrdimm-8800-12ch", 844.8),
    ],
)
def test_boards_have_what_their_channels_move(shipped: Devices, name: str, gb_per_s: float) -> None:
    found = device(name, shipped)
    assert found.bandwidth.value == gb_per_s * 1e9
    assert found.bandwidth.origin is Origin.ARITHMETIC
    assert (found.memory, found.compute) == (None, {})


def test_a_board_is_channels_times_transfers_times_eight_bytes() -> None:
    bandwidth = board(4, 5600)
    channels, transfers = bandwidth.inputs
    assert bandwidth.value == channels.value * transfers.value * 1e6 * 8 == 179.2e9
    assert (channels.symbol, transfers.symbol) == ("c", "f")
    assert bandwidth.formula == "c × f × 10^6 × 8 bytes"


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("rtx-5090", "float32", 104.8),
        ("rtx-5090", "F32", 104.8),
        ("rtx-5090", "bfloat16", 209.5),
        ("rtx-5090", "float16", 209.5),
        ("rtx-5090", "Q4_K_M", 209.5),
        ("rtx-5090", "MXFP4", 209.5),
        ("m1", "bfloat16", 2.6),
        ("b300-sxm", "float32", None),
        ("m5", "float32", None),
        ("m5", "bfloat16", None),
    ],
)
def test_the_rate_at_which_a_type_is_multiplied(
    shipped: Devices, name: str, dtype: str, expected: float | None
) -> None:
    rate = device(name, shipped).compute_for(dtype)
    assert (None if rate is None else rate.value / 1e12) == expected


def test_names_are_matched_without_case_and_offered_when_mistyped(shipped: Devices) -> None:
    assert device("RTX-5090", shipped).name == "rtx-5090"
    assert device("RTX 5090", shipped).name == "rtx-5090"
    with pytest.raises(SettingsError, match=r"no device named 'rtx5091'\. Did you mean rtx-5090\?"):
        device("rtx5091", shipped)


OWN = """
name = "mine"
title = "My box"
[bandwidth]
gb_per_s = 100
origin = "measured"
source = "workbench probe"
[memory]
gib = 24
origin = "vendor"
source = "the label"
[compute.fp32]
tflop_per_s = 0.2
origin = "measured"
source = "workbench probe"
"""


def test_a_persons_own_device_wins_and_a_broken_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.presets.config_folder", lambda: tmp_path)
    folder = tmp_path / "presets" / "hardware"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(OWN)
    (folder / "spark.toml").write_text(OWN.replace('"mine"', '"DGX-Spark"'))
    (folder / "broken.toml").write_text(OWN.replace("gb_per_s", "gbps"))
    devices = load_devices()
    mine = device("Mine", devices)
    assert mine.bandwidth.origin is Origin.MEASURED
    assert mine.memory is not None
    assert mine.memory.value == 24 * 2**30
    assert device("dgx-spark", devices).bandwidth.value == 100e9
    assert device("rtx-5090", devices).bandwidth.value == 1792e9
    assert len(devices.problems) == 1
    assert "broken.toml: there is no key 'gbps' in bandwidth. Did you mean gb_per_s?" in devices.problems[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.replace("compute.fp32", "compute.bf16"), "there is no key 'bf16' in compute. Did you mean fp16?"),
        (OWN.replace("tflop_per_s", "tflops"), "no key 'tflops' in compute.fp32. Did you mean tflop_per_s?"),
        (OWN.replace("[bandwidth]", "[bandwith]"), "there is no key 'bandwith'. Did you mean bandwidth?"),
        (
            OWN.replace('"measured"', '"meassured"'),
            "bandwidth.origin is 'meassured', which is not known. Did you mean m",
        ),
        (OWN.replace("gb_per_s = 100", "gb_per_s = -100"), "bandwidth.gb_per_s is -100"),
        (OWN.replace("gb_per_s = 100", "gb_per_s = 0"), "bandwidth.gb_per_s is 0"),
        (OWN.replace("gb_per_s = 100", "gb_per_s = nan"), "bandwidth.gb_per_s is nan"),
        (OWN.replace("gb_per_s = 100", "gb_per_s = 1e300"), "bandwidth.gb_per_s is 1e+300"),
        (OWN.replace("gb_per_s = 100", 'gb_per_s = "100"'), "bandwidth.gb_per_s is '100': expected a number, got text"),
        (OWN.replace('"workbench probe"', '""'), "bandwidth.source is ''"),
        (OWN.replace("gib = 24", "gib = 24\ngb = 24"), "memory: give one of gb, gib and mib."),
        (OWN.replace("gib = 24", ""), "memory: give one of gb, gib and mib."),
        (OWN + "[board]\nchannels = 2\nmega_transfers = 5600", "bandwidth: give either"),
        ('name = "mine"\ntitle = "My box"', "bandwidth: give either"),
        ('name = "mine"\ntitle = "a"\n[board]\nchannels = 0\nmega_transfers = 1', "board.channels is 0"),
    ],
)
def test_mistakes_in_a_device_name_the_file_and_the_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_device(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
