"""The driver's reading of keys: what is typed is handed on, and an escape alone is a key of its own."""

import os
import queue
import threading
from collections.abc import Iterator

import pytest
from textual import events
from textual.message import Message

from workbench.ui.quiet_driver import QuietDriver, WakingEvent

GUARD_S = 30.0


class Keys(QuietDriver):
    """The driver at the end of a pipe, without an app."""

    def __init__(self, terminal: int) -> None:
        self._debug = False
        self.fileno = terminal
        self.exit_event = self.leaving = WakingEvent()
        self.said: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def process_message(self, message: Message) -> None:
        self.said.put(message)

    def key(self) -> str:
        message = self.said.get(timeout=GUARD_S)
        assert isinstance(message, events.Key)
        return message.key


@pytest.fixture
def typed() -> Iterator[tuple[Keys, int, threading.Thread]]:
    terminal, keyboard = os.pipe()
    driver = Keys(terminal)
    thread = threading.Thread(target=driver.run_input_thread, daemon=True)
    thread.start()
    yield driver, keyboard, thread
    driver.exit_event.set()
    thread.join(GUARD_S)
    assert not thread.is_alive()


def test_an_escape_right_after_a_key_needs_no_further_key(typed: tuple[Keys, int, threading.Thread]) -> None:
    driver, keyboard, _ = typed
    for _ in range(5):
        os.write(keyboard, b"a")
        assert driver.key() == "a"
        os.write(keyboard, b"\x1b")
        assert driver.key() == "escape"


def test_a_sequence_is_one_key(typed: tuple[Keys, int, threading.Thread]) -> None:
    driver, keyboard, _ = typed
    os.write(keyboard, b"\x1b[A")
    assert driver.key() == "up"


def test_bytes_that_are_no_utf_8_do_not_end_the_reading(typed: tuple[Keys, int, threading.Thread]) -> None:
    driver, keyboard, _ = typed
    os.write(keyboard, b"\xff")
    driver.key()
    os.write(keyboard, b"b")
    assert driver.key() == "b"


def test_it_ends_with_its_terminal(typed: tuple[Keys, int, threading.Thread]) -> None:
    _, keyboard, thread = typed
    os.close(keyboard)
    thread.join(GUARD_S)
    assert not thread.is_alive()


def test_the_event_can_be_set_and_cleared_again() -> None:
    event = WakingEvent()
    for _ in range(2):
        event.set()
        event.set()
        assert event.is_set()
        event.clear()
        assert not event.is_set()
