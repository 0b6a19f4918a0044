import gc
import threading

import pytest

from workbench.experiments.window import TASKS, Disturbance, TimedWindow


def test_the_window_is_open_while_it_times_and_garbage_waits() -> None:
    window, recorded = TimedWindow(), list[Disturbance]()
    assert not window.is_open
    with window.timed(recorded.append):
        assert window.is_open
        assert not gc.isenabled()
        assert window.open_seconds >= 0
    assert not window.is_open
    assert gc.isenabled()
    assert len(recorded) == 1


def test_it_closes_and_records_when_the_measurement_raises() -> None:
    window, recorded = TimedWindow(), list[Disturbance]()
    with pytest.raises(ZeroDivisionError), window.timed(recorded.append):
        raise ZeroDivisionError
    assert not window.is_open
    assert gc.isenabled()
    assert recorded


def test_the_screen_settles_before_the_window_opens() -> None:
    order: list[str] = []
    window = TimedWindow(settle=lambda: order.append(f"settle, open: {window.is_open}"))
    with window.timed(lambda _: order.append("closed")):
        order.append("timed")
    assert order == ["settle, open: False", "timed", "closed"]


def test_cpu_time_of_every_thread_but_the_measuring_one_is_counted() -> None:
    if not TASKS.exists():
        pytest.skip("this system does not say what a thread takes")
    window, recorded = TimedWindow(), list[Disturbance]()
    go, done, leave = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        sum(range(2_000_000))
        done.set()
        leave.wait()

    other = threading.Thread(target=work)
    other.start()
    with window.timed(recorded.append):
        go.set()
        done.wait()
    with window.timed(recorded.append):
        sum(range(2_000_000))
    leave.set()
    other.join()
    beside, alone = (each.instrument_cpu_s for each in recorded)
    assert beside is not None
    assert alone is not None
    assert beside > 0.001
    assert alone < beside / 2


def test_disturbances_add_up_and_share_out() -> None:
    both = Disturbance(2.0, 0.02, 0.4, cores=2) + Disturbance(2.0, 0.02, 0.4, cores=2)
    assert both.ui_share == pytest.approx(0.01)
    assert both.other_load == pytest.approx(0.1)
    assert (Disturbance(1.0, None) + Disturbance(1.0, 0.5)).ui_share is None
    assert Disturbance().ui_share is None
    assert Disturbance().other_load is None
