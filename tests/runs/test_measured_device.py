"""This machine as a device: the rates of its latest runs, and what is assumed without them."""

from pathlib import Path
from typing import Any

import pytest

from tests.fake_grid import BUSY, a_calibration, a_cell
from tests.fakes import a_row
from workbench.errors import SettingsError
from workbench.hardware.machine import THIS_MACHINE, this_machine
from workbench.quantity import Origin
from workbench.runs.measured_device import (
    ASSUMED_FLOP_PER_CORE,
    ASSUMED_READ,
    UNMEASURED,
    UNREADABLE,
    calibrated_read,
    device_named,
    this_device,
)
from workbench.runs.run import Run
from workbench.runs.samples import Samples
from workbench.runs.store import Store


def keep(*rows: dict[str, Any]) -> None:
    """A run of each row, on this machine's CPU unless it says otherwise."""
    with Store() as store:
        for number, changed in enumerate(rows):
            row = a_row(**{"machine": str(this_machine()), "device": "cpu", "run_id": f"run-{number}", **changed})
            store.add_run(Run(row.run_id, row.kind, row.started_at, row.model, row.machine, {}))
            store.add_row(row, Samples((), ()))


def test_nothing_measured_is_assumed_and_creates_no_store(data_folder: Path) -> None:
    found = this_device()
    assert (found.name, found.title) == (THIS_MACHINE, str(this_machine()))
    assert found.bandwidth == ASSUMED_READ
    assert (found.bandwidth.origin, found.bandwidth.source) == (Origin.ASSUMED, UNMEASURED)
    assert found.compute["fp32"].value == ASSUMED_FLOP_PER_CORE * this_machine().cores
    assert found.memory is not None
    assert (found.memory.value, found.memory.origin) == (this_machine().memory_bytes, Origin.MEASURED)
    assert not data_folder.exists()


def test_the_latest_rates_of_each_dtype() -> None:
    keep(
        {"dtype": "float32", "read_gb_per_s": 10.0, "peak_gflop_per_s": 100.0},
        {"dtype": "bfloat16", "read_gb_per_s": 11.0, "peak_gflop_per_s": 300.0},
        {"dtype": "float32", "read_gb_per_s": 12.5, "peak_gflop_per_s": 120.0},
    )
    found = this_device()
    assert (found.bandwidth.value, found.bandwidth.origin, found.bandwidth.symbol) == (12.5e9, Origin.MEASURED, "B")
    assert found.bandwidth.source == "the better of before and after a point of run run-2, on qwen3-0.6b in float32"
    assert {form: rate.value for form, rate in found.compute.items()} == {"fp32": 120e9, "fp16": 300e9}
    assert all(rate.origin is Origin.MEASURED for rate in found.compute.values())


def test_a_probe_of_a_busy_box_does_not_take_the_place_of_a_quiet_one() -> None:
    with Store() as store:
        store.add_calibration(a_calibration(a_cell(26.0)))
        later = {"calibration_id": "20260102-000000-cccc", "taken_at": "2026-01-02T00:00:00Z"}
        store.add_calibration(a_calibration(a_cell(15.0), load=BUSY, **later))
    assert this_device().bandwidth.value == 26e9
    assert calibrated_read() == this_device().bandwidth
    with Store() as store:
        later = {"calibration_id": "20260103-000000-cccc", "taken_at": "2026-01-03T00:00:00Z"}
        store.add_calibration(a_calibration(a_cell(24.0), **later))
    assert this_device().bandwidth.value == 24e9


@pytest.mark.parametrize(
    "elsewhere", [{"machine": "another box"}, {"device": "cuda"}, {"read_gb_per_s": None}, {"read_gb_per_s": 0.0}]
)
def test_rates_of_another_box_or_device_or_none_are_not_this_ones(elsewhere: dict[str, Any]) -> None:
    keep({"read_gb_per_s": 900.0, "peak_gflop_per_s": 9000.0, **elsewhere})
    assert this_device().bandwidth == ASSUMED_READ


def test_a_read_rate_without_an_arithmetic_one() -> None:
    keep({"read_gb_per_s": 12.5, "peak_gflop_per_s": None})
    found = this_device()
    assert found.bandwidth.origin is Origin.MEASURED
    assert found.compute["fp32"].origin is Origin.ASSUMED


def test_a_store_that_can_not_be_read_is_said(data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "runs.sqlite3").write_bytes(b"no database" * 100)
    found = this_device()
    assert (found.bandwidth.value, found.bandwidth.source) == (ASSUMED_READ.value, UNREADABLE)
    assert found.compute["fp32"].source == UNREADABLE


def test_a_store_that_is_a_folder_is_said(data_folder: Path) -> None:
    (data_folder / "runs.sqlite3").mkdir(parents=True)
    assert this_device().bandwidth.source == UNREADABLE


@pytest.mark.parametrize("name", ["this machine", " This Machine ", "this-machine"])
def test_this_machine_by_name(name: str) -> None:
    assert device_named(name).name == THIS_MACHINE


def test_a_device_by_name() -> None:
    assert device_named("RTX-4090").bandwidth.value == 1008e9
    with pytest.raises(SettingsError, match=r"Did you mean rtx-4090\?"):
        device_named("rtx-4099")
