"""The commands that open the app or measure: none, probe, sweep, batch and gap."""

import argparse
import os
import sys
from typing import Any

from workbench.errors import SettingsError
from workbench.experiments.gap.perturbation import perturbations
from workbench.experiments.probe import ProbeSettings
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings, SweepSettings
from workbench.headless import run_gap, run_perturbation, run_probe, run_sweeps
from workbench.output import Format, note
from workbench.tracks import opened_on, track_settings


def open_app(options: argparse.Namespace) -> int:
    """The app, or the same first run without it where there is no terminal."""
    opening = opened_on(options.preset)
    if sys.stdin.isatty() and sys.stdout.isatty():
        from workbench.ui.run_app import run_app
        from workbench.ui.terminal_fit import why_no_screen

        if reason := why_no_screen(os.environ):
            raise SettingsError(reason)
        return run_app(track_settings(opening), track=opening)
    note("There is no terminal here, so the first run is done without the screen. `workbench --help` lists commands.")
    return run_sweeps([track_settings(opening)], Format.TABLE)


def probe(options: argparse.Namespace) -> int:
    """Measure this box, and keep what was found as its calibration."""
    return run_probe(ProbeSettings(options.model, options.device, options.quick), options.format)


def sweep(options: argparse.Namespace) -> int:
    """A sweep of each kind of weights asked for."""
    settings = [
        SweepSettings(
            model=options.model,
            weights=weights,
            prompts=SweepSettings.prompts if options.prompts is None else options.prompts,
            new_tokens=options.new_tokens,
            repeats=options.repeats,
            precision=options.precision,
            most_repeats=options.most_repeats,
            most_seconds=options.most_seconds,
            dtype=options.dtype,
            device=options.device,
            threads=options.threads,
        )
        for weights in options.weights
    ]
    return run_sweeps(settings, options.format)


def batch(options: argparse.Namespace) -> int:
    """A batch sweep of each kind of weights asked for."""
    settings = [
        BatchSettings(
            model=options.model,
            weights=weights,
            contexts=BatchSettings.contexts if options.contexts is None else options.contexts,
            batches=BatchSettings.batches if options.batches is None else options.batches,
            **_repeated(options),
            mixed=options.contexts_mixed,
            dtype=options.dtype,
            device=options.device,
            threads=options.threads,
        )
        for weights in options.weights
    ]
    return run_sweeps(settings, options.format)


def _repeated(options: argparse.Namespace) -> dict[str, Any]:
    """The steps of a batch and the repeats of them: steps that are asked for by number are timed once."""
    asked = options.steps is not None
    return {
        "steps": options.steps if asked else BatchSettings.steps,
        "repeats": (1 if asked else BatchSettings.repeats) if options.repeats is None else options.repeats,
        "precision": options.precision,
        "most_repeats": options.most_repeats,
        "most_seconds": options.most_seconds,
    }


def gap(options: argparse.Namespace) -> int:
    """Take one pass apart, from its ceiling to its measured time, or vary what it is given."""
    settings = GapSettings(
        model=options.model,
        weights=options.weights[0],
        context=options.context if options.prefill is None else options.prefill,
        batch=options.batch,
        prefill=options.prefill is not None,
        seconds=options.seconds,
        levers=options.levers,
        fastest_within=options.within if options.fastest else None,
        dtype=options.dtype,
        device=options.device,
        threads=options.threads,
        track=RunSettings.track if options.track is None else opened_on(options.track).name,
    )
    if options.perturb:
        return run_perturbation(*perturbations(settings, options.context), options.format)
    return run_gap(settings, options.format)
