"""What the commands about the runs kept take."""

import argparse
from pathlib import Path

from workbench.commands.arguments.parser import Commands, add_format, lazy
from workbench.commands.arguments.shared import MODEL_HELP
from workbench.output import Format


def add_runs(commands: Commands) -> None:
    """`workbench runs` and its actions."""
    about = "the runs kept: list, show, export, import, explain, compare, resume, delete"
    runs = commands.add_parser("runs", help=about, description="The runs kept.")
    actions = runs.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, function, about in (
        ("list", "list_runs", "all runs, the newest first by their own date"),
        ("show", "show", "one run's rows"),
        ("export", "export", "one run's rows as CSV"),
        ("import", "import_results", "results of llama-bench or llama-batched-bench, in any of their formats, as runs"),
        ("explain", "explained", "which symptoms rows of a run show, the phase of each, and what acts on it"),
        ("compare", "compared", "two runs side by side, at the points both measured"),
        ("resume", "resume", "measure the missing points of a run that was interrupted"),
        ("delete", "delete", "take a run and its rows out of the store, for good"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        add_format(action, Format.CSV if name == "export" else Format.TABLE)
        action.set_defaults(command=lazy("runs", function))
        if name == "compare":
            action.add_argument("run", metavar="RUN", help="its name, or last")
            action.add_argument("other", metavar="OTHER", help="the run it is compared with: ratios are its over RUN's")
        elif name == "explain":
            action.add_argument(
                "runs",
                metavar="RUN",
                nargs="*",
                default=["last"],
                help="names, or last (the default: what came into the store last), read together",
            )
        elif name == "import":
            _add_import(action)
        elif name == "delete":
            action.add_argument("run", metavar="RUN", help="its name, or last")
        elif name != "list":
            last = "its name, or last (the default): what came into the store last, measured or imported"
            action.add_argument("run", metavar="RUN", nargs="?", default="last", help=last)
        if name in ("resume", "delete"):
            action.add_argument(
                "--take-over",
                action="store_true",
                help="of a run whose process is gone with its machine, which can't be seen from here",
            )
        if name == "export":
            action.add_argument("--output", type=Path, metavar="PATH", help="a file; default standard output")


def _add_import(action: argparse.ArgumentParser) -> None:
    action.epilog = (
        "A prefill (pp) and the steps (tg) that go on from as many tokens are one row; others stand alone. Without "
        "--model and --hardware the rows have no ceiling."
    )
    action.add_argument("file", type=Path, metavar="FILE", help="csv, json, jsonl, md or sql; or the batched table")
    action.add_argument("--model", metavar="MODEL", help=f"what was measured: {MODEL_HELP}, quantised as it was")
    action.add_argument("--hardware", metavar="NAME", help="where: a device or a track, or this machine once probed")
    action.add_argument("--again", action="store_true", help="although the same file was imported before")
