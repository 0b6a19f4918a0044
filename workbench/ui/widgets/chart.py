"""Figures over the logarithm of x: lines for what arithmetic says, points for single cases, uprights where it turns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

TICK_GAP = 1
"""Columns between two labels of the x axis, at the least."""
LABEL_ROOM = 8
"""Columns that the labels of the y axis take."""


class Drawn(StrEnum):
    """How a series is drawn: each kind over those before it, so that what was measured is never hidden."""

    UPRIGHT = "upright"
    LINE = "line"
    PREDICTED = "predicted"
    POINTS = "points"


@dataclass(frozen=True)
class Series:
    """One row of figures with its name in the legend, where it has one; series of one name share their place there.

    An upright stands under each of its points.
    """

    label: str
    drawn: Drawn
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Picture:
    """What a chart shows: where x has ticks, the series, and whether y is logarithmic too."""

    x_ticks: tuple[float, ...] = ()
    series: tuple[Series, ...] = ()
    log_y: bool = False


@dataclass(frozen=True)
class Markers:
    """The characters that tell series apart, none of them braille: the first line takes the first of its kind.

    Uprights are told apart by the point on top of each, and share one.
    """

    lines: str
    points: str
    predicted: str
    upright: str

    def of(self, series: Sequence[Series]) -> list[str]:
        """The character of each series."""
        left = {
            Drawn.LINE: iter(self.lines),
            Drawn.POINTS: iter(self.points),
            Drawn.PREDICTED: iter(self.predicted),
            Drawn.UPRIGHT: cycle(self.upright),
        }
        return [next(left[one.drawn]) for one in series]


DOTS = Markers("·-=~", "●○▲■", "+x*%", "│")
ASCII = Markers("-.=~", "oO@#", "+x*%", "|")
MOST_SERIES = min(len(DOTS.lines), len(DOTS.points), len(DOTS.predicted))
"""Series of each kind that one chart can tell apart."""


def legend(series: Sequence[Series], markers: Markers) -> list[str]:
    """The names of the series, each behind the characters of those that have it."""
    marks: dict[str, dict[str, None]] = {}
    for one, mark in zip(series, markers.of(series), strict=True):
        if one.label:
            marks.setdefault(one.label, {})[mark * 2 if one.drawn is Drawn.LINE else mark] = None
    return [f"{''.join(mark)} {label}" for label, mark in marks.items()]


class Legend(Static):
    """The legend of several charts that draw the same series; no name is broken between two lines."""

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._markers = DOTS
        self._series: tuple[Series, ...] = ()
        self._about = ""

    def show(self, series: tuple[Series, ...], about: str) -> None:
        """Name these series, in lines that begin so."""
        self._series, self._about = series, about
        self._say()

    def use(self, markers: Markers) -> None:
        """The charts are drawn with these characters."""
        self._markers = markers
        self._say()

    def on_resize(self) -> None:
        """Break the lines for another width."""
        self._say()

    def _say(self) -> None:
        lines = [self._about if self._series else ""]
        for name in legend(self._series, self._markers):
            longer = f"{lines[-1]}  {name}"
            lines[-1:] = [longer] if len(longer) <= self.size.width else [lines[-1], name]
        text = "\n".join(lines)
        if text != str(self.content):
            self.update(text)


class Chart(Widget):
    """A chart that draws only while `may_draw` says so, and shows its last picture otherwise."""

    def __init__(self, title: str, may_draw: Callable[[], bool], *, id: str, has_legend: bool = True) -> None:
        super().__init__(id=id)
        self._title = title
        self._has_legend = has_legend
        self._may_draw = may_draw
        self._markers = DOTS
        self._picture = Picture()
        self._drawing: Text | None = None
        self._drawn_for: Size | None = None
        self._stale = True
        self.drawn = 0

    def show(self, picture: Picture, title: str | None = None) -> None:
        """Draw this from now on."""
        if picture == self._picture and title in (None, self._title):
            return
        self._picture, self._title = picture, title or self._title
        self._stale = True
        self.refresh()

    def use(self, markers: Markers) -> None:
        """Tell the series apart by these characters."""
        self._markers = markers
        self._stale = True
        self.refresh()

    def catch_up(self) -> None:
        """Draw now what could not be drawn before."""
        if self._stale:
            self.refresh()

    def on_resize(self) -> None:
        """Another size needs another picture, unless it has been rendered by now."""
        self._stale = self._stale or self._drawn_for != self.size

    def render(self) -> Text:
        """The picture, drawn anew when it is stale or of another size, and may be drawn."""
        self._stale = self._stale or self._drawn_for != self.size
        if self._stale and self._may_draw() and self.size.width > 12 and self.size.height > 4:
            self._drawing = self._draw(self.size.width, self.size.height)
            self._drawn_for, self._stale = self.size, False
        return self._drawing or Text(self._title)

    def _draw(self, width: int, height: int) -> Text:
        # Imported when a chart is first drawn: the app's first paint needs none.
        import plotext

        self.drawn += 1
        series = self._picture.series
        heading = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        names = "  ".join(legend(series, self._markers)) if self._has_legend else ""
        beside = not names or len(self._title) + len(names) + 3 <= width
        heading.append(f"{'   ' if beside else chr(10)}{names}", style="not bold")
        height -= 1 if beside else 2
        values = [y for one in series for _, y in one.points]
        if not self._picture.x_ticks or not values:
            return heading
        ticks = self._y_ticks(values, max(3, (height - 3) // 3))
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(width, height)
        foot = min(ticks[0], *values) if self._picture.log_y else 0.0
        marked = zip(series, self._markers.of(series), strict=True)
        for one, marker in sorted(marked, key=lambda pair: list(Drawn).index(pair[0].drawn)):
            # plotext's own log scale is applied again at every build, so the figures are transformed here.
            x, y = [math.log2(x) for x, _ in one.points], [self._y(y) for _, y in one.points]
            if one.drawn is Drawn.UPRIGHT:
                for at, top in zip(x, y, strict=True):
                    plotext.plot([at, at], [self._y(foot) if foot else 0.0, top], marker=marker)
            elif x:
                (plotext.plot if one.drawn is Drawn.LINE else plotext.scatter)(x, y, marker=marker)
        self._lay_axes(plotext, width, ticks, values)
        return heading.append("\n").append(Text.from_ansi(plotext.uncolorize(plotext.build()), style="not bold"))

    def _lay_axes(self, plotext: object, width: int, ticks: Sequence[float], values: Sequence[float]) -> None:
        shown = fitting_ticks(self._picture.x_ticks, width - LABEL_ROOM)
        places = [math.log2(x) for x in shown]
        ends = [math.log2(x) for x in (self._picture.x_ticks[0], self._picture.x_ticks[-1])]
        # Room for half a label on either side, or plotext leaves the outer labels out.
        margin = max(1.0, ends[1] - ends[0]) * (len(f"{shown[-1]:,g}") / 2 + 1) / (width - LABEL_ROOM)
        plotext.xlim(ends[0] - margin, ends[1] + margin)  # type: ignore[attr-defined]
        low = self._y(min(values)) if self._picture.log_y else 0.0
        high = max(self._y(ticks[-1]), self._y(max(values)) * (1.0 if self._picture.log_y else 1.05))
        plotext.ylim(min(low, self._y(ticks[0])), high)  # type: ignore[attr-defined]
        plotext.xticks(places, [tick_label(x) for x in shown])  # type: ignore[attr-defined]
        plotext.yticks([self._y(tick) for tick in ticks], [f"{tick:,g}" for tick in ticks])  # type: ignore[attr-defined]
        plotext.xaxes(True, False)  # type: ignore[attr-defined]
        plotext.yaxes(True, False)  # type: ignore[attr-defined]

    def _y(self, value: float) -> float:
        return math.log10(value) if self._picture.log_y else value

    def _y_ticks(self, values: Sequence[float], count: int) -> list[float]:
        if not self._picture.log_y:
            return y_ticks(max(values), count)
        return log_ticks(min(values), max(values), count)


def y_ticks(top: float, count: int) -> list[float]:
    """Round steps from 0 past `top`, at most `count` of them."""
    step = 10 ** math.floor(math.log10(max(top, 1e-9) / count))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10, 20) if step * factor * count >= top)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Powers of ten from about `low` up to `high`, at most `count`; where they are few, their 2 and 5 between."""
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    if last - first >= 2:
        return [10.0**power for power in range(last, first - 1, -math.ceil((last - first + 1) / count))][::-1]
    finer = [10.0**power * factor for power in range(first, last + 1) for factor in (1, 2, 5)]
    return [tick for tick in finer if low / 2 <= tick <= high][-count:] or [10.0**first]


def fitting_ticks(ticks: Sequence[float], width: int) -> list[float]:
    """The ticks, or as many as have labels that stand apart in `width`: the last and the first before those between."""
    outer = (len(tick_label(ticks[0])) + len(tick_label(ticks[-1]))) / 2
    a_doubling = max(0.0, width - outer - TICK_GAP) / (math.log2(ticks[-1] / ticks[0]) or 1.0)
    shown: list[float] = []
    for tick in (ticks[-1], *ticks[:-1]):
        apart = (
            abs(math.log2(tick / other)) * a_doubling >= (len(tick_label(tick)) + len(tick_label(other))) / 2 + TICK_GAP
            for other in shown
        )
        if all(apart):
            shown.append(tick)
    return sorted(shown)


def tick_label(tick: float) -> str:
    """What stands under a tick."""
    return f"{tick:,g}"
