"""Numbers as a person types them: counts, rates and shares, alone or in a list, checked as they are read."""

import argparse
import math
import re
from collections.abc import Callable, Iterator

MOST = 10**12
"""Past it a count of tokens or sequences is a slip of the finger."""
LEAST_FIGURE, MOST_FIGURE = 1e-6, 1e12
"""What lies outside is a slip of the finger; inside, all that is computed from it stays finite."""
_DIGITS = re.compile(r"[+-]?\d+(_\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")


def count(least: int) -> Callable[[str], int]:
    """A reader of a whole number from `least` on, in digits, with or without thousands separators."""

    def read(text: str) -> int:
        return _in_range(_whole(_without_thousands(text)), least)

    return read


def counts(least: int) -> Callable[[str], tuple[int, ...]]:
    """A reader of whole numbers with commas between them, in the order given, each once."""

    def read(text: str) -> tuple[int, ...]:
        found = [_in_range(whole, least) for whole in whole_numbers(text)]
        return tuple(dict.fromkeys(found))

    return read


def whole_numbers(text: str) -> Iterator[int]:
    """Each whole number of a list, of whatever size.

    A comma here is no thousands separator: `4,096` is refused, rather than read as 4 and 96.
    """
    for word in _words(text, "whole numbers, as in 1,16,64"):
        if re.fullmatch(r"0\d+", word):
            raise argparse.ArgumentTypeError(
                f"{word!r} starts with a zero: commas stand between the numbers of a list, so write each without "
                "thousands separators, as in 4096"
            )
        yield _whole(word)


def positive(text: str) -> float:
    """A number above zero."""
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text.strip()} is not above zero")
    if not LEAST_FIGURE <= number <= MOST_FIGURE:
        raise argparse.ArgumentTypeError(
            f"{text.strip()} is out of range; it must be {LEAST_FIGURE:f} to {MOST_FIGURE:,.0f}"
        )
    return number


def at_least_zero(text: str) -> float:
    """A number from zero on."""
    return 0.0 if _number(text) == 0 else positive(text)


def shares(text: str) -> tuple[float, ...]:
    """Shares with commas between them, from 0 to 1 or in per cent, in the order given, each once."""
    return tuple(dict.fromkeys(map(share, _words(text, "shares, as in 0.05,0.1,25%"))))


def share(text: str) -> float:
    """A share, from 0 to 1 or in per cent."""
    word = text.strip()
    found = _number(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    if not 0 <= found <= 1:
        percent = f"; {word} per cent is written {word}%" if 1 < found <= 100 and not word.endswith("%") else ""
        raise argparse.ArgumentTypeError(f"{word} is no share: it must be 0 to 1, or 0% to 100%{percent}")
    return found


def _words(text: str, what: str) -> list[str]:
    """The words of a list; one that is empty was cut off by a space after its comma."""
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {what}")
    if not all(words):
        raise argparse.ArgumentTypeError(
            f"{text!r} has a comma with nothing beside it: write a list of {what}, with no space after a comma, or "
            "put it in quotes"
        )
    return words


def _whole(word: str) -> int:
    if not _DIGITS.fullmatch(word):
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number: write it in digits alone, as in 4096")
    return int(word)


def _in_range(number: int, least: int) -> int:
    if not least <= number <= MOST:
        raise argparse.ArgumentTypeError(f"{number} is out of range; it must be {least} to {MOST:,}")
    return number


def _without_thousands(text: str) -> str:
    word = text.strip()
    return word.replace(",", "") if _THOUSANDS.fullmatch(word) else word


def _number(text: str) -> float:
    try:
        number = float(_without_thousands(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number: write it in digits and without a unit") from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text.strip()} is not finite")
    return number
