"""Keys that wait because answering them would disturb what is being timed."""

import time
from collections.abc import Iterator

from textual import events

from workbench.ui.key_allowance import KeyAllowance

AT_ONCE, AT_ONCE_UNLESS_TYPED = frozenset({"ctrl+c", "ctrl+q"}), frozenset({"x", "q"})
"""Keys that stop or leave are answered whatever is being timed."""


class HeldKeys:
    """The keys pressed and not answered yet, in order."""

    def __init__(self, allowance: KeyAllowance) -> None:
        self._allowance = allowance
        self._keys: list[tuple[float, events.Key]] = []

    def hold(self, key: events.Key, *, typing: bool) -> bool:
        """Keep a key for later where it must wait; whether it does. `typing` says that a field has the keys."""
        if key.key in AT_ONCE or (key.key in AT_ONCE_UNLESS_TYPED and not typing):
            return False
        if not self._keys and self._allowance.answers():
            return False
        self._keys.append((time.monotonic(), key))
        return True

    def due(self) -> Iterator[events.Key]:
        """Give out those that may be answered now; answering one may make the next wait on."""
        while self._keys and self._allowance.answers(time.monotonic() - self._keys[0][0]):
            yield self._keys.pop(0)[1]

    def __bool__(self) -> bool:
        return bool(self._keys)
