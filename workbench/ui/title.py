"""The two lines at the top: where and what, and the panes."""

from rich.cells import cell_len, set_cell_size

from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.settings import SweepSettings
from workbench.hardware.machine import Machine
from workbench.ui.live_run import LiveRun

NAME = "Inference Workbench"
PANES = (
    ("1", "Setup", "setup"),
    ("2", "Ceiling", "ceiling"),
    ("3", "Prefill/Decode", "prefill_decode"),
    ("4", "Batch", "batch"),
    ("5", "Gap", "gap"),
    ("6", "Runs", "runs"),
)
GAP = 3


def title_line(width: int, machine: Machine, settings: SweepSettings, live: LiveRun | None) -> str:
    """The machine on the left, what runs on it on the right, shortened from the left's end to fit."""
    right = " · ".join(labels(settings, live))
    inner = width - 2
    room = max(0, inner - GAP - cell_len(right))
    parts = str(machine).split(" · ")
    shorter = (" · ".join(parts[:count]) for count in range(len(parts), 0, -1))
    wordings = (f"{NAME}   {settings.track} · {machine}", f"{NAME}   {machine}", *shorter)
    left = next((wording for wording in wordings if cell_len(wording) <= room), wordings[-1])
    if cell_len(left) > room:
        left = set_cell_size(left, max(0, room - 1)) + "…"
    return f"{left}{' ' * (inner - cell_len(left) - cell_len(right))}{right}"


def labels(settings: SweepSettings, live: LiveRun | None) -> tuple[str, ...]:
    """Model, dtype, engine and device: as the last row says, or as they are set."""
    if live is not None and live.rows:
        row = live.rows[-1]
        return row.model, row.dtype, row.engine, row.device
    chosen = settings if live is None or live.over else live.settings
    dtype = (chosen.form,) if chosen.engine == TRANSFORMERS else ()
    return chosen.model.rpartition("/")[2], *dtype, chosen.engine, chosen.device


def tab_line(pane: str) -> str:
    """The panes with their keys, the open one marked, in Textual's markup."""
    return "".join(
        f"[b reverse] {key} {name} [/]" if pane == ident else f" {key} {name} " for key, name, ident in PANES
    )
