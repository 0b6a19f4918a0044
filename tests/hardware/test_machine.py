"""The limits of a container, in the files of both versions of control groups, and of a process."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from workbench.hardware import machine


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cgroup"
    root.mkdir()
    monkeypatch.setattr(machine, "CGROUP", root)
    monkeypatch.setattr(machine, "CGROUP_MEMBERSHIP", tmp_path / "membership")
    return root


def test_version_2_limits_memory_and_cores(group: Path, tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("0::/jobs/one\n")
    write(
        group / "jobs" / "one",
        memory__max="2000000000",
        memory__current="1500000000",
        memory__stat="anon 900000000\ninactive_file 500000000",
        cpu__max="150000 100000",
    )
    assert machine.memory_limit() == 2_000_000_000
    assert machine.available_bytes() == 1_000_000_000
    assert machine.cpu_quota() == 1.5
    assert machine.usable_cores() <= 2


def test_a_group_above_that_is_tighter_counts(group: Path, tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("0::/jobs/one\n")
    write(group / "jobs", memory__max="1000000000", memory__current="400000000")
    write(group / "jobs" / "one", memory__max="max", memory__current="300000000", cpu__max="max 100000")
    assert machine.memory_limit() == 1_000_000_000
    assert machine.available_bytes() == 600_000_000
    assert machine.cpu_quota() is None


def test_version_1_limits_memory_and_cores(group: Path, tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("5:memory:/job\n3:cpu,cpuacct:/job\n")
    write(
        group / "memory" / "job",
        memory__limit_in_bytes="3000000000",
        memory__usage_in_bytes="1000000000",
        memory__stat="total_inactive_file 250000000",
    )
    write(group / "cpu" / "job", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    assert machine.memory_limit() == 3_000_000_000
    assert machine.available_bytes() == 2_250_000_000
    assert machine.cpu_quota() == 0.5
    assert machine.usable_cores() == 1


def test_without_limits_the_machine_is_its_own(group: Path, tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("0::/\n")
    write(group, memory__max="max", cpu__max="max 100000")
    assert machine.memory_limit() is None
    assert machine.cpu_quota() is None
    assert machine.available_bytes() == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_machine_is_named_with_its_cores_and_memory() -> None:
    assert str(machine.Machine("A chip", 1, 24_000_000_000)) == "A chip · 1 core · 24 GB"
    assert machine.this_machine().processor


LIMITED = """
import psutil
from workbench.hardware.machine import address_space_left, available_bytes
process = psutil.Process()
before = process.memory_info().vms
process.rlimit(psutil.RLIMIT_AS, (before + 100_000_000, psutil.RLIM_INFINITY))
print(address_space_left(), available_bytes())
process.rlimit(psutil.RLIMIT_AS, (before // 2, psutil.RLIM_INFINITY))
print(address_space_left())
"""


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_AS"), reason="this system tells no limit of a process")
def test_a_process_may_take_no_more_than_its_own_limit_leaves() -> None:
    assert machine.address_space_left() is None
    said = subprocess.run([sys.executable, "-c", LIMITED], check=True, capture_output=True, text=True).stdout.split()
    left, available, short = map(int, said)
    assert 0 < left <= 100_000_000
    assert 0 < available <= left
    assert short == 0
