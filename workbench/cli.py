"""The commands: the same core as the app, without the screen. Imports neither torch nor textual."""

import logging
import sys
from collections.abc import Sequence

from workbench import __version__
from workbench.commands.arguments.ceilings import (
    add_ceiling,
    add_fit,
    add_latency,
    add_prefill,
    add_roofline,
    add_split,
)
from workbench.commands.arguments.models import add_inspect, add_presets
from workbench.commands.arguments.parser import USAGE_EXIT, Command, Parser, lazy
from workbench.commands.arguments.predicting import add_predict
from workbench.commands.arguments.runs import add_runs
from workbench.commands.arguments.selfcheck import add_selfcheck
from workbench.commands.arguments.sweeps import add_batch, add_gap, add_probe, add_sweep
from workbench.errors import WorkbenchError
from workbench.output import note, write_nowhere

OUTPUT_EXIT, INTERRUPTED_EXIT = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input, 1 failed, 130 interrupted."""
    _print_any_character()
    options = _parser().parse_args(arguments)
    _log_to_file()
    command: Command = options.command
    try:
        return command(options)
    except WorkbenchError as error:
        note(f"workbench: {error}")
        return USAGE_EXIT
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        # The reader of the output has gone; closing it here keeps Python from complaining at exit.
        write_nowhere(sys.stdout)
        return 0
    except OSError as error:
        write_nowhere(sys.stdout)
        note(f"workbench: the output can't be written: {error.strerror or error}.")
        return OUTPUT_EXIT


def _parser() -> Parser:
    parser = Parser(
        prog="workbench",
        description="What this box could do with a language model, what it does, and where the difference went. "
        "Without a command it opens the app.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--preset", metavar="NAME", help="open on a track, a device or a model preset")
    parser.set_defaults(command=lazy("sweeps", "open_app"))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (
        add_presets,
        add_inspect,
        add_ceiling,
        add_prefill,
        add_fit,
        add_split,
        add_latency,
        add_roofline,
        add_probe,
        add_predict,
        add_sweep,
        add_batch,
        add_gap,
        add_runs,
        add_selfcheck,
    ):
        add(commands)
    return parser


def _print_any_character() -> None:
    """Let a terminal that can't show a character show a question mark, rather than end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _log_to_file() -> None:
    from workbench.paths import log_file

    path = log_file()
    # A log that can't be written, as on a full disk, must neither be told of line by line nor end what is logged.
    logging.raiseExceptions = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    except OSError:
        logging.basicConfig(handlers=[logging.NullHandler()])
