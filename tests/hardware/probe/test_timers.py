"""Timers on a device that works through a queue: nothing is read before it has finished, and the first is dropped."""

from collections.abc import Callable, Sequence

import pytest
import torch

from workbench.hardware.probe.timers import DeviceTimer, HostTimer, timer_for

FILL_S = 100.0


class FakeDevice:
    """Work is queued at once and takes time only when it is waited for; passes take what `passes` says, in turn."""

    def __init__(self, passes: Sequence[float]) -> None:
        self.passes = list(passes)
        self.now = 0.0
        self.queue: list[Callable[[], None]] = []
        self.said: list[str] = []
        self.read_early = False

    def run(self) -> None:
        self.said.append("pass")
        self._work(self.passes.pop(0))

    def fill(self) -> None:
        self.said.append("fill")
        self._work(FILL_S)

    def synchronise(self) -> None:
        self.said.append("finish")
        for done in self.queue:
            done()
        self.queue.clear()

    def clock(self) -> float:
        self.read_early |= bool(self.queue)
        return self.now

    def event(self) -> "FakeEvent":
        return FakeEvent(self)

    def _work(self, seconds: float) -> None:
        def done() -> None:
            self.now += seconds

        self.queue.append(done)


class FakeEvent:
    """Holds the device's time as it came to this place in the queue."""

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.at: float | None = None

    def record(self) -> None:
        def done() -> None:
            self.at = self.device.now

        self.device.said.append("event")
        self.device.queue.append(done)

    def elapsed_time(self, later: "FakeEvent") -> float:
        if self.at is None or later.at is None:
            self.device.read_early = True
            return 0.0
        return (later.at - self.at) * 1e3


def host(device: FakeDevice) -> HostTimer:
    return HostTimer(device.synchronise, device.clock)


def on_device(device: FakeDevice) -> DeviceTimer:
    return DeviceTimer(device.event, device.fill, device.synchronise)


Made = Callable[[FakeDevice], HostTimer | DeviceTimer]
BOTH = pytest.mark.parametrize("made", [host, on_device])


@BOTH
def test_each_pass_is_timed_and_the_first_dropped(made: Made) -> None:
    device = FakeDevice([9.0, 1.0, 2.0, 3.0])
    assert made(device).seconds(device.run, 3, 3, 0.0) == pytest.approx([1.0, 2.0, 3.0])
    assert not device.read_early
    assert device.passes == []


@BOTH
def test_a_single_pass_is_timed_with_none_before_it(made: Made) -> None:
    device = FakeDevice([2.5])
    assert made(device).once(device.run) == pytest.approx(2.5)
    assert not device.read_early


@BOTH
def test_more_passes_are_made_as_far_as_time_allows(made: Made) -> None:
    device = FakeDevice([9.0] + [1.0] * 20)
    assert made(device).seconds(device.run, 2, 10, 4.5) == pytest.approx([1.0] * 5)
    assert len(device.passes) == 20 - 5
    assert not device.read_early


@BOTH
def test_no_more_than_most_are_made_and_never_fewer_than_least(made: Made) -> None:
    quick, slow = FakeDevice([1.0] * 30), FakeDevice([1.0] * 30)
    assert len(made(quick).seconds(quick.run, 2, 10, 1e9)) == 10
    assert len(made(slow).seconds(slow.run, 3, 10, 0.5)) == 3


def test_a_device_whose_clock_stands_still_ends_too() -> None:
    device = FakeDevice([0.0] * 30)
    assert len(on_device(device).seconds(device.run, 2, 10, 5.0)) == 10


def test_the_queue_is_filled_before_the_first_event_and_nothing_is_waited_for_between() -> None:
    device = FakeDevice([1.0] * 4)
    on_device(device).seconds(device.run, 3, 3, 0.0)
    assert device.said == ["pass", "finish", "fill", "event", *["pass", "event"] * 3, "finish"]


def test_the_host_waits_on_either_side_of_each_pass() -> None:
    device = FakeDevice([1.0] * 3)
    host(device).seconds(device.run, 2, 2, 0.0)
    assert device.said == ["pass", *["finish", "pass", "finish"] * 2]


def test_a_processor_is_timed_by_the_host_and_accelerators_by_their_own_events() -> None:
    assert isinstance(timer_for(torch.device("cpu"), lambda: None), HostTimer)
    for kind in ("cuda", "xpu", "mps"):
        assert isinstance(timer_for(torch.device(kind), lambda: None), DeviceTimer)
