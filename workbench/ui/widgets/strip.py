"""The strip under every pane: the box before a run, and during one how close to its ceiling it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from workbench.ceilings.box import Box
from workbench.hardware.machine import Machine
from workbench.hardware.monitor import Sample
from workbench.quantity import Origin, Quantity, Unit, format_number, format_value
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.levels import BLOCK_LEVELS, Levels, bar

FEW_CORES = 8
FEW_CHARACTERS = 16
"""A part no longer than this is not shortened."""
SEPARATOR = "   "
NARROW_WIDTH, NARROW_LINES = 118, 2
"""Under this width the strip has two lines, else one."""
STEP_PERCENT, STEP_BYTES = 5.0, 100_000_000
STALE_S = 10.0
"""What is on screen of a run is no older; without a run, a box on which nothing happens has nothing written to it."""
STOLEN_SHARE = 0.01
SWAP_BYTES = 10_000_000


@dataclass(frozen=True)
class Part:
    """A piece of the strip, whole or in short; where there is no room, that of the lowest `rank` stays longest."""

    text: str
    short: str
    rank: int


class Strip(Static, can_focus=True):
    """Shows a sample when it differs from the one on screen by more than a person would care to see."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.box", show=False)]

    def __init__(self, machine: Machine, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._machine = machine
        self._box: Box | None = None
        self._levels = BLOCK_LEVELS
        self._sample: Sample | None = None
        self._live: LiveRun | None = None

    def use_levels(self, levels: Levels) -> None:
        """Draw bars with these characters."""
        self._levels = levels
        self._fill()

    def show_box(self, box: Box) -> None:
        """Take these as the rates of this machine."""
        self._box = box
        self._fill()

    def show(self, sample: Sample, live: LiveRun | None) -> None:
        """Put the sample on screen where it says something new."""
        if self._sample is None or differs(self._sample, sample, STALE_S if live is not None else inf):
            self._sample = sample
        elif live is None and self._live is None:
            return
        self._live = live
        self._fill()

    def on_resize(self) -> None:
        """Break the lines anew."""
        self._fill()

    def _fill(self) -> None:
        width = self.content_size.width
        if self._sample is None or not width:
            return
        if self._live is None:
            parts = [*box_parts(self._sample, self._machine), *rate_parts(self._box)]
        else:
            parts = run_parts(self._sample, self._live, self._box, self._levels)
        text = fitted(parts, width, 1 if width >= NARROW_WIDTH else NARROW_LINES)
        if text != str(self.content):
            self.update(text, layout=False)


def box_parts(sample: Sample, machine: Machine) -> list[Part]:
    """What the box is, what is free of it, and what others take."""
    free, whole = gigabytes(sample.available_bytes), gigabytes(machine.memory_bytes)
    return [
        _processor(sample),
        Part(f"RAM {free} of {whole} GB free", f"RAM {free} GB free", 1),
        *_others(sample),
        *_accelerators(sample),
    ]


def rate_parts(box: Box | None) -> list[Part]:
    """B and C of this machine with where they came from; nothing before they are known."""
    if box is None:
        return []
    known = [figure for figure in (box.B, box.C) if figure is not None]
    if all(figure.origin is Origin.ASSUMED for figure in known):
        return [Part("rates assumed: p probes", "rates assumed", 2)]
    # A rate without its origin says nothing, so it is left out rather than shortened.
    return [Part(text, text, rank) for rank, text in enumerate((f"{f.symbol} {f} {f.origin}" for f in known), 2)]


def run_parts(sample: Sample, live: LiveRun, box: Box | None, levels: Levels) -> list[Part]:
    """What the run takes of what was predicted and of what the box can do."""
    parts = [_processor(sample)]
    resident, predicted = gigabytes(sample.resident_bytes), live.predicted
    # Of what runs elsewhere, or was imported, no memory of this box is predicted.
    if predicted is None or not predicted.resident_bytes:
        parts += [Part(f"RAM {resident} GB", f"RAM {resident} GB", 1), *rate_parts(box)]
    else:
        of = f"RAM {resident} of {gigabytes(predicted.resident_bytes)} GB"
        level = bar(sample.resident_bytes, predicted.resident_bytes, levels)
        # Of a run that is over, as one opened again, this process holds nothing of what was predicted.
        free = f"RAM {gigabytes(sample.available_bytes)} GB free"
        parts.append(Part(free, free, 1) if live.over else Part(f"{of} predicted {level}", f"{of} {level}", 1))
        parts.append(_reached(live.best_read_gb_per_s, predicted.read_rate, "GB/s", 2, levels))
        parts.append(_reached(live.best_gflop_per_s, predicted.product_rate, "GFLOP/s", 3, levels))
    parts += [*_others(sample), *_accelerators(sample)]
    if live.rows and (ui_share := live.rows[-1].ui_share) is not None:
        parts.append(Part(f"UI {format_value(ui_share, Unit.SHARE)}", f"UI {format_value(ui_share, Unit.SHARE)}", 7))
    return parts


def fitted(parts: Sequence[Part], width: int, lines: int) -> str:
    """The parts on at most so many lines, none broken in two; the least important give way, first in length."""
    texts = {part: part.text for part in parts}
    least_first = sorted(parts, key=lambda part: -part.rank)
    for give_way in (lambda part: texts.update({part: part.short}), lambda part: texts.pop(part)):
        for part in least_first:
            if not _fits(filled(list(texts.values()), width), width, lines):
                give_way(part)
    return filled(list(texts.values()), width)


def filled(texts: Sequence[str], width: int) -> str:
    """The texts on as many lines as they need, none broken in two."""
    lines = [""]
    for text in texts:
        longer = f"{lines[-1]}{SEPARATOR}{text}" if lines[-1] else text
        if lines[-1] and len(longer) > width:
            lines.append(text)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def cores(percent: tuple[float, ...]) -> str:
    """Per cent of each core; of many cores their mean and the busiest."""
    if len(percent) <= FEW_CORES:
        return " ".join(f"{p:.0f}" for p in percent) + " %"
    return f"{len(percent)} cores {sum(percent) / len(percent):.0f} %, busiest {max(percent):.0f} %"


def gigabytes(count: float) -> str:
    """Bytes in GB to one decimal, without the unit."""
    return f"{count / 1e9:.1f}"


def differs(shown: Sample, sample: Sample, stale_s: float) -> bool:
    """Whether a sample says something that the one on screen doesn't, or that one is older than `stale_s`."""
    return (
        sample.at - shown.at >= stale_s
        or len(shown.core_percent) != len(sample.core_percent)
        or any(abs(a - b) >= STEP_PERCENT for a, b in zip(shown.core_percent, sample.core_percent, strict=True))
        or abs(shown.other_share - sample.other_share) * 100 >= STEP_PERCENT
        or abs(shown.stolen_share - sample.stolen_share) * 100 >= STEP_PERCENT
        or abs(shown.resident_bytes - sample.resident_bytes) >= STEP_BYTES
        or abs(shown.available_bytes - sample.available_bytes) >= STEP_BYTES
        or abs(shown.swap_bytes - sample.swap_bytes) >= STEP_BYTES
    )


def _fits(text: str, width: int, lines: int) -> bool:
    found = text.split("\n")
    return len(found) <= lines and all(len(line) <= width for line in found)


def _processor(sample: Sample) -> Part:
    percent = sample.core_percent
    text = f"CPU {cores(percent)}"
    mean = f"CPU {sum(percent) / max(1, len(percent)):.0f} %"
    return Part(text, text if len(text) <= FEW_CHARACTERS else mean, 0)


def _reached(rate: float | None, most: Quantity, unit: str, rank: int, levels: Levels) -> Part:
    """A rate in 10^9 a second of the most this box can."""
    G = most.value / 1e9
    of = f"{'–' if rate is None else format_number(rate)} of {format_number(G)} {unit}"
    text = f"{of} {bar(rate or 0.0, G, levels)}"
    return Part(text, text, rank)


def _others(sample: Sample) -> Iterator[Part]:
    load = format_value(sample.other_share, Unit.SHARE)
    yield Part(f"other load {load}", f"other {load}", 6)
    if sample.stolen_share >= STOLEN_SHARE:
        stolen = f"stolen {format_value(sample.stolen_share, Unit.SHARE)}"
        yield Part(stolen, stolen, 5)
    if sample.swap_bytes >= SWAP_BYTES:
        swap = f"swap {gigabytes(sample.swap_bytes)} GB"
        yield Part(swap, swap, 4)


def _accelerators(sample: Sample) -> Iterator[Part]:
    for use in sample.accelerators:
        busy = "" if use.busy_share is None else f"{format_value(use.busy_share, Unit.SHARE)}, "
        used, whole = gigabytes(use.used_bytes), gigabytes(use.total_bytes)
        yield Part(f"GPU {busy}{used} of {whole} GB", f"GPU {busy}{used} GB", 4)
