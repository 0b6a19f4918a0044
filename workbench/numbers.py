"""Numbers as a person types them: counts, rates and shares, alone or in a list, checked as they are read."""

import argparse
import math
from collections.abc import Callable

MOST = 10**12
"""Past it a count of tokens or sequences is a slip of the finger."""


def count(least: int) -> Callable[[str], int]:
    """A reader of a whole number from `least` on, in digits with or without thousands separators."""

    def read(text: str) -> int:
        try:
            number = int(text.strip().replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if not least <= number <= MOST:
            raise argparse.ArgumentTypeError(f"{text.strip()} is out of range; it must be {least} to {MOST:,}")
        return number

    return read


def counts(least: int) -> Callable[[str], tuple[int, ...]]:
    """A reader of whole numbers with commas between them, in the order given, each once."""
    one = count(least)

    def read(text: str) -> tuple[int, ...]:
        found = tuple(dict.fromkeys(one(word) for word in text.split(",") if word.strip()))
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as in 1,16,64")
        return found

    return read


def positive(text: str) -> float:
    """A number above zero."""
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be above zero")
    return number


def at_least_zero(text: str) -> float:
    """A number from zero on."""
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be below zero")
    return number


def shares(text: str) -> tuple[float, ...]:
    """Shares with commas between them, from 0 to 1 or in per cent."""
    found = []
    for word in text.split(","):
        if not word.strip():
            continue
        per_cent = word.strip().endswith("%")
        share = _number(word.strip().removesuffix("%")) / (100 if per_cent else 1)
        if not 0 <= share <= 1:
            raise argparse.ArgumentTypeError(f"{word.strip()!r} is no share: from 0 to 1, or 0%% to 100%%")
        found.append(share)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of shares, as in 0.05,0.1,25%%")
    return tuple(found)


def _number(text: str) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(number) or abs(number) > 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range")
    return number
