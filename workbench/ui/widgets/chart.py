"""One rate over prompt length: the ceiling as a line, measurements as points."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.widget import Widget

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Markers:
    """The characters that tell the series apart, none of them braille."""

    ceiling: str
    measured: str


DOTS = Markers("·", "●")
ASCII = Markers("-", "o")


class Chart(Widget):
    """A chart that draws only while `may_draw` says so, and shows its last picture otherwise."""

    def __init__(self, title: str, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._may_draw = may_draw
        self._markers = DOTS
        self._prompts: tuple[int, ...] = ()
        self._ceiling: tuple[tuple[int, float], ...] = ()
        self._measured: tuple[tuple[int, float], ...] = ()
        self._picture: Text | None = None
        self._stale = True
        self.drawn = 0

    def show(self, prompts: Sequence[int], ceiling: Points, measured: Points) -> None:
        """Draw these values from now on; `prompts` are the places on the x axis."""
        values = (tuple(sorted(set(prompts))), tuple(ceiling), tuple(measured))
        if values == (self._prompts, self._ceiling, self._measured):
            return
        self._prompts, self._ceiling, self._measured = values
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
            self._picture = self._draw(self.size.width, self.size.height)
            self._stale = False
        return self._picture or Text(self._title)

    def _draw(self, width: int, height: int) -> Text:
        # Imported when a chart is first drawn: the app's first paint needs none.
        import plotext

        self.drawn += 1
        heading = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        heading.append(f"   {self._markers.ceiling * 2} ceiling  {self._markers.measured} measured", style="not bold")
        if not self._prompts:
            return heading
        top = max((value for _, value in (*self._ceiling, *self._measured)), default=1.0)
        ticks = y_ticks(top, max(3, (height - 3) // 3))
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(width, height - 1)
        # plotext's own log scale is applied again at every build, so x is transformed here.
        if self._ceiling:
            plotext.plot(
                [math.log2(n) for n, _ in self._ceiling],
                [value for _, value in self._ceiling],
                marker=self._markers.ceiling,
            )
        if self._measured:
            plotext.scatter(
                [math.log2(n) for n, _ in self._measured],
                [value for _, value in self._measured],
                marker=self._markers.measured,
            )
        places = [math.log2(n) for n in self._prompts]
        # Room for half a label on either side, or plotext leaves the outer labels out.
        margin = max(1.0, places[-1] - places[0]) * (len(f"{self._prompts[-1]:,}") / 2 + 1) / (width - 8)
        plotext.xlim(places[0] - margin, places[-1] + margin)
        plotext.ylim(0, max(ticks[-1], top * 1.05))
        plotext.xticks(places, [f"{n:,}" for n in self._prompts])
        plotext.yticks(ticks, [f"{tick:,g}" for tick in ticks])
        plotext.xaxes(True, False)
        plotext.yaxes(True, False)
        return heading.append("\n").append(Text.from_ansi(plotext.uncolorize(plotext.build()), style="not bold"))


def y_ticks(top: float, count: int) -> list[float]:
    """Round steps from 0 past `top`, at most `count` of them."""
    step = 10 ** math.floor(math.log10(max(top, 1e-9) / count))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10, 20) if step * factor * count >= top)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]
