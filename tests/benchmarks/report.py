"""How a benchmark prints a figure beside its bar."""

from collections.abc import Sequence
from statistics import median


def print_bar(what: str, value: float, bar: str, reached: bool) -> None:
    """One line: what, the figure, its bar, and whether it holds."""
    print(f"{what}: {value:.3f}, bar {bar}: {'holds' if reached else 'NOT REACHED'}", flush=True)


def spread(values: Sequence[float]) -> str:
    """Median, least and most of some figures."""
    return f"median {median(values):.3f}, {min(values):.3f} to {max(values):.3f}, n = {len(values)}"
