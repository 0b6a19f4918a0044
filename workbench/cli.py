"""The commands: the same core as the app, without the screen. Imports neither torch nor textual."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from workbench import __version__
from workbench.errors import WorkbenchError, unknown_name
from workbench.models.model import DTYPE_BYTES
from workbench.output import Format, json_text, note, print_csv, print_json, print_table

OUTPUT_EXIT, USAGE_EXIT, INTERRUPTED_EXIT = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input, 1 failed, 130 interrupted."""
    _print_any_character()
    options = _parser().parse_args(arguments)
    _log_to_file()
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except WorkbenchError as error:
        note(f"workbench: {error}")
        return USAGE_EXIT
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        # The reader of the output has gone; closing it here keeps Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        note(f"workbench: the output can't be written: {error.strerror or error}.")
        return OUTPUT_EXIT


def _open(options: argparse.Namespace) -> int:
    """The app, or the same first run without it where there is no terminal."""
    from workbench.experiments.settings import SweepSettings

    if sys.stdin.isatty() and sys.stdout.isatty():
        from workbench.ui.app import run_app

        return run_app(SweepSettings())
    from workbench.headless import run_sweeps

    note("There is no terminal here, so the first run is done without the screen. `workbench --help` lists commands.")
    return run_sweeps([SweepSettings()], Format.TABLE)


def _sweep(options: argparse.Namespace) -> int:
    from workbench.experiments.settings import SweepSettings
    from workbench.headless import run_sweeps

    settings = [
        SweepSettings(
            model=options.model,
            weights=weights,
            prompts=SweepSettings.prompts if options.prompts is None else options.prompts,
            new_tokens=options.new_tokens,
            repeats=options.repeats,
            dtype=options.dtype,
            device=options.device,
            threads=options.threads,
        )
        for weights in options.weights
    ]
    return run_sweeps(settings, options.format)


def _inspect(options: argparse.Namespace) -> int:
    from workbench.models.inspection import inspection
    from workbench.models.resolve import resolve

    _print_inspection(inspection(resolve(options.model), options.kv_dtype), options.format)
    return 0


def _presets(options: argparse.Namespace) -> int:
    from workbench.models.inspection import inspection
    from workbench.models.presets import load_presets, model_of, preset_model

    presets = load_presets()
    if options.name:
        _print_inspection(inspection(preset_model(options.name, presets)), options.format)
        return 0
    problems, models = list(presets.problems), []
    for _, preset in sorted(presets.models.items()):
        try:
            models.append(model_of(preset))
        except WorkbenchError as error:
            problems.append(str(error))
    for problem in problems:
        note(f"workbench: {problem}")
    listed = [
        {
            "model": model.name,
            "architecture": model.architecture,
            "quantisation": model.quantisation,
            "parameters": model.parameters,
            "read_parameters": model.read_parameters,
            "source": model.source,
        }
        for model in models
    ]
    _print_records(listed, options.format)
    return 0


def _runs_list(options: argparse.Namespace) -> int:
    from workbench.runs.store import Store

    with Store() as store:
        runs = store.runs()
    listed = [
        {
            "run_id": run.run_id,
            "started_at": run.started_at,
            "kind": run.kind,
            "model": run.model,
            "rows": run.rows,
            "status": run.status.value,
            "machine": run.machine,
            "note": run.note,
        }
        for run in runs
    ]
    if not listed and options.format is Format.TABLE:
        note("No runs yet. `workbench sweep MODEL` measures one.")
        return 0
    _print_records(listed, options.format)
    return 0


def _runs_show(options: argparse.Namespace) -> int:
    from workbench.output import RowTable
    from workbench.runs.export import csv_text, records
    from workbench.runs.row import SWEEP_TABLE, labels
    from workbench.runs.store import Store

    with Store() as store:
        run = store.run(options.run)
        rows = store.rows_with_samples(run.run_id)
    _say_if_empty(run.run_id, len(rows))
    match options.format:
        case Format.JSON:
            print_json([{**records([row])[0], "samples": asdict(samples)} for row, samples in rows])
        case Format.CSV:
            print(csv_text(row for row, _ in rows), end="")
        case _:
            print(f"{run.run_id} · {run.kind} · {run.started_at} · {run.status}{' · ' + run.note if run.note else ''}")
            if rows:
                print(labels(rows[0][0]))
            table = RowTable(SWEEP_TABLE)
            for row, _ in rows:
                table.print_row(row)
    return 0


def _runs_export(options: argparse.Namespace) -> int:
    from workbench.runs.export import csv_text, records, write_text
    from workbench.runs.store import Store

    with Store() as store:
        run = store.run(options.run)
        rows = store.rows(run.run_id)
    _say_if_empty(run.run_id, len(rows))
    text = json_text(records(rows)) if options.format is Format.JSON else csv_text(rows)
    if options.output is None:
        print(text, end="")
    else:
        path = write_text(text, options.output)
        note(f"{len(rows)} rows of {run.run_id} written to {path}")
    return 0


