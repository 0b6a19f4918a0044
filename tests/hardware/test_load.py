"""The load between two readings of counters that are known."""

from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from workbench.hardware import load, machine
from workbench.hardware.load import LoadReading, load_between, read_load

START = LoadReading(
    wall_s=100.0,
    busy_s=50.0,
    stolen_s=5.0,
    own_s=10.0,
    cores=4,
    frequency_mhz=3000.0,
    available_bytes=2_000,
    memory_pressure=1.0,
)
Times = namedtuple("Times", "user nice system idle iowait irq softirq steal guest guest_nice")


def after(seconds: float, *, busy: float = 0.0, own: float = 0.0, stolen: float = 0.0) -> LoadReading:
    return replace(
        START,
        wall_s=START.wall_s + seconds,
        busy_s=START.busy_s + busy,
        own_s=START.own_s + own,
        stolen_s=START.stolen_s + stolen,
        frequency_mhz=2500.0,
        available_bytes=1_000,
        memory_pressure=7.5,
    )


def test_others_have_what_was_busy_less_our_own() -> None:
    found = load_between(START, after(10.0, busy=24.0, own=20.0, stolen=1.0))
    assert found.other_share == pytest.approx(0.1)
    assert found.stolen_share == pytest.approx(0.025)
    assert (found.frequency_mhz, found.available_bytes, found.memory_pressure) == (2500.0, 1_000, 7.5)


def test_counters_that_lag_never_show_less_than_nothing_or_more_than_all() -> None:
    assert load_between(START, after(10.0, busy=19.0, own=20.0)).other_share == 0.0
    assert load_between(START, after(1.0, busy=9.0, stolen=9.0)).other_share == 1.0
    assert load_between(START, after(1.0, busy=9.0, stolen=9.0)).stolen_share == 1.0
    assert load_between(START, START).other_share == 0.0


def test_a_load_is_busy_from_a_tenth_of_the_cores_or_a_twentieth_stolen() -> None:
    assert not load_between(START, after(10.0, busy=3.9, stolen=1.9)).busy
    assert load_between(START, after(10.0, busy=4.1)).busy
    assert load_between(START, after(10.0, stolen=2.1)).busy


def test_work_leaves_out_waiting_and_stolen_time_and_counts_guests_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = Times(100.0, 10.0, 20.0, 500.0, 50.0, 1.0, 2.0, 30.0, 40.0, 5.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=2600.0))
    pressure = tmp_path / "memory"
    pressure.write_text("some avg10=12.50 avg60=3.00 avg300=0.10 total=5\nfull avg10=1.00 avg60=0 avg300=0 total=1\n")
    monkeypatch.setattr(load, "MEMORY_PRESSURE", pressure)
    found = read_load()
    assert (found.busy_s, found.stolen_s) == (100.0 + 10.0 + 20.0 + 1.0 + 2.0, 30.0)
    assert (found.frequency_mhz, found.memory_pressure) == (2600.0, 12.5)


def test_what_the_system_does_not_say_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused() -> None:
        raise NotImplementedError

    for answer in (refused, lambda: None, lambda: SimpleNamespace(current=0.0)):
        monkeypatch.setattr(psutil, "cpu_freq", answer)
        assert read_load().frequency_mhz is None
    for text in ("", "some\n", "some avg10=much\n"):
        (tmp_path / "memory").write_text(text)
        monkeypatch.setattr(load, "MEMORY_PRESSURE", tmp_path / "memory")
        assert read_load().memory_pressure is None
    monkeypatch.setattr(load, "MEMORY_PRESSURE", tmp_path / "nothing")
    assert read_load().memory_pressure is None


def test_memory_free_is_within_the_groups_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    group = tmp_path / "cgroup"
    group.mkdir()
    monkeypatch.setattr(machine, "CGROUP", group)
    monkeypatch.setattr(machine, "CGROUP_MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text("0::/\n")
    (group / "memory.max").write_text("3000000\n")
    (group / "memory.current").write_text("1000000\n")
    assert read_load().available_bytes == 2_000_000
