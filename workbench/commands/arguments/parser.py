"""A parser whose refusals are one sentence, and how a command is added to it."""

import argparse
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from typing import Any, NoReturn

from workbench.commands.arguments.values import output_format
from workbench.output import Format

Command = Callable[[argparse.Namespace], int]
Commands = Any
"""What argparse adds commands to; its type is private to argparse."""
USAGE_EXIT = 2


class Parser(argparse.ArgumentParser):
    """Ends with one sentence, and the nearest known word for a typo, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        said = message.removeprefix("argument ")
        end = "" if said.endswith("?") else "."
        print(f"{self.prog}: {said}{end} `{self.prog} --help` lists what it takes.", file=sys.stderr)
        raise SystemExit(USAGE_EXIT)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse has it, but a mistyped option is told before what is missing because of it.

        What is left over is refused by the command it was given to, whose options are the ones that were meant.
        """
        words = sys.argv[1:] if args is None else list(args)
        for word in takewhile(lambda word: word != "--" and self._is_own(word), words):
            name = word.partition("=")[0]
            if name.startswith("--") and not any(known.startswith(name) for known in self._option_string_actions):
                self.error(f"there is no option {name}.{_offer(name, self._option_string_actions)}")
        options, left = super().parse_known_args(words, namespace)
        if left:
            self.error(f"{left[0]!r} is one word too many")
        return options, left

    def _is_own(self, word: str) -> bool:
        """Whether a word is for this parser: of one with commands, those before the command are."""
        return self._subparsers is None or word.startswith("-")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"there is no {value!r}.{_offer(str(value), known)} Known: {', '.join(known)}"
            )


def _offer(word: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {nearest[0]}?" if nearest else ""


def lazy(module: str, function: str) -> Command:
    """A command's function, whose module is imported when the command runs."""

    def run(options: argparse.Namespace) -> int:
        found: Command = getattr(import_module(f"workbench.commands.{module}"), function)
        return found(options)

    return run


def add_command(commands: Commands, name: str, run: Command, about: str, columns: str = "") -> argparse.ArgumentParser:
    """A command with its `--format`; `columns` explains the headings of its table."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[:1].upper()}{about[1:]}.", epilog=columns
    )
    add_format(command)
    command.set_defaults(command=run)
    return command


def add_format(command: argparse.ArgumentParser, default: Format = Format.TABLE) -> None:
    """In which format the command prints."""
    command.add_argument(
        "--format", type=output_format, default=default, metavar="table|json|csv", help=f"default {default.value}"
    )
