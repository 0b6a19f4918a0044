"""Where the workbench keeps and finds its files: shipped resources, the user's data, log and settings."""

import os
from pathlib import Path
from typing import Literal

from platformdirs import user_config_path, user_data_path, user_log_path

APPLICATION = "inference-workbench"
DATA_VARIABLE = "WORKBENCH_DATA"


def resource(name: Literal["styles", "presets"]) -> Path:
    """The folder of that name which ships with the workbench: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    shipped = package / name
    return shipped if shipped.is_dir() else package.parent / name


def expanded(path: Path) -> Path:
    """The path with ~ written out, and as it is where there is no such home."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def data_folder() -> Path:
    """The folder of the store and of exports; the environment variable WORKBENCH_DATA names another."""
    chosen = os.environ.get(DATA_VARIABLE)
    return expanded(Path(chosen)) if chosen else user_data_path(APPLICATION, appauthor=False)


def log_file() -> Path:
    """The file that takes what libraries write while the app has the screen."""
    return user_log_path(APPLICATION, appauthor=False) / "workbench.log"


def config_folder() -> Path:
    """The folder where a person keeps presets of their own."""
    return user_config_path(APPLICATION, appauthor=False)
