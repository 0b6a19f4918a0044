"""The text behind `?`, one file for each pane."""

from pathlib import Path


def help_text(pane: str) -> str:
    """The help of the pane with that id."""
    return (Path(__file__).parent / f"{pane}.txt").read_text(encoding="utf-8")
