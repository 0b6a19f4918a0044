"""What the commands about presets and models take."""

from workbench.commands.arguments.parser import Commands, add_command, lazy
from workbench.commands.arguments.shared import add_cache_type, add_model


def add_presets(commands: Commands) -> None:
    """`workbench presets`."""
    about = "the tracks, hardware and models known, with the source of each figure"
    presets = add_command(commands, "presets", lazy("models", "presets"), about)
    presets.add_argument("name", nargs="?", metavar="NAME", help="one of them, in full")


def add_inspect(commands: Commands) -> None:
    """`workbench inspect`."""
    about = "what a model is and what one token reads, without loading it"
    inspect = add_command(commands, "inspect", lazy("models", "inspect"), about)
    add_model(inspect)
    add_cache_type(inspect)
