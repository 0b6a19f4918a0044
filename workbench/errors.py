"""Errors meant for a person: what went wrong, where, what was expected and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class WorkbenchError(Exception):
    """A failure that its message explains in full; the command line exits with 2, the app shows it."""


class ModelError(WorkbenchError):
    """A model that can't be named, read or loaded."""


class SettingsError(WorkbenchError):
    """A setting that is out of range or unknown."""


class MemoryRefused(WorkbenchError):
    """A run whose predicted memory is more than this process may still take."""


class StoreError(WorkbenchError):
    """The store of runs, or a file exported from it, that can't be opened or written."""


class ImportRefused(WorkbenchError):
    """A file of results that can't be read, or in which there are none."""


def first_line(error: BaseException) -> str:
    """The first line of what was raised, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


MOST_LISTED = 30
"""Names a refusal lists in full; of more, the nearest few."""
ALIKE = 0.4
"""How like a name must be to one that is not known, of 1 for the same, to be listed for it."""


def unknown_name(kind: str, name: str, known: Iterable[str], lister: str = "") -> str:
    """A sentence that refuses `name`, offers the nearest known one and lists the rest, or of many those like it.

    `lister` is the command that lists all of them.
    """
    names = sorted(known)
    asked, lowered = name.lower(), [n.lower() for n in names]
    nearest = get_close_matches(asked, lowered, n=1, cutoff=0.5)
    offer = f" Did you mean {nearest[0]}?" if nearest else ""
    alike = get_close_matches(asked, lowered, n=8, cutoff=ALIKE)
    if len(names) <= MOST_LISTED:
        listed = f"Known: {', '.join(names)}"
    elif alike:
        listed = f"Nearest of the {len(names)} known: {', '.join(alike)}"
    else:
        listed = f"None of the {len(names)} known is like it{f'; {lister} lists them' if lister else ''}"
    return f"There is no {kind} named {name!r}.{offer} {listed}."
