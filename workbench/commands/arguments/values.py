"""What the text of an option becomes, where that is no plain number."""

import argparse
from typing import Any

from workbench.errors import SettingsError, unknown_name
from workbench.models.cache_types import cache_type
from workbench.numbers import whole_numbers
from workbench.output import Format


def output_format(text: str) -> Format:
    """A format by its name."""
    try:
        return Format(text.strip().lower())
    except ValueError:
        raise argparse.ArgumentTypeError(unknown_name("format", text, list(Format)).rstrip(".")) from None


def known_cache_type(text: str) -> str:
    """An element type of the cache, as it is known."""
    try:
        return cache_type(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def points(text: str) -> tuple[int, ...]:
    """Prompt lengths, contexts or batches, each once: the settings say which can't be measured."""
    return tuple(dict.fromkeys(whole_numbers(text))) if text.strip() else ()


def names(text: str) -> tuple[str, ...]:
    """Names with a comma between them, each once."""
    return tuple(dict.fromkeys(word for word in (part.strip().lower() for part in text.split(",")) if word))


def repeats(text: str) -> Any:
    """A count as it stands, which the settings judge, or the word auto."""
    word = text.strip().lower()
    if word == "auto":
        return word
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None


def weights(text: str) -> tuple[Any, ...]:
    """Which weights to run, each once."""
    from workbench.experiments.settings import Weights

    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or any(word not in list(Weights) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not real, synthetic or both with a comma")
    return tuple(Weights(word) for word in dict.fromkeys(words))
