"""Keys and pauses of Textual's pilot end when the app has answered, not when the processor happens to be quiet."""

import asyncio
from math import inf

import pytest

REPAINT_S = 1 / 40
"""Longer than the time from a change to the repaint that shows it."""
MOST_S = 1.0
"""What never comes to rest is looked at as it stands, as Textual does it."""


async def at_rest(min_sleep: float = 0.0, max_sleep: float = MOST_S) -> None:
    """Let the loop work until it has nothing to do and nothing about to be repainted.

    Textual's own looks at the share of the processor that the process takes, which on a loaded box is small while
    half a frame is drawn, and waits 20 ms after each key at the least.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, asyncio.BaseEventLoop)
    until = loop.time() + max_sleep
    while loop.time() < until:
        await asyncio.sleep(0)
        if loop._ready:  # type: ignore[attr-defined]
            continue
        timers = loop._scheduled  # type: ignore[attr-defined]
        due_s = min((timer.when() for timer in timers if not timer.cancelled()), default=inf) - loop.time()
        if due_s > REPAINT_S:
            return
        await asyncio.sleep(max(0.0, due_s))


async def looked_up(min_sleep: float = 0.0, max_sleep: float = MOST_S) -> None:
    """Let the app come to rest with what it looks up in threads."""
    await at_rest()
    while looking_up := [task for task in asyncio.all_tasks() if _is_of_a_worker(task)]:
        await asyncio.wait(looking_up)
        await at_rest()


def _is_of_a_worker(task: asyncio.Task[object]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "") == "Worker._run"


@pytest.fixture(autouse=True)
def _no_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("textual.app.wait_for_idle", at_rest)
    monkeypatch.setattr("textual.pilot.wait_for_idle", looked_up)
