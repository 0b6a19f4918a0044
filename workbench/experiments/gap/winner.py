"""The winner of a search as a preset of the person's own: a track that opens with the model run that way."""

import json
import re
from pathlib import Path

from workbench.experiments.gap.named_variants import names_of
from workbench.experiments.gap.variant import Variant
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
    """The track as TOML: its sweeps run the model with everything that the winner changes."""
    what = "prefill" if settings.prefill else "decode step"
    note = (
        f"Found by a search: a {what} of {settings.batch:,} × {settings.context:,} tokens takes "
        f"{found.pass_s * 1e3:.1f} ms instead of {found.as_loaded_s * 1e3:.1f} in {settings.dtype}: {found.note}."
    )
    lines = [
        f"name = {_text(f'fastest {model}')}",
        f"title = {_text(f'{model}, the fastest found')}",
        f"hardware = {_text(settings.track)}",
        f"models = [{_text(model)}]",
        f"notes = [{_text(note)}]",
        "",
        "[sweep]",
        f"dtype = {_text(winner.dtype or settings.dtype)}",
    ]
    if winner.threads is not None:
        lines.append(f"threads = {winner.threads}")
    if names := names_of(winner):
        lines.append(f"levers = [{', '.join(map(_text, names))}]")
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """A basic string of TOML, which JSON's escapes are a part of."""
    return json.dumps(text, ensure_ascii=False)
