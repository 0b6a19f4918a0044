"""One figure of a config.json: a whole number under the many names that families give it, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import ModelError
from workbench.models.layout import per_layer

Config = Mapping[str, Any]

LARGEST = 1 << 40
"""Of any figure in the settings: what is above it is damage."""


def positive(config: Config, keys: Sequence[str], name: str) -> int | None:
    """The first of `keys` that is set, as a whole number; of a list, its largest; None where none is above zero.

    Raises ModelError, which says `name`, for what is no whole number.
    """
    for key in keys:
        value = config.get(key)
        if isinstance(value, list) and value and all(is_count(v) for v in value):
            value = max(value)
        if value is None or value == 0:
            continue
        if not is_count(value):
            raise ModelError(f"{name} has {key} = {shown(value)} in its settings where a whole number was expected.")
        return int(value)
    return None


def each_layer(config: Config, keys: Sequence[str], layers: int, name: str) -> list[int] | None:
    """The first of `keys` that is set, as a whole number for each of `layers`; None where none is set.

    Raises ModelError, which says `name`, for what is no whole number, and for too few of them.
    """
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        stated = value if isinstance(value, list) else [value]
        # Layers without attention have no heads.
        counts = [0 if count is None else count for count in stated]
        if not all(is_count(count) for count in counts):
            raise ModelError(f"{name} has {key} = {shown(value)} in its settings where a whole number was expected.")
        each = per_layer(counts if isinstance(value, list) else counts[0], layers)
        if each is None:
            raise ModelError(f"{name} has {len(counts):,} entries in {key} for {layers:,} layers. Check its settings.")
        return each
    return None


def is_count(value: object) -> bool:
    """Whether it is a whole number from zero to LARGEST."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def shown(value: object) -> str:
    """A value as an error quotes it: its first 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
