"""What presets of every kind share: how a TOML file is read, where the files lie, and how a name is found."""

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    Protocol,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from workbench.errors import WorkbenchError, unknown_name
from workbench.paths import config_folder, resource

Kind = Literal["models", "hardware", "tracks"]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Ordinal = Annotated[int, Meta(ge=1, le=2**62)]
"""A whole number of which there is at least one."""
Positive = Annotated[float, Meta(ge=1e-6, lt=1e12)]
"""A figure in the unit of its key; the limits keep what is computed from it finite and above zero."""
Text = Annotated[str, Meta(min_length=1)]


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every preset has: the name it is asked for by."""

    name: str


class Named(Protocol):
    """Anything that is found by its name."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Preset)
T = TypeVar("T", bound=Named)


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """What could be read, by `name_key`, and a sentence for each file that could not."""

    by_name: Mapping[str, T]
    problems: tuple[str, ...]


def preset_folders(kind: Kind) -> tuple[Path, Path]:
    """The folder of that kind which is shipped, and a person's own, whose presets win."""
    return resource("presets") / kind, config_folder() / "presets" / kind


def load(kind: Kind, read: Callable[[Path], T], *folders: Path) -> Loaded[T]:
    """Every preset in `folders` (by default the shipped and the person's own), each made by `read` from its file.

    A later folder's presets win. Of two with the same name in one folder neither is used, and that is told, as is each
    file that `read` refuses with a WorkbenchError.
    """
    by_name: dict[str, T] = {}
    problems: list[str] = []
    for folder in folders or preset_folders(kind):
        files: dict[str, Path] = {}
        for path in sorted(folder.glob("*.toml")):
            try:
                preset = read(path)
            except WorkbenchError as error:
                problems.append(str(error))
                continue
            key = name_key(preset.name)
            if key in files:
                problems.append(
                    f"The preset {path}: name: {preset.name!r} is also the name of {files[key].name} in the same "
                    "folder, so neither is used. Rename one of them."
                )
                by_name.pop(key, None)
                continue
            files[key] = path
            by_name[key] = preset
    return Loaded(by_name, tuple(problems))


LISTER = "`workbench presets`"


def name_key(name: str) -> str:
    """A name as it is compared: without regard to case, and to spaces around it."""
    return name.strip().casefold()


def find(what: str, name: str, loaded: Loaded[T], refused: type[WorkbenchError]) -> T:
    """The preset of that name.

    Raises `refused` with the nearest known name, and with the files that could not be read: it may be in one of them.
    """
    found = loaded.by_name.get(name_key(name))
    if found is None:
        known = [preset.name for preset in loaded.by_name.values()]
        raise refused(" ".join([unknown_name(what, name, known, LISTER), *in_short(loaded.problems, name)]))
    return found


def in_short(problems: Sequence[str], asked: str | None = None) -> Iterator[str]:
    """The problem of a file that seems to be the one asked for, or the only one; of others their number."""
    near = None if asked is None else next((p for p in problems if name_key(asked) in p.casefold()), None)
    shown = near if near is not None or len(problems) != 1 else problems[0]
    if shown is not None:
        yield shown
    others = len(problems) - (shown is not None)
    if others:
        yield f"{others} {'other ' if shown else ''}preset files have mistakes: `workbench presets` tells each."


def read_preset(path: Path, struct: type[P], refused: type[WorkbenchError]) -> P:
    """One preset from its file.

    Raises `refused`, which names the file and the key, and the nearest known key for a mistyped one.
    """
    values = _values(path, refused)
    try:
        preset = msgspec.convert(values, struct)
        for place, number in _numbers(values):
            if not math.isfinite(number):
                raise mistake(path, f"{place} is {number}; it must be a finite number.", refused)
    except msgspec.ValidationError as error:
        raise mistake(path, _explained(str(error), struct, values), refused) from error
    except RecursionError as error:
        raise mistake(path, f"{next(reversed(values))}: tables lie too deep in each other.", refused) from error
    if not preset.name.strip():
        raise mistake(path, "name is empty; give the preset the name it is asked for by.", refused)
    if preset.name != preset.name.strip() or not preset.name.isprintable():
        raise mistake(path, f"name is {preset.name!r}; it must be one line without spaces around it.", refused)
    return preset


