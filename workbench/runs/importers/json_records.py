"""Results written as JSON or JSON lines, among whatever else stands in the file."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from workbench.runs.importers.record import Found, Record, left_out, line_counter, word

_NOT_JSON = re.compile(r"[+-]?(?:nan|inf)\b", re.IGNORECASE)
_AS_JSON = re.compile(r"(:\s*|[\[,]\s*)([+-]?)(nan|inf(?:inity)?)\b", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s\[\],]*")
LONGEST_OBJECT = 1 << 20
LONGEST_TOKEN = 16
WINDOWS = (1 << 13, LONGEST_OBJECT)
"""Characters of an object that are looked at, first and last: an error of decoding reads all before it again."""


def json_records(text: str, is_result: Callable[[Mapping[str, Any]], bool]) -> Found:
    """Every object that is a result, wherever it stands; one that breaks off is told in the notes."""
    found = Found("JSON" if "[" in text[: max(0, text.find("{"))] else "JSON lines")
    decoder = json.JSONDecoder()
    line_at = line_counter(text)
    place, cut, stray = text.find("{"), 0, _outside(text[: max(0, text.find("{"))])
    while place >= 0 and not found.is_full:
        value, end = _object(decoder, text, place)
        if isinstance(value, dict) and is_result(value):
            found.records.append(Record(line_at(place), value))
        elif isinstance(value, dict) and any(isinstance(inner, list | dict) for inner in value.values()):
            end = place + 1
        elif value is None:
            cut += '"' in text[place : min(end, place + 80)]
        following = text.find("{", end)
        if isinstance(value, dict) and not stray:
            stray = _outside(text[end : following if following >= 0 else len(text)])
        place = following
    if cut:
        found.notes.append(left_out(cut, "result", "not readable as JSON, or cut short"))
    if stray:
        found.notes.append(f"text that is no result was passed over, as in {stray!r}")
    return found


def _object(decoder: json.JSONDecoder, text: str, place: int) -> tuple[Any, int]:
    """The object that begins at `place` and where it ends; None, and where to look on, for one that can't be read."""
    at = place + 1
    for length in WINDOWS:
        window = text[place : place + length]
        try:
            value, size = decoder.raw_decode(window)
            return value, place + size
        except RecursionError:
            return None, place + 1
        except ValueError as error:
            at = place + max(1, getattr(error, "pos", 0))
            # A word, a number or a string that the window cuts may be whole in a longer one.
            if at < place + len(window) - LONGEST_TOKEN and "Unterminated" not in str(error):
                break
    if not _NOT_JSON.match(text, at):
        return None, at
    # C++ writes nan and inf as JSON has no word for them.
    end = text.find("}", at, place + LONGEST_OBJECT) + 1
    if not end:
        return None, at
    try:
        mended = _AS_JSON.sub(lambda m: f"{m[1]}{'NaN' if m[3].lower() == 'nan' else 'Infinity'}", text[place:end])
        return decoder.raw_decode(mended)[0], end
    except (ValueError, RecursionError):
        return None, max(at, end)


def _outside(text: str) -> str:
    """The first line of what stands between results, beyond JSON's own marks; empty where there is none."""
    rest = text[_BETWEEN.match(text).end() :] if text else ""  # type: ignore[union-attr]
    return word(rest[:200].splitlines()[0])[:60] if rest.strip(" \t\r\n[],}") else ""
