"""A record of another tool's results: its values by column name, as text or as JSON had them, and how to trust them."""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST_WORD = 120
MOST_TOKENS = 1_000_000_000
"""Of a prompt, an answer or a context: no model holds as many."""
MOST_RECORDS = 100_000
_UNNAMED = frozenset({"", "unnamed: 0"})
"""What stands over the numbers that pandas gives to rows: no setting, or each row would be a run of its own."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0+)?")


class NotAFigure(ValueError):
    """A value that can't be a count, a time or a rate; its message says which and why."""


@dataclass(frozen=True)
class Record:
    """One result under its column names, and the line of the file it begins on, counted from 1."""

    line: int
    values: Mapping[str, Any]

    @property
    def said(self) -> str:
        """All of it as text, by which the same result is known again."""
        return repr(self.values)


@dataclass
class Found:
    """The results of one file, what it was written as, and in words what else it held or lacked."""

    form: str
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Of the results alone: the same ones are known again under other line ends, packed, or among other lines."""
        digest = hashlib.sha256()
        for record in self.records:
            digest.update(record.said.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def is_full(self) -> bool:
        """Whether no more results are taken."""
        return len(self.records) >= MOST_RECORDS


def word(value: Any) -> str:
    """A value as one short line of printable text; empty for none."""
    if value is None or isinstance(value, list | dict):
        return ""
    text = "".join(c if c.isprintable() else " " for c in str(value)[: 4 * LONGEST_WORD])
    plain = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    return plain if len(plain) <= LONGEST_WORD else f"{plain[: LONGEST_WORD - 1]}…"


def count(values: Mapping[str, Any], name: str, most: int = MOST_TOKENS) -> int | None:
    """A whole number of at least zero; None where the column is missing or empty. Raises NotAFigure for another."""
    value = values.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value.strip().partition(".")[0])
    if not isinstance(value, int) or not 0 <= value <= most:
        raise NotAFigure(f"{name} is {word(value) or 'no number'}, which is no count of that")
    return value


def known_count(values: Mapping[str, Any], name: str, most: int = MOST_TOKENS) -> int:
    """The same of a result that has no figure; 0 where it doesn't tell."""
    try:
        return count(values, name, most) or 0
    except NotAFigure:
        return 0


def amount(values: Mapping[str, Any], name: str) -> float | None:
    """A number above zero; None where the column is missing or empty. Raises NotAFigure for another."""
    value = values.get(name)
    return None if value is None or value == "" else above_zero(value, name)


def above_zero(value: Any, what: str) -> float:
    """A value as a finite number above zero; raises NotAFigure for anything else."""
    try:
        # Python's own reading of a number allows underscores, which no tool writes.
        number = math.nan if isinstance(value, bool) or "_" in str(value)[:LONGEST_WORD] else float(value)
    except (TypeError, ValueError, OverflowError):
        raise NotAFigure(f"{what} is {word(value) or 'no number'}, which is no number") from None
    if not (math.isfinite(number) and number > 0):
        raise NotAFigure(f"{what} is {word(value)}; it must be above zero, and finite")
    return number


def line_counter(text: str) -> Callable[[int], int]:
    """Gives the line, counted from 1, of a place in the text; each place asked for lies after the one before it."""
    line, counted = 1, 0

    def line_at(place: int) -> int:
        nonlocal line, counted
        line += text.count("\n", counted, place)
        counted = place
        return line

    return line_at


def by_name(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Values under the names of their columns; names without a value are left out, and values without a name."""
    if len(values) == len(names) + 1 and "cuda" in names and "opencl" not in names:
        # llama-bench of autumn 2023 wrote a value of opencl without naming the column. Source: its own README.
        place = list(names).index("cuda") + 1
        names = [*names[:place], "opencl", *names[place:]]
    return {name: value for name, value in zip(names, values, strict=False) if name not in _UNNAMED}


def left_out(count: int, what: str, why: str) -> str:
    """How many of something were left out, and why, in words."""
    return f"1 {what} is left out: {why}" if count == 1 else f"{count:,} {what}s are left out: {why}"
