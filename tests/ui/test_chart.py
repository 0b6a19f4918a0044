"""Which ticks of a chart have their labels, and what is drawn over what."""

import pytest
from textual.geometry import Size

from workbench.ui.widgets.chart import DOTS, Chart, Drawn, Picture, Series, fitting_ticks

PROMPTS = (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)


def test_the_outer_ticks_come_first_and_as_many_between_as_stand_apart() -> None:
    assert fitting_ticks(PROMPTS, 70) == list(PROMPTS)
    assert fitting_ticks(PROMPTS, 28) == [1, 16, 64, 256, 4096]
    assert fitting_ticks(PROMPTS, 12) == [1, 16, 4096]
    assert fitting_ticks((16.0,), 12) == [16]


@pytest.mark.parametrize("width", [34, 38, 78])
def test_every_label_that_fits_is_drawn(width: int) -> None:
    chart = Chart("rate", lambda: True, id="rate")
    chart.show(Picture(PROMPTS, (Series("measured", Drawn.POINTS, tuple((x, x) for x in PROMPTS)),)))
    labels = chart._draw(*Size(width, 9)).plain.rstrip().splitlines()[-1].split()
    assert labels == [f"{x:,g}" for x in fitting_ticks(PROMPTS, width - 8)]
    assert labels[0] == "1"


def test_a_measurement_stands_over_its_ceiling_and_its_prediction() -> None:
    at = ((16.0, 5.0),)
    chart = Chart("rate", lambda: True, id="rate")
    measured, predicted = Series("", Drawn.POINTS, at), Series("", Drawn.PREDICTED, at)
    chart.show(Picture((16.0,), (measured, predicted, Series("", Drawn.LINE, at), Series("", Drawn.UPRIGHT, at))))
    plot = chart._draw(*Size(38, 9)).plain
    assert DOTS.points[0] in plot
    assert DOTS.predicted[0] not in plot
