"""The winner of a search as a preset of the person's own: a track that opens with the model run that way."""

import json
import re
from dataclasses import replace
from pathlib import Path

from workbench.experiments.gap.variant import AS_LOADED, Variant
from workbench.experiments.settings import GapSettings
from workbench.paths import config_folder
from workbench.runs.ladder import Fastest


def preset_path(model: str) -> Path:
    """The file of the winner for a model; the next search's winner takes its place."""
    return (
        config_folder() / "presets" / "tracks" / f"fastest-{re.sub(r'[^a-z0-9.]+', '-', model.lower()).strip('-')}.toml"
    )


def save_winner(settings: GapSettings, model: str, winner: Variant, found: Fastest) -> str:
    """Write the track of a winner for a model preset and give its path; empty where it can't be written."""
    path = preset_path(model)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(preset_text(settings, model, winner, found), encoding="utf-8")
    except OSError:
        return ""
    return str(path)


def preset_text(settings: GapSettings, model: str, winner: Variant, found: Fastest) -> str:
    """The track as TOML: dtype and threads for its sweeps, and in its notes what else the winner changes.

    Sweeps run a model as transformers loads it, so that nothing but those two can be set for them.
    """
    what = "prefill" if settings.prefill else "decode step"
    notes = [
        f"Found by a search: a {what} of {settings.batch:,} × {settings.context:,} tokens takes "
        f"{found.pass_s * 1e3:.1f} ms instead of {found.as_loaded_s * 1e3:.1f} in {settings.dtype}: {found.note}."
    ]
    rest = replace(winner, dtype=None, threads=None)
    if rest != AS_LOADED:
        notes.append(f"The sweeps below do without what else it takes: {rest}.")
    lines = [
        f"name = {_text(f'fastest {model}')}",
        f"title = {_text(f'{model}, the fastest found')}",
        f"hardware = {_text(settings.track)}",
        f"models = [{_text(model)}]",
        f"notes = [{', '.join(map(_text, notes))}]",
        "",
        "[sweep]",
        f"dtype = {_text(winner.dtype or settings.dtype)}",
    ]
    if winner.threads is not None:
        lines.append(f"threads = {winner.threads}")
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """A basic string of TOML, which JSON's escapes are a part of."""
    return json.dumps(text, ensure_ascii=False)
