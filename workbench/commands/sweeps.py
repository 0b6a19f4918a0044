"""The commands that open the app or measure: none, probe, sweep, batch and gap."""

import argparse
import os
import sys
from dataclasses import replace
from typing import Any

from workbench.ceilings.split import slow_share
from workbench.commands.engine_options import asked_key, engine_settings
from workbench.errors import SettingsError
from workbench.experiments.gap.named_variants import variant_named
from workbench.experiments.gap.perturbation import perturbations
from workbench.experiments.gap.verdict import with_verdict
from workbench.experiments.probe import ProbeSettings
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings, SweepSettings
from workbench.gap_output import print_ladder
from workbench.headless import run_gap, run_perturbation, run_probe, run_sweeps
from workbench.output import Format, note
from workbench.runs.ladder import DECODE, PREFILL
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.points import Asked
from workbench.runs.row_ladder.rates import VendorRates
from workbench.runs.store import Store
from workbench.runs.symptoms import ALIKE_BUT_THREADS, explained_rows
from workbench.tracks import hardware_named, opened_on, track_batch, track_settings


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
    begun = SweepSettings() if options.track is None else track_settings(opened_on(options.track))
    chosen = _chosen(options, begun)
    about = _given(prompts=options.prompts, new_tokens=options.new_tokens, repeats=options.repeats)
    settings = [replace(begun, **chosen, weights=weights, **about) for weights in options.weights]
    return run_sweeps(settings, options.format, asked_key(options))


def batch(options: argparse.Namespace) -> int:
    """A batch sweep of each kind of weights asked for."""
    begun = BatchSettings() if options.track is None else track_batch(opened_on(options.track))
    chosen = _chosen(options, begun)
    # Steps that are asked for by number are timed once.
    repeats = 1 if options.steps is not None and options.repeats is None else options.repeats
    about = _given(contexts=options.contexts, batches=options.batches, steps=options.steps, repeats=repeats)
    settings = [
        replace(begun, **chosen, weights=weights, mixed=options.contexts_mixed, **about) for weights in options.weights
    ]
    return run_sweeps(settings, options.format, asked_key(options))


def _chosen(options: argparse.Namespace, begun: RunSettings) -> dict[str, Any]:
    """What the options say of model, engine, what is loaded and how often it is measured; a track names a model too."""
    if options.model is None and options.track is not None and options.endpoint is None:
        options.model = begun.model
    return engine_settings(options) | _given(
        layers=options.layers,
        variant=None if options.levers is None else variant_named(options.levers),
        dtype=options.dtype,
        device=options.device,
        threads=options.threads,
        precision=options.precision,
        most_repeats=options.most_repeats,
        most_seconds=options.most_seconds,
    )


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def gap(options: argparse.Namespace) -> int:
    """Take one pass apart, from its ceiling to its measured time, or vary what it is given, or read kept rows."""
    if (options.model is None) == (options.runs is None):
        raise SettingsError("Name either a model, whose pass is measured, or a kept run with --run RUN, not both.")
    if (options.slow_share is None) != (options.slow is None):
        raise SettingsError("A slower memory is told by two figures: --slow-share SHARE and --slow GBPS.")
    if options.runs is not None:
        return _ladder_of_rows(options)
    context = GapSettings.context if options.context is None else options.context
    settings = GapSettings(
        model=options.model,
        weights=options.weights[0],
        context=context if options.prefill is None else options.prefill,
        batch=GapSettings.batch if options.batch is None else options.batch,
        prefill=options.prefill is not None,
        seconds=options.seconds,
        levers=options.levers,
        fastest_within=options.within if options.fastest else None,
        dtype=options.dtype,
        device=options.device,
        threads=options.threads,
        track=RunSettings.track if options.track is None else opened_on(options.track).name,
        slow_share=options.slow_share,
        slow_gb_per_s=options.slow,
    )
    if options.perturb:
        return run_perturbation(*perturbations(settings, context), options.format)
    return run_gap(settings, options.format)


def _ladder_of_rows(options: argparse.Namespace) -> int:
    """The ladder that kept rows show; of a run whose pass was taken apart, that ladder."""
    with Store() as store:
        runs = [store.run(name) for name in options.runs]
        taken_apart = store.ladder(runs[0].run_id) if len(runs) == 1 else None
        rows = explained_rows([(run, store.rows(run.run_id)) for run in runs], ALIKE_BUT_THREADS)
    if taken_apart is not None:
        print_ladder(runs[0], taken_apart, options.format)
        return 0
    asked = Asked(
        DECODE if options.prefill is None else PREFILL,
        options.context if options.prefill is None else options.prefill,
        options.batch,
    )
    vendor = None
    if options.track is not None:
        device = hardware_named(options.track)
        vendor = VendorRates(device.bandwidth, device.compute_for(rows[0].dtype))
    slow = None if options.slow is None else slow_share(options.slow_share, options.slow)
    print_ladder(runs[0], with_verdict(row_ladder(rows, asked, vendor, slow)), options.format)
    return 0
