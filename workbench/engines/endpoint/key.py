"""The key of an endpoint: sent to it, and shown, stored and logged nowhere."""

import os

ENVIRONMENT = "WORKBENCH_API_KEY"
HIDDEN = "[the key]"
CUT = "…"
"""Ends a quotation that was cut short, maybe in the middle of the key."""
LEAST_HIDDEN = 4
"""Characters of a key that is looked for in texts: a shorter one would black out ordinary words."""


class Key:
    """A secret that no representation of it shows; empty where the endpoint asks for none."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str = "") -> None:
        self._secret = secret.strip()

    def __repr__(self) -> str:
        return f"Key({HIDDEN if self._secret else ''})"

    def __bool__(self) -> bool:
        return bool(self._secret)

    def __reduce__(self) -> str:
        raise TypeError("a key is not stored")

    @property
    def is_sendable(self) -> bool:
        """Whether a header can carry it."""
        return self._secret.isascii() and self._secret.isprintable()

    def header(self) -> str:
        """The line of a request that carries it; empty without one."""
        return f"Authorization: Bearer {self._secret}\r\n" if self._secret else ""

    def hidden_in(self, text: str) -> str:
        """The text without the key, where it holds it."""
        if len(self._secret) < LEAST_HIDDEN:
            return text
        # JSON may write a slash with a backslash before it, which quoting doubles.
        for slash in ("/", "\\/", "\\\\/"):
            written = self._secret.replace("/", slash)
            text = text.replace(written, HIDDEN)
            for length in range(len(written) - 1, LEAST_HIDDEN - 1, -1):
                text = text.replace(f"{written[:length]}{CUT}", f"{HIDDEN}{CUT}")
        return text


def key_of_environment() -> Key:
    """The key in WORKBENCH_API_KEY."""
    return Key(os.environ.get(ENVIRONMENT, ""))
