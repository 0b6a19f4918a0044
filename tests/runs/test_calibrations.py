"""Calibrations in the store: they come back whole, in the right order, and stores of before are brought up."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from tests.fake_grid import BUSY, MB, a_calibration, a_cell, a_product
from tests.fakes import a_row
from tests.runs.test_store import a_run
from workbench.hardware.accelerator_clocks import AcceleratorClocks
from workbench.hardware.calibration import Calibration, Work
from workbench.runs.samples import Samples
from workbench.runs.schema import SCHEMA_VERSION
from workbench.runs.store import Store

MACHINE = "a box · 2 cores · 24 GB"


def kept(name: str, **changed: object) -> Calibration:
    return a_calibration(machine=MACHINE, calibration_id=name, **changed)


def names(store: Store) -> list[str]:
    return [calibration.calibration_id for calibration in store.calibrations(MACHINE)]


def test_a_calibration_comes_back_with_every_sample() -> None:
    found = a_calibration(
        a_cell(rejected="a cache"),
        a_cell(work=Work.SIZE, array_bytes=MB),
        a_product(30, 8, "bfloat16"),
        a_cell(20.0),
        machine=MACHINE,
        load=BUSY,
        load_after=None,
        drift=None,
        last_level_cache_bytes=None,
        clocks=(AcceleratorClocks("a device", 1500.0, 2600.0, 61.0),),
    )
    with Store() as store:
        store.add_calibration(found)
    with Store() as store:
        assert store.calibrations(MACHINE) == [found]
        assert store.calibrations("another box") == []


def test_the_newest_comes_first() -> None:
    with Store() as store:
        for name in ("one", "two", "three"):
            store.add_calibration(kept(name))
        assert names(store) == ["three", "two", "one"]
        assert [c.calibration_id for c in store.calibrations(MACHINE, most=2)] == ["three", "two"]


def test_one_without_a_read_rate_is_left_out_and_one_stopped_among_its_reads_comes_last() -> None:
    with Store() as store:
        store.add_calibration(kept("whole"))
        store.add_calibration(kept("stopped", complete=False))
        store.add_calibration(kept("unread", cells=(a_cell(rejected="a cache"),)))
        assert names(store) == ["whole", "stopped"]
        store.add_calibration(kept("stopped after its reads", complete=False, cells=(a_cell(), a_product(4, 1))))
        assert names(store) == ["stopped after its reads", "whole", "stopped"]


@pytest.mark.parametrize(
    "data",
    ["", "{}", "null", "[]", '{"calibration_id": 5}', "not json", '{"cells": [{"work": "juggling"}]}'],
)
def test_one_that_another_version_wrote_is_passed_over(data: str, data_folder: Path) -> None:
    with Store() as store:
        store.add_calibration(kept("ours"))
    with sqlite3.connect(data_folder / "runs.sqlite3") as connection:
        connection.execute("INSERT INTO calibrations VALUES ('theirs', ?, 'cpu', '2027', ?)", (MACHINE, data))
    with Store() as store:
        assert names(store) == ["ours"]


def test_one_with_more_than_this_version_knows_is_read(data_folder: Path) -> None:
    known = msgspec.to_builtins(kept("newer"))
    with Store() as store:
        pass
    with sqlite3.connect(data_folder / "runs.sqlite3") as connection:
        text = msgspec.json.encode({**known, "humidity": 0.4}).decode()
        connection.execute("INSERT INTO calibrations VALUES ('newer', ?, 'cpu', '2027', ?)", (MACHINE, text))
    with Store() as store:
        assert names(store) == ["newer"]


def test_a_store_of_version_1_gets_its_table_and_keeps_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "older.sqlite3"
    with Store(path) as store:
        store.add_run(a_run())
        store.add_row(a_row(), Samples())
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE calibrations")
        connection.execute("PRAGMA user_version = 1")
    with Store(path) as store:
        assert store.rows(a_run().run_id) == [a_row()]
        store.add_calibration(kept("first"))
        assert names(store) == ["first"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
