"""Whether a terminal can show the app at all, and whether it may show other characters, from the environment."""

from collections.abc import Mapping

DUMB = ("dumb", "unknown")
LOCALE_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
"""The first of these that is set decides, as POSIX has it."""
PYTHONS_OWN = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python sets LC_CTYPE to where the locale is C or POSIX: PEP 538. It says nothing of the terminal."""


def why_no_screen(environment: Mapping[str, str]) -> str:
    """Why the app can't be shown in this terminal, and what to do; empty where it can."""
    terminal = environment.get("TERM", "")
    if terminal not in DUMB:
        return ""
    return (
        f"This terminal calls itself {terminal!r} (TERM): it can't place text on a screen, as the app must. Set TERM "
        "to what it is, as in `TERM=xterm-256color workbench`, or measure without the screen: `workbench sweep MODEL`."
    )


def doubtful_characters(environment: Mapping[str, str]) -> str:
    """Why characters may show as others here, in ASCII alone; empty where the locale is UTF-8, or none is set."""
    known = [name for name in LOCALE_VARIABLES if environment.get(name)]
    if environment.get("LC_CTYPE") in PYTHONS_OWN and environment.get("LANG") in ("C", "POSIX"):
        known.remove("LC_CTYPE")
    name = next(iter(known), "")
    locale = environment.get(name, "")
    if not name or "utf8" in locale.lower().replace("-", ""):
        return ""
    return (
        f"The locale is {locale} ({name}), which is not UTF-8. Charts are drawn in ASCII for that; where other text "
        "shows odd characters too, leave with ctrl+q and open the app with `LC_ALL=C.UTF-8 workbench`, in a "
        "terminal that is set to UTF-8. The commands print question marks for what can't be shown."
    )
