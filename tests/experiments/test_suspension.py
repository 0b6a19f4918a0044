"""What is timed while the process or the machine stands still is discarded, kept with its reason, and timed again."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.fakes import fake_load
from workbench.experiments import suspension
from workbench.experiments.batch import batch_sweep
from workbench.experiments.events import Event, Finished, PointFailed, RowMeasured
from workbench.experiments.gap.gap import gap
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, GapSettings, SweepSettings
from workbench.experiments.suspension import Standing, wait_for_word
from workbench.experiments.window import Disturbance, TimedWindow
from workbench.runner import CancelToken, Experiment
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
MODEL = "smollm2-135m"
STILL = Standing(wall_s=0.0, running_s=0.0, asleep_s=0.0, continued=0)


class Stops:
    """The process is stopped and continued within the timed windows of these numbers."""

    def __init__(self, *windows: int) -> None:
        self._windows = windows
        self._asked = 0

    def __call__(self) -> Standing:
        window, closing = divmod(self._asked, 2)
        self._asked += 1
        return replace(STILL, continued=sum(each < window or (each == window and closing) for each in self._windows))


def measured(experiment: Experiment) -> list[Event]:
    return [event for event in experiment(CancelToken()) if isinstance(event, RowMeasured | PointFailed | Finished)]


def test_a_request_that_was_stopped_is_timed_again_and_kept_with_its_reason() -> None:
    settings = SweepSettings(model=MODEL, prompts=(16,), repeats=3, device="cpu")
    # The box's rates, the warm-up, and the second of three repeats.
    row, finished = measured(sweep(settings, fake_load(), TimedWindow(standing=Stops(3))))
    assert isinstance(row, RowMeasured)
    assert (row.row.repeats, row.row.discarded, len(row.samples.ttft_s)) == (3, 1, 3)
    (discarded,) = row.samples.discarded
    assert discarded.reason.startswith("the process was stopped and continued")
    assert (len(discarded.ttft_s), len(discarded.tpot_s)) == (1, 1)
    assert discarded.ttft_s[0] not in row.samples.ttft_s
    assert row.row.flags.startswith("discarded and measured again once: the process was stopped")
    assert isinstance(finished, Finished)
    assert finished.status is RunStatus.FINISHED


def test_a_batch_that_was_stopped_is_timed_again_whole() -> None:
    settings = BatchSettings(model=MODEL, contexts=(2,), batches=(1, 4), steps=5, repeats=1, device="cpu")
    one, four, _ = measured(batch_sweep(settings, fake_load(), TimedWindow(standing=Stops(2))))
    assert isinstance(one, RowMeasured)
    assert isinstance(four, RowMeasured)
    assert (one.row.discarded, four.row.discarded) == (1, 0)
    assert [("discarded" in each.row.flags) for each in (one, four)] == [True, False]
    assert len(one.samples.discarded[0].tpot_s) == len(one.samples.tpot_s) == 5


def test_a_part_of_a_ladder_that_was_stopped_is_timed_again() -> None:
    settings = GapSettings(model=MODEL, context=16, seconds=0.001, device="cpu")
    calm, _ = measured(gap(settings, fake_load(), TimedWindow(standing=Stops())))
    row, _ = measured(gap(settings, fake_load(), TimedWindow(standing=Stops(1, 5, 9))))
    assert isinstance(calm, RowMeasured)
    assert isinstance(row, RowMeasured)
    assert (calm.row.discarded, row.row.discarded) == (0, 3)
    assert row.samples.tpot_s == calm.samples.tpot_s
    assert "discarded and measured again 3 times" in row.row.flags


def test_what_is_stopped_again_and_again_fails_with_that_reason_and_the_run_goes_on() -> None:
    settings = SweepSettings(model=MODEL, prompts=(1, 16), repeats=1, device="cpu")
    failed, row, _ = measured(sweep(settings, fake_load(), TimedWindow(standing=Stops(*range(2, 7)))))
    assert isinstance(failed, PointFailed)
    assert failed.row.status.startswith("failed: the process was stopped")
    assert len(failed.samples.discarded) == 5
    assert isinstance(row, RowMeasured)


def test_a_machine_that_slept_is_told_by_its_two_clocks() -> None:
    moments = iter([STILL, replace(STILL, asleep_s=61.5)])
    recorded: list[Disturbance] = []
    with TimedWindow(standing=lambda: next(moments)).timed(recorded.append):
        pass
    assert [each.suspended for each in recorded] == ["the machine slept for 61.5 s"]


def test_word_of_a_stop_is_waited_for_where_the_thread_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    def told_in_the_second_sleep() -> Iterator[None]:
        yield
        suspension.continued()
        yield

    sleeps = told_in_the_second_sleep()
    monkeypatch.setattr(suspension, "_continued", 0)
    monkeypatch.setattr("workbench.experiments.suspension.time.sleep", lambda _: next(sleeps))
    ran = replace(STILL, wall_s=10.0, running_s=9.99)
    assert wait_for_word(STILL, ran) == ran
    stood = replace(STILL, wall_s=10.0, running_s=4.0)
    assert wait_for_word(STILL, stood) == replace(stood, continued=1)


def test_what_was_discarded_comes_back_from_the_store() -> None:
    settings = SweepSettings(model=MODEL, prompts=(16,), repeats=1, device="cpu")
    row, _ = measured(sweep(settings, fake_load(), TimedWindow(standing=Stops(2))))
    assert isinstance(row, RowMeasured)
    with Store() as store:
        store._check_owned = lambda run_id: None  # type: ignore[method-assign]
        store.add_row(row.row, row.samples)
        assert store.rows_with_samples(row.row.run_id) == [(row.row, row.samples)]


STOPPED = """
import signal, sys, threading
from workbench.experiments import suspension
from workbench.experiments.window import TimedWindow

def told(*_):
    suspension.continued()
    print("continued", flush=True)

def measure():
    def timed(name):
        with TimedWindow().timed(lambda beside: print(name, repr(beside.suspended), flush=True)):
            print("open", flush=True)
            sys.stdin.readline()
    timed("first")
    timed("second")

with suspension.stops_noticed():
    signal.signal(signal.SIGCONT, told)
    thread = threading.Thread(target=measure)
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGCONT"), reason="this system does not stop processes")
def test_a_process_that_was_stopped_tells_of_it_and_one_that_only_waited_does_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            pass
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "continued\n"
        process.stdin.write("\n")
        process.stdin.flush()
        first = process.stdout.readline()
        assert process.stdout.readline() == "open\n"
        process.stdin.write("\n")
        process.stdin.flush()
        second = process.stdout.readline()
    assert "the process was stopped and continued" in first
    assert second == "second ''\n"
