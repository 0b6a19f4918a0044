"""The one line of keys at the bottom, for what has the focus."""

from textual.widget import Widget

from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.lever_table import LeverTable
from workbench.ui.widgets.run_table import MOST_MARKED, RunTable
from workbench.ui.widgets.strip import Strip

SEPARATOR = "  "
LINE_WIDTH = 78
LEAST_NEEDED_OF_RUNS = ("i import", "e export", "g gap")
RUN_PANES = ("prefill_decode", "batch")


def key_line(pane: str, focused: Widget | None, busy: bool, has_run: bool) -> str:
    """The keys that do something now."""
    if isinstance(focused, Entry) and focused.editing:
        return SEPARATOR.join(("enter keep", "esc undo", "^q quit"))
    if isinstance(focused, Entry):
        return SEPARATOR.join(("type or enter edit", "tab next", "esc leave", "^p palette", "^q quit"))
    if isinstance(focused, RunTable):
        return SEPARATOR.join(_keys_of_runs(focused, busy))
    keys = ["x stop"] if busy else ["r to setup" if pane == "ceiling" else "r run"]
    if has_run:
        keys.append("e export")
    if isinstance(focused, Choice):
        keys.append("←→ change")
    elif isinstance(focused, Strip):
        keys.append("enter box")
    elif pane == "ceiling" or (pane in (*RUN_PANES, "gap") and has_run):
        keys.append("enter explain")
    elif pane == "setup" and not busy:
        keys.append("p probe")
    if pane in ("setup", "ceiling"):
        keys.append("tab next")
    if pane == "gap" and has_run and not busy:
        levers = "t try" if isinstance(focused, LeverTable) else "t levers"
        return SEPARATOR.join(("r run", *keys[2:], levers, "f fastest", "w why", "v vary", "? help", "q quit"))
    if pane in (*RUN_PANES, "gap") and has_run:
        what = "vary" if pane == "gap" else "charts"
        return SEPARATOR.join((*keys, "w why", f"v {what}", "? help", "^p palette", "q quit"))
    if pane == "gap" and not busy:
        keys.append("v vary")
    # r leads from the Ceiling pane to Setup too.
    beside = {"setup": ["2 ceiling"], "ceiling": []}.get(pane, ["1 setup"])
    keys += ["? help", *beside, "^p palette", "q quit"]
    return SEPARATOR.join(keys)


def _keys_of_runs(runs: RunTable, busy: bool) -> list[str]:
    """Those that do something, as many as 80 columns hold; the least needed are left to the help."""
    two_marked = len(runs.marked) == MOST_MARKED
    keys = {
        "x stop": busy,
        "enter open": runs.selected is not None,
        "g gap": runs.selected is not None,
        "space mark": runs.selected is not None and not two_marked,
        "c compare": two_marked,
        "u resume": runs.resumable and not busy,
        "l ledger": runs.selected is not None,
        "e export": runs.selected is not None,
        "/ filter": True,
        "i import": not busy,
        "? help": True,
        "q quit": True,
    }
    shown = [key for key, does_something in keys.items() if does_something]
    for key in LEAST_NEEDED_OF_RUNS:
        if len(SEPARATOR.join(shown)) > LINE_WIDTH and key in shown:
            shown.remove(key)
    return shown