def _say_if_empty(run_id: str, rows: int) -> None:
    if not rows:
        note(f"{run_id} has no rows: it ended before its first prompt length was measured.")


def _print_records(listed: Sequence[dict[str, Any]], chosen: Format) -> None:
    match chosen:
        case Format.JSON:
            print_json(listed)
        case Format.CSV:
            print_csv(listed)
        case _ if listed:
            words = [i for i, value in enumerate(listed[0].values()) if isinstance(value, str)]
            print_table(list(listed[0]), [[_written(v) for v in record.values()] for record in listed], left=words)
        case _:
            pass


def _print_inspection(found: dict[str, Any], chosen: Format) -> None:
    groups = [{**group, "types": " ".join(group["types"])} for group in found["groups"]]
    figures = {name: value for name, value in found.items() if name not in ("kv", "groups", "notes")}
    figures |= {f"kv.{name}": value for name, value in found["kv"].items()}
    match chosen:
        case Format.JSON:
            print_json(found)
        case Format.CSV:
            print_csv([figures])
        case _:
            print_table(("figure", ""), [(name, _written(value)) for name, value in figures.items()], left=(0, 1))
            print()
            _print_records(groups, Format.TABLE)
            for sentence in found["notes"]:
                print(f"\n! {sentence}")


def _written(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{count} {name}" for name, count in value.items())
        case _:
            return str(value)


class _Parser(argparse.ArgumentParser):
    """Ends with one sentence, and the nearest known word for a typo, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}. `{self.prog} --help` lists what it takes.", file=sys.stderr)
        raise SystemExit(USAGE_EXIT)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            nearest = get_close_matches(str(value), known, n=1, cutoff=0.5)
            offer = f" Did you mean {nearest[0]}?" if nearest else ""
            raise argparse.ArgumentError(action, f"there is no {value!r}.{offer} Known: {', '.join(known)}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="workbench",
        description="What this box could do with a language model, what it does, and where the difference went. "
        "Without a command it opens the app.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(command=_open)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
        _add_format(command)
        command.set_defaults(command=run)
        return command

    presets = add("presets", _presets, "the models known, with the source of each figure")
    presets.add_argument("name", nargs="?", metavar="NAME", help="one of them, in full")

    inspect = add("inspect", _inspect, "what a model is and what one token reads, without loading it")
    inspect.add_argument("model", metavar="MODEL", help="a model folder, a .gguf file or a preset")
    inspect.add_argument("--kv-dtype", default="float16", choices=sorted(DTYPE_BYTES), help="element type of the cache")

    sweep = add("sweep", _sweep, "time prefill and decode apart over prompt lengths")
    sweep.add_argument("model", metavar="MODEL", help="a model folder, a .gguf file or a preset")
    sweep.add_argument(
        "--weights", type=_weights, default=(None,), metavar="real,synthetic", help="default: real where there are any"
    )
    sweep.add_argument("--prompts", type=_counts, metavar="LIST", help="prompt lengths, as in 1,16,64,256,1024,4096")
    sweep.add_argument("--new-tokens", type=int, default=17, metavar="N", help="output tokens of each request")
    sweep.add_argument("--repeats", type=int, default=3, metavar="N", help="repeats of each prompt length")
    sweep.add_argument("--dtype", default="float32", metavar="TYPE", help=", ".join(DTYPE_BYTES))
    sweep.add_argument("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda (also ROCm), mps or xpu")
    sweep.add_argument("--threads", type=int, metavar="N", help="default: all this process may use")

    runs = commands.add_parser("runs", help="the runs kept: list, show, export", description="The runs kept.")
    actions = runs.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, run, about in (
        ("list", _runs_list, "all runs, the newest first"),
        ("show", _runs_show, "one run's rows"),
        ("export", _runs_export, "one run's rows as CSV"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        _add_format(action, Format.CSV if name == "export" else Format.TABLE)
        action.set_defaults(command=run)
        if name != "list":
            action.add_argument("run", metavar="RUN", nargs="?", default="last", help="its name, or last (the default)")
        if name == "export":
            action.add_argument("--output", type=Path, metavar="PATH", help="a file; default standard output")
    return parser


def _add_format(command: argparse.ArgumentParser, default: Format = Format.TABLE) -> None:
    command.add_argument(
        "--format", type=_format, default=default, metavar="table|json|csv", help=f"default {default.value}"
    )


def _format(text: str) -> Format:
    try:
        return Format(text)
    except ValueError:
        raise argparse.ArgumentTypeError(unknown_name("format", text, list(Format)).rstrip(".")) from None


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers, as in 1,16,64") from None


def _weights(text: str) -> tuple[Any, ...]:
    from workbench.experiments.settings import Weights

    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or any(word not in list(Weights) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not real, synthetic or both with a comma")
    return tuple(Weights(word) for word in words)


def _print_any_character() -> None:
    """Let a terminal that can't show a character show a question mark, rather than end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _log_to_file() -> None:
    from workbench.paths import log_file

    path = log_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    except OSError:
        logging.basicConfig(handlers=[logging.NullHandler()])
