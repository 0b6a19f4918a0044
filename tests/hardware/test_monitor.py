"""What the monitor makes of the system's counters, decided beforehand."""

import os
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from workbench.hardware import accelerator_use, monitor
from workbench.hardware.accelerator_use import AcceleratorUse, accelerator_source
from workbench.hardware.load import busy_and_stolen
from workbench.hardware.machine import GroupMemory
from workbench.hardware.monitor import SELDOM_S, SPAN_S, Counters, Monitor, has_children, shares_between

Times = namedtuple("Times", "user system idle iowait steal guest guest_nice")


class FakeBox:
    """Two cores and one process, whose counters a test moves on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.own_s = 0.0
        self.cores = [Times(0, 0, 0, 0, 0, 0, 0)] * 2
        self.swap = SimpleNamespace(total=0, used=0)
        self.group: GroupMemory | None = None
        self.asked_for_groups = 0
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(time, "process_time", lambda: self.own_s)
        patch.setattr(psutil, "cpu_times", lambda percpu: self.cores)
        patch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000_000_000))
        patch.setattr(psutil, "swap_memory", lambda: self.swap)
        patch.setattr(monitor, "limited_groups", self._limited_groups)
        patch.setattr(monitor, "group_memory", lambda folders: self.group)
        patch.setattr(monitor, "has_children", lambda: False)
        patch.setattr(monitor, "accelerator_source", lambda: None)

    def pass_time(self, seconds: float, busy: tuple[float, float] = (0, 0), own: float = 0, stolen: float = 0) -> None:
        self.now += seconds
        self.own_s += own
        self.cores = [
            core._replace(user=core.user + b, steal=core.steal + stolen, idle=core.idle + seconds - b - stolen)
            for core, b in zip(self.cores, busy, strict=True)
        ]

    def _limited_groups(self) -> tuple[Path, ...]:
        self.asked_for_groups += 1
        return ()


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> FakeBox:
    return FakeBox(monkeypatch)


def test_own_and_other_work_and_stolen_time_are_told_apart(box: FakeBox) -> None:
    watching = Monitor()
    box.pass_time(10, busy=(8, 1), own=6, stolen=1)
    sample = watching.sample()
    assert sample.core_percent == pytest.approx((80, 10))
    assert (sample.own_share, sample.other_share, sample.stolen_share) == pytest.approx((0.30, 0.15, 0.10))
    assert (sample.at, sample.seconds) == (110, 10)


def test_each_sample_covers_the_time_since_the_one_before(box: FakeBox) -> None:
    watching = Monitor()
    box.pass_time(1, busy=(1, 1))
    watching.sample()
    box.pass_time(20, busy=(10, 0))
    sample = watching.sample()
    assert sample.core_percent == pytest.approx((50, 0))
    assert sample.seconds == 20


def test_a_guest_is_in_user_time_already_and_waiting_is_not_work() -> None:
    times = Times(user=5, system=2, idle=10, iowait=3, steal=1, guest=2, guest_nice=0)
    assert busy_and_stolen(times._replace(user=7)) == (9, 1)
    assert busy_and_stolen(times) == (7, 1)


def test_a_childs_time_found_all_at_once_is_no_more_than_what_was_worked() -> None:
    before, after = (Counters(at, ((busy, 0.0, at),), own) for at, busy, own in ((0.0, 0.0, 0.0), (1.0, 0.25, 50.0)))
    shares = shares_between(before, after)
    assert (shares.own, shares.other) == (0.25, 0.0)


def test_cores_that_come_and_go_give_no_shares() -> None:
    one, two = Counters(0.0, ((1.0, 0.0, 9.0),), 0.0), Counters(1.0, ((1.0, 0.0, 9.0),) * 2, 0.5)
    assert shares_between(one, two) == monitor.Shares((0.0, 0.0), 0.0, 0.0, 0.0)


def test_two_readings_in_one_tick_of_the_system_give_none() -> None:
    same = Counters(1.0, ((1.0, 0.0, 9.0),), 0.5)
    assert shares_between(same, same) == monitor.Shares((0.0,), 0.0, 0.0, 0.0)


def test_the_groups_own_limit_counts(box: FakeBox) -> None:
    box.group = GroupMemory(limit_bytes=3_000_000_000, used_bytes=2_500_000_000)
    sample = Monitor().sample()
    assert sample.available_bytes == 500_000_000
    assert sample.group == box.group
    box.group = None
    assert Monitor().sample().available_bytes == 8_000_000_000


def test_what_hardly_changes_is_asked_seldom(box: FakeBox) -> None:
    watching = Monitor()
    for _ in range(int(SELDOM_S)):
        watching.sample()
        box.pass_time(1)
    assert box.asked_for_groups == 1
    watching.sample()
    assert box.asked_for_groups == 2


def test_swap_is_read_where_there_is_some(box: FakeBox) -> None:
    box.swap = SimpleNamespace(total=0, used=7)
    assert Monitor().sample().swap_bytes == 0
    box.swap = SimpleNamespace(total=9, used=7)
    assert Monitor().sample().swap_bytes == 7


def test_the_history_forgets_what_is_older_than_its_span(box: FakeBox) -> None:
    watching = Monitor()
    for _ in range(int(SPAN_S) + 50):
        box.pass_time(1)
        watching.sample()
    assert len(watching.history) == SPAN_S + 1
    box.pass_time(SPAN_S * 2)
    watching.sample()
    assert [s.at for s in watching.history] == [box.now]


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system has no waitid")
def test_children_are_seen_and_not_reaped() -> None:
    assert not has_children()
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert has_children()
    assert child.wait() == 3
    assert not has_children()


def test_a_childs_work_is_this_processs_own(box: FakeBox, monkeypatch: pytest.MonkeyPatch) -> None:
    working = SimpleNamespace(cpu_times=lambda: (box.now - 100, 0.0, 0.0, 0.0))
    gone = SimpleNamespace(cpu_times=lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(1)))
    watching = Monitor()
    monkeypatch.setattr(monitor, "has_children", lambda: True)
    monkeypatch.setattr(watching._process, "children", lambda recursive: [working, gone])
    watching.sample()
    box.pass_time(10, busy=(10, 0))
    sample = watching.sample()
    assert (sample.own_share, sample.other_share) == pytest.approx((0.5, 0.0))


class FakeNvml:
    """The binding with one device; `refuses` says what it is that raises."""

    class NVMLError(Exception):
        """The binding's error."""

    def __init__(self, refuses: str = "") -> None:
        self._refuses = refuses

    def __getattr__(self, name: str) -> object:
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": b"A GPU",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=3, total=10),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=25),
        }

        def call(*_: object) -> object:
            if name == self._refuses:
                raise self.NVMLError
            return answers[name]

        return call


