"""From the measuring thread to the screen: each event becomes one message."""

import threading
from collections.abc import Callable

from textual.message import Message

from workbench.experiments.events import Event, Progress

SETTLE_LIMIT_S = 0.25


class ExperimentSaid(Message):
    """An event of the running experiment."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class ExperimentEnded(Message):
    """The experiment is over, with its error or None."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error


class PaintAll(Message):
    """A request to paint everything that waits, and then to set `painted`."""

    def __init__(self) -> None:
        super().__init__()
        self.painted = threading.Event()


class Bridge:
    """What the runner is given: called in its thread, it only posts, and waits for the screen 0.25 s at most."""

    def __init__(self, post: Callable[[Message], bool]) -> None:
        self._post = post

    def listen(self, event: Event) -> None:
        """Pass an event on."""
        self._send(ExperimentSaid(event))

    def done(self, error: BaseException | None) -> None:
        """Pass the end on."""
        self._send(ExperimentEnded(error))

    def settle(self) -> None:
        """Wait until what was posted is on the screen, so that painting it does not fall into a timed window."""
        request = PaintAll()
        if self._send(request):
            request.painted.wait(SETTLE_LIMIT_S)

    def _send(self, message: Message) -> bool:
        try:
            return self._post(message)
        except RuntimeError:
            # The app's loop is closed: it is leaving, and the store has every row.
            return False


class Waiting:
    """Events that wait for the timed window to close; of several Progress in a row only the last is kept."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        """Keep an event for later."""
        if isinstance(event, Progress) and self._events and isinstance(self._events[-1], Progress):
            self._events.pop()
        self._events.append(event)

    def take(self) -> list[Event]:
        """All that wait, in order; afterwards none do."""
        events, self._events = self._events, []
        return events

    def __bool__(self) -> bool:
        return bool(self._events)
