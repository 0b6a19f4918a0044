"""Keys while something is timed: answered while it costs little, else when the window closes; stopping never waits."""

from contextlib import ExitStack

import pytest

from tests.ui.driving import GUARD_S, SIZES, Gate, an_app, finished, until
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.ui.key_allowance import KEY_S, LONGEST_WAIT_S, MOST_S, SHARE, KeyAllowance


class Cpu:
    """CPU time of the screen's thread, as it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> TimedWindow:
    monkeypatch.setattr(TimedWindow, "open_seconds", 0.0)
    return TimedWindow()


def test_keys_are_always_answered_while_nothing_is_timed(window: TimedWindow) -> None:
    assert KeyAllowance(window, Cpu()).answers()


def test_a_key_waits_until_the_windows_have_been_open_long_enough_to_hide_it(
    window: TimedWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = Cpu()
    allowance = KeyAllowance(window, cpu)
    allowance.painted()
    with ExitStack() as stack:
        stack.enter_context(window.timed(lambda _: None))
        assert not allowance.answers()
        monkeypatch.setattr(TimedWindow, "open_seconds", 1.01 * KEY_S / SHARE)
        assert allowance.answers()
        cpu.seconds += KEY_S
        assert not allowance.answers()


def test_quiet_windows_save_up_to_a_limit_and_busy_ones_take_from_it(window: TimedWindow) -> None:
    allowance = KeyAllowance(window, Cpu())
    window.altogether = Disturbance(open_s=10.0, instrument_cpu_s=0.01)
    allowance.painted()
    assert allowance.saved_s == pytest.approx(10.0 * SHARE - 0.01)
    window.altogether = Disturbance(open_s=10_000.0, instrument_cpu_s=0.02)
    allowance.painted()
    assert allowance.saved_s == MOST_S
    window.altogether = Disturbance(open_s=10_001.0, instrument_cpu_s=0.52)
    allowance.painted()
    assert allowance.saved_s == pytest.approx(MOST_S + SHARE - 0.5)


async def test_held_keys_are_answered_in_order_when_the_window_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.ui.key_allowance.LONGEST_WAIT_S", GUARD_S)
    gate = Gate(prompt=64)
    app = an_app(gate)
    app.key_allowance.saved_s = -1000.0
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("1", "2")
        assert app.frame.pane == "prefill_decode"
        gate.open.set()
        await finished(pilot, app)
        assert app.frame.pane == "ceiling"


async def test_the_key_that_stops_never_waits() -> None:
    gate = Gate(prompt=64)
    app = an_app(gate)
    app.key_allowance.saved_s = -1000.0
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("r")
        await until(pilot, gate.reached.is_set)
        await pilot.press("1", "x")
        assert app.live is not None
        assert app.live.stopping
        gate.open.set()
        await finished(pilot, app)


def test_a_key_that_has_waited_long_enough_is_answered_whatever_it_costs(window: TimedWindow) -> None:
    allowance = KeyAllowance(window, Cpu())
    allowance.painted()
    with ExitStack() as stack:
        stack.enter_context(window.timed(lambda _: None))
        assert not allowance.answers(0.9 * LONGEST_WAIT_S)
        assert allowance.answers(LONGEST_WAIT_S)
