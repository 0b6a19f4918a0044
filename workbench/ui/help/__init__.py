"""The text behind `?`, one file for each pane and one for the strip."""

from pathlib import Path


def help_text(about: str) -> str:
    """The help of the pane with that id, or of the box."""
    return (Path(__file__).parent / f"{about}.txt").read_text(encoding="utf-8")
