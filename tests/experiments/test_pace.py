"""What is left of a run follows from the points that it has measured."""

import pytest

from workbench.experiments.pace import Pace


def a_pace() -> Pace:
    """Three points with passes of a tenth, a tenth and two tenths of a second at least, no more than 30 of each."""
    return Pace((0.1, 0.1, 0.2), untried=lambda seconds: 3, most=lambda seconds: int(min(30, 4 / seconds)))


def test_until_a_point_is_done_those_to_come_take_as_many_passes_as_they_must() -> None:
    assert a_pace().left_s(1, passes=2) == pytest.approx(2 * 0.1 + 3 * 0.2)


def test_points_to_come_take_as_many_passes_as_those_before_on_average() -> None:
    pace = a_pace()
    pace.done(10)
    pace.done(14)
    assert pace.left_s(1, passes=2) == pytest.approx(2 * 0.1 + 12 * 0.2)


def test_no_point_takes_more_passes_than_its_length_allows() -> None:
    pace = a_pace()
    pace.done(30)
    assert pace.left_s(1, passes=0) == pytest.approx(20 * 0.2)


def test_passes_to_come_are_as_much_slower_than_their_floors_as_those_before() -> None:
    pace = a_pace()
    pace.took(0, 0.3)
    pace.took(0, 0.1)
    assert pace.pass_s(2) == pytest.approx(2 * 0.2)
    assert pace.left_s(0, passes=1) == pytest.approx(2 * (0.1 + 3 * 0.1 + 3 * 0.2))


def test_a_point_without_a_floor_is_not_to_come_and_tells_nothing() -> None:
    pace = Pace((0.0, 0.1, 0.0), untried=lambda seconds: 3, most=lambda seconds: 30)
    pace.took(0, 60.0)
    assert pace.left_s(1, passes=1) == pytest.approx(0.1)
