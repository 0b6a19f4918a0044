"""Waits for a core, as the kernel counts them by thread."""

import threading
from pathlib import Path

import pytest

from workbench.hardware import run_queue
from workbench.hardware.run_queue import most_and_all, waited_s


def tasks(folder: Path, waits_ns: dict[int, int]) -> None:
    for ident, waited in waits_ns.items():
        (folder / str(ident)).mkdir(parents=True, exist_ok=True)
        (folder / str(ident) / "schedstat").write_text(f"123456789 {waited} 42\n")


def test_waits_are_read_of_the_calling_thread_and_of_those_that_are_not_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_queue, "TASKS", tmp_path)
    ours, leave = threading.get_native_id(), threading.Event()
    screen = threading.Thread(target=leave.wait)
    screen.start()
    assert screen.native_id is not None
    tasks(tmp_path, {ours: 2_000_000, screen.native_id: 9_000_000_000, 10_000_001: 500_000_000})
    try:
        assert waited_s() == {ours: pytest.approx(0.002), 10_000_001: pytest.approx(0.5)}
    finally:
        leave.set()
        screen.join()


@pytest.mark.parametrize("content", ["", "not a number", "1"])
def test_a_kernel_that_counts_otherwise_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(run_queue, "TASKS", tmp_path)
    tasks(tmp_path, {10_000_001: 5})
    (tmp_path / "10000001" / "schedstat").write_text(content)
    assert waited_s() == {}
    monkeypatch.setattr(run_queue, "TASKS", tmp_path / "missing")
    assert waited_s() == {}


def test_what_was_lost_lies_between_the_longest_wait_and_all_of_them() -> None:
    before = {1: 1.0, 2: 5.0}
    assert most_and_all(before, {1: 1.5, 2: 5.2, 3: 0.1}) == pytest.approx((0.5, 0.8))
    assert most_and_all({}, {}) == (0.0, 0.0)
    # A thread that ended and one that took its number since wait no negative time.
    assert most_and_all({1: 3.0}, {1: 1.0}) == (0.0, 0.0)
