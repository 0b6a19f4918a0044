"""The command that measures how much the workbench disturbs its own timings on this box."""

import argparse
import tempfile
from pathlib import Path

from workbench.engines.engine import load_transformers
from workbench.experiments.selfcheck.comparison import MEDIAN_BAR, P90_BAR, Verdict, overall
from workbench.experiments.selfcheck.selfcheck import SelfcheckSettings, check_selfcheck, selfcheck
from workbench.output import Format, note, print_json, print_records
from workbench.runner import Runner
from workbench.runs.measuring import measuring_begun, others_words
from workbench.runs.store import Store


def run_selfcheck(options: argparse.Namespace) -> int:
    """Measure and print; exits 1 where the workbench disturbs more than its bars allow."""
    settings = SelfcheckSettings(
        model=options.model,
        dtype=options.dtype,
        device=options.device,
        threads=options.threads,
        rounds=options.rounds,
        most_rounds=max(options.rounds, options.most_rounds),
    )
    check_selfcheck(settings)
    from workbench.ui.selfcheck import in_app

    # A store of its own: what the rounds measure is no run of the person's, whose store only says who measures.
    with Store() as shared, measuring_begun(shared.measuring) as beside, tempfile.TemporaryDirectory() as folder:
        if words := others_words(beside.others):
            note(words)
        runner = Runner(lambda: Store(Path(folder) / "runs.sqlite3"))
        found = selfcheck(settings, load_transformers, runner, in_app, note)
    gravest = overall(found)
    match options.format:
        case Format.JSON:
            print_json({"verdict": gravest, "median_bar": MEDIAN_BAR, "p90_bar": P90_BAR, "conditions": found})
        case _:
            print_records(found, options.format)
    note(_sentence(gravest))
    return 1 if gravest is Verdict.NOT_WITHIN else 0


def _sentence(gravest: Verdict) -> str:
    bars = f"at most {MEDIAN_BAR} of the bare steps in the median and {P90_BAR} at the 90th percentile"
    match gravest:
        case Verdict.WITHIN:
            return f"With the app open the steps take {bars}: within, with 95 % confidence."
        case Verdict.NOT_WITHIN:
            return f"With the app open the steps take more than is allowed, {bars}: measure with `workbench sweep`."
        case _:
            return (
                f"Whether the steps take {bars} with the app open can't be told here: the intervals hold the bars. "
                "End what else runs, or allow more rounds with --most-rounds."
            )
