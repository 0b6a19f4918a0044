"""The larger view of the strip: the box over the last minutes, and the rows of the run against its rates."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from textual.widgets import Static

from workbench.ceilings.box import Box
from workbench.hardware.machine import Machine
from workbench.hardware.monitor import SPAN_S, Sample
from workbench.quantity import Quantity, explain, format_number
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.levels import Levels, spread_over, steps
from workbench.ui.widgets.scrolled import ScrolledScreen
from workbench.ui.widgets.strip import FEW_CORES

LABEL_WIDTH, FIGURE_WIDTH, GAP = 20, 8, 2
BESIDE = LABEL_WIDTH + 3 * FIGURE_WIDTH + 2 * GAP
LEAST_WIDTH = 10
GAPS = (
    "A blank was not sampled: nothing is read while a request is timed. Processor figures are means of the time since "
    "the sample before, memory is as it was when sampled."
)


@dataclass(frozen=True)
class BoxHistory:
    """What the view is drawn from: samples, oldest first, the run if there is one, the box and its rates."""

    samples: tuple[Sample, ...]
    live: LiveRun | None
    machine: Machine
    box: Box | None


@dataclass(frozen=True)
class Figure:
    """A figure of every sample, None where a sample has none; `top` is the upper end of its scale.

    `covers` says that it holds for all the time since the sample before, as a mean, and not just as it was taken.
    """

    label: str
    of: Callable[[Sample], float | None]
    top: float
    covers: bool = False

    def write(self, value: float) -> str:
        """The value, without the unit that the label names."""
        return f"{value:.0f}" if self.covers else f"{value:.2f}"


class BoxScreen(ScrolledScreen):
    """The last minutes over the panes; whoever opens it says when to draw them anew."""

    def __init__(self, history: BoxHistory, levels: Levels) -> None:
        super().__init__(f"The box · {history.machine}")
        self._history = history
        self._levels = levels

    def contents(self) -> Static:
        """The lines, which are drawn once their width is known."""
        return Static("", id="box-history", markup=False)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.call_after_refresh(self._draw)

    def show(self, history: BoxHistory) -> None:
        """Draw this from now on."""
        self._history = history
        self._draw()

    def _draw(self) -> None:
        lines = self.query_one("#box-history", Static)
        width = lines.container_size.width or lines.size.width
        text = "\n".join(history_lines(self._history, width, self._levels))
        if width and text != str(lines.content):
            lines.update(text, layout=text.count("\n") != str(lines.content).count("\n"))


def history_lines(history: BoxHistory, width: int, levels: Levels) -> Iterator[str]:
    """Every figure with what it is now, its course, its least and most, in lines of `width` columns."""
    room = max(LEAST_WIDTH, width - BESIDE)
    samples = history.samples
    minutes = f"last {SPAN_S / 60:.0f} min, {SPAN_S / room:.0f} s a column"
    yield _line("", "now", minutes if len(minutes) <= room else minutes.split(",")[0], room, "least", "most")
    if not samples:
        yield "nothing sampled yet"
        return
    end = samples[-1].at
    for figure in figures(history):
        known = [(s, value) for s in samples if (value := figure.of(s)) is not None]
        if known:
            points = [(s.at - s.seconds if figure.covers else s.at, s.at, value) for s, value in known]
            course = steps(spread_over(points, end - SPAN_S, end, room), figure.top, levels)
            values = [value for _, value in known]
            yield _figures(figure.label, values, figure.write, course, room)
    yield from _row_lines(history, room, levels)
    if history.box is not None:
        yield ""
        for rate in (history.box.B, history.box.C):
            yield from () if rate is None else (folded for line in explain(rate) for folded in wrap(line, width))
    yield ""
    yield from wrap(GAPS, width)


def figures(history: BoxHistory) -> Iterator[Figure]:
    """What is drawn of the samples: processor in per cent, memory in GB from nothing to all there is."""
    samples = history.samples
    yield from _core_figures(len(samples[-1].core_percent))
    yield Figure("this process %", lambda s: 100 * s.own_share, 100, covers=True)
    yield Figure("other load %", lambda s: 100 * s.other_share, 100, covers=True)
    if any(s.stolen_share for s in samples):
        yield Figure("stolen %", lambda s: 100 * s.stolen_share, 100, covers=True)
    predicted = history.live.predicted.resident_bytes / 1e9 if history.live and history.live.predicted else 0.0
    highest = max(predicted, *(s.resident_bytes / 1e9 for s in samples))
    resident = f"own RAM of {predicted:.2f} GB" if predicted else "own RAM GB"
    yield Figure(resident, lambda s: s.resident_bytes / 1e9, highest)
    whole = history.machine.memory_bytes / 1e9
    yield Figure(f"free of {whole:.1f} GB", lambda s: s.available_bytes / 1e9, whole)
    if any(s.swap_bytes for s in samples):
        yield Figure("swap GB", lambda s: s.swap_bytes / 1e9, max(s.swap_bytes for s in samples) / 1e9)
    if (group := samples[-1].group) is not None:
        limit = group.limit_bytes / 1e9
        yield Figure(f"group of {limit:.1f} GB", lambda s: s.group.used_bytes / 1e9 if s.group else None, limit)
    for index, use in enumerate(samples[-1].accelerators):
        yield Figure(f"GPU {index} busy %", lambda s, i=index: _gpu_busy(s, i), 100)  # type: ignore[misc]
        total = use.total_bytes / 1e9
        yield Figure(f"GPU {index} of {total:.1f} GB", lambda s, i=index: _gpu_used(s, i), total)  # type: ignore[misc]


def _core_figures(count: int) -> Iterator[Figure]:
    if count > FEW_CORES:
        yield Figure(f"{count} cores %", lambda s: sum(s.core_percent) / max(1, len(s.core_percent)), 100, covers=True)
        yield Figure("busiest core %", lambda s: max(s.core_percent, default=None), 100, covers=True)
        return
    for core in range(count):
        yield Figure(f"core {core} %", lambda s, c=core: _of(s.core_percent, c), 100, covers=True)  # type: ignore[misc]


def _row_lines(history: BoxHistory, room: int, levels: Levels) -> Iterator[str]:
    """The rows of the run, one column each, against the rates of this box."""
    rows = history.live.rows if history.live is not None else []
    B, C = _rates(history)
    read = [r.bytes_per_step / r.tpot_ms / 1e6 if r.bytes_per_step and r.tpot_ms else None for r in rows]
    product = [r.prefill_gflop_per_s for r in rows]
    if not rows or B is None:
        return
    counted = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    yield ""
    yield _line("", "last", f"{counted} of the run", room, "least", "most")
    for values, unit, most in ((read, "GB/s", B), (product, "GFLOP/s", C)):
        known = [value for value in values if value is not None]
        if known and most is not None:
            G = most.value / 1e9
            label = f"of {format_number(G)} {unit}"
            yield _figures(label, known, format_number, steps(values[-room:], G, levels), room)


def _rates(history: BoxHistory) -> tuple[Quantity | None, Quantity | None]:
    """B and C that the run found when it began, else this box's own."""
    predicted = history.live.predicted if history.live is not None else None
    if predicted is not None:
        return predicted.read_rate, predicted.product_rate
    return (history.box.B, history.box.C) if history.box is not None else (None, None)


def _figures(label: str, values: Sequence[float], write: Callable[[float], str], course: str, room: int) -> str:
    now, least, most = (write(value) for value in (values[-1], min(values), max(values)))
    return _line(label, now, course, room, least, most)


def _line(label: str, now: str, course: str, room: int, least: str, most: str) -> str:
    gap, F = " " * GAP, FIGURE_WIDTH
    return f"{label:<{LABEL_WIDTH}}{now:>{F}}{gap}{course:<{room}}{gap}{least:>{F}}{most:>{F}}"


def _of(values: Sequence[float], index: int) -> float | None:
    return values[index] if index < len(values) else None


def _gpu_busy(sample: Sample, index: int) -> float | None:
    share = sample.accelerators[index].busy_share if index < len(sample.accelerators) else None
    return None if share is None else 100 * share


def _gpu_used(sample: Sample, index: int) -> float | None:
    return sample.accelerators[index].used_bytes / 1e9 if index < len(sample.accelerators) else None