def mistake(path: Path, what: str, refused: type[WorkbenchError]) -> WorkbenchError:
    """The error that says what is wrong in a preset's file; `what` starts with the key and is a sentence."""
    return refused(f"The preset {path}: {what}")


def _values(path: Path, refused: type[WorkbenchError]) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            # A pipe would never end, nor let go of who reads it.
            raise refused(f"The preset {path} is not a file. Move it out of the folder, or rename it.")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise refused(f"The preset {path} can't be read: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise refused(f"The preset {path} is not valid TOML: {error}.") from error


def _numbers(value: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Every number with a fraction under `value`, and the key it stands at."""
    match value:
        case float():
            yield place, value
        case dict():
            for key, inner in value.items():
                yield from _numbers(inner, f"{place}.{key}" if place else key)
        case list():
            for index, inner in enumerate(value):
                yield from _numbers(inner, f"{place}[{index}]")


_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(?P<key>.*)`", re.DOTALL)
_UNKNOWN_VALUE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_IN_WORDS = {
    "`float`": "a number",
    "`int`": "a whole number",
    "`str`": "text in quotes",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a table",
    "Object ": "table ",
}


def _explained(message: str, struct: type[msgspec.Struct], values: dict[str, Any]) -> str:
    """msgspec's message as a sentence that starts with the key, with the nearest of what is known for the unknown."""
    parts = _PLACE.fullmatch(message)
    what, place = (parts["what"], parts["place"] or "") if parts else (message, "")
    if unknown := _UNKNOWN_KEY.fullmatch(what):
        key = unknown["key"]
        return (
            f"there is no key {key!r}{f' in {place}' if place else ''}. {_nearest(key, _keys(_type_at(struct, place)))}"
        )
    found = _value_at(values, place)
    said = f" is {found!r}" if isinstance(found, str | int | float) else ""
    if _UNKNOWN_VALUE.fullmatch(what):
        return f"{place}{said}, which is not known. {_nearest(str(found), _choices(_type_at(struct, place)))}"
    for term, words in _IN_WORDS.items():
        what = what.replace(term, words)
    return f"{place}{said}: {what[:1].lower()}{what[1:]}." if place else f"{what}."


def _nearest(name: str, known: list[str]) -> str:
    """The offer of the known word nearest to `name`, or of all of them where none is near."""
    nearest = get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
    return f"Did you mean {nearest[0]}?" if nearest else f"Known: {', '.join(known)}."


def _keys(kind: Any) -> list[str]:
    """The keys of a struct."""
    return [field.encode_name for field in msgspec.structs.fields(kind)] if _is_struct(kind) else []


def _choices(kind: Any) -> list[str]:
    """The values of an enumeration, or of a Literal."""
    values = [member.value for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else get_args(kind)
    return [str(value) for value in values]


def _type_at(kind: Any, place: str) -> Any:
    """The type that stands at `place` under another, through lists, tables and what may be missing; None if unknown."""
    for step in _steps(place):
        if step.startswith("["):
            inner = get_args(kind)
            kind = (inner[-1] if get_origin(kind) is dict else inner[0]) if inner else None
        else:
            kind = get_type_hints(kind).get(step) if _is_struct(kind) else None
        if get_origin(kind) in (Union, UnionType):
            kind = next((arm for arm in get_args(kind) if arm is not type(None)), None)
    return kind


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _steps(place: str) -> list[str]:
    """The keys and indices of a place as msgspec writes it: `groups[0].bytes`."""
    return re.findall(r"\[[^\]]*\]|[^.\[]+", place)


def _value_at(values: Any, place: str) -> Any:
    """What the file has at `place`; None where the place is not told in full."""
    for step in _steps(place):
        index = step.strip("[]")
        if isinstance(values, dict):
            values = values.get(step)
        elif isinstance(values, list) and index.isdecimal() and int(index) < len(values):
            values = values[int(index)]
        else:
            return None
    return values