@pytest.mark.parametrize(
    ("refuses", "found"),
    [
        ("", (AcceleratorUse("A GPU", 0.25, 3, 10),)),
        ("nvmlDeviceGetUtilizationRates", (AcceleratorUse("A GPU", None, 3, 10),)),
        ("nvmlDeviceGetMemoryInfo", ()),
    ],
)
def test_an_nvidia_device_says_what_it_can(
    refuses: str, found: tuple[AcceleratorUse, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(refuses))
    ask = accelerator_source()
    assert ask is not None
    assert ask() == found


def test_an_amd_device_is_read_in_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(accelerator_use, "DRM", tmp_path)
    for card, files in {"card0": {}, "card1": {"total": "16", "used": "4"}}.items():
        folder = tmp_path / card / "device"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / f"mem_info_vram_{name}").write_text(text + "\n")
    ask = accelerator_source()
    assert ask is not None
    assert ask() == (AcceleratorUse("AMD GPU 0", None, 4, 16),)
    (tmp_path / "card1" / "device" / "gpu_busy_percent").write_text("50\n")
    assert ask() == (AcceleratorUse("AMD GPU 0", 0.5, 4, 16),)


@pytest.mark.parametrize("nvml", [None, FakeNvml("nvmlInit")])
def test_without_a_device_there_is_nothing_to_ask(
    nvml: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(accelerator_use, "DRM", tmp_path)
    assert accelerator_source() is None
