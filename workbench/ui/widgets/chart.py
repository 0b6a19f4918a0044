"""Figures over the logarithm of x: lines for what arithmetic says, points for single cases."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text
from textual.widget import Widget

LABEL_ROOM = 8
"""Columns that the labels of the y axis take."""


class Drawn(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    POINTS = "points"


@dataclass(frozen=True)
class Series:
    """One row of figures with its name in the legend, where it has one."""

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
    """The characters that tell series apart, none of them braille: the first line takes the first of its kind."""

    lines: str
    points: str


DOTS = Markers("·-=~", "●○▲■")
ASCII = Markers("-.=~", "ox+#")
MOST_SERIES = min(len(DOTS.lines), len(DOTS.points))
"""Series of each kind that one chart can tell apart."""


class Chart(Widget):
    """A chart that draws only while `may_draw` says so, and shows its last picture otherwise."""

    def __init__(self, title: str, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._may_draw = may_draw
        self._markers = DOTS
        self._picture = Picture()
        self._drawing: Text | None = None
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
        """Another size needs another picture."""
        self._stale = True

    def render(self) -> Text:
        """The picture, drawn anew when it is stale and may be drawn."""
        if self._stale and self._may_draw() and self.size.width > 12 and self.size.height > 4:
            self._drawing = self._draw(self.size.width, self.size.height)
            self._stale = False
        return self._drawing or Text(self._title)

    def _draw(self, width: int, height: int) -> Text:
        # Imported when a chart is first drawn: the app's first paint needs none.
        import plotext

        self.drawn += 1
        marked = list(zip(self._picture.series, self._characters(), strict=True))
        heading = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        legend = "  ".join(f"{m * 2 if s.drawn is Drawn.LINE else m} {s.label}" for s, m in marked if s.label)
        beside = len(self._title) + len(legend) + 3 <= width
        heading.append(f"{'   ' if beside else chr(10)}{legend}", style="not bold")
        height -= 1 if beside else 2
        values = [y for series in self._picture.series for _, y in series.points]
        if not self._picture.x_ticks or not values:
            return heading
        ticks = self._y_ticks(values, max(3, (height - 3) // 3))
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(width, height)
        # plotext's own log scale is applied again at every build, so the figures are transformed here.
        for series, marker in marked:
            plot = plotext.plot if series.drawn is Drawn.LINE else plotext.scatter
            if series.points:
                plot([math.log2(x) for x, _ in series.points], [self._y(y) for _, y in series.points], marker=marker)
        self._lay_axes(plotext, width, ticks, values)
        return heading.append("\n").append(Text.from_ansi(plotext.uncolorize(plotext.build()), style="not bold"))

    def _characters(self) -> list[str]:
        left = {Drawn.LINE: iter(self._markers.lines), Drawn.POINTS: iter(self._markers.points)}
        return [next(left[series.drawn]) for series in self._picture.series]

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
        plotext.xticks(places, [f"{x:,g}" for x in shown])  # type: ignore[attr-defined]
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
    """The ticks, or every second, third … of them, the last one among them, whose labels stand apart in `width`."""
    for every in range(1, len(ticks)):
        shown = list(ticks)[::-1][::every][::-1]
        if sum(len(f"{x:,g}") + 2 for x in shown) <= width:
            return shown
    return list(ticks)[-1:]
