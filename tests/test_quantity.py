import pytest

from workbench.quantity import Origin, Quantity, Unit, explain, format_duration, format_value


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (2_384_199_680, Unit.BYTES, "2.38 GB"),
        (2_304, Unit.BYTES, "2.30 kB"),
        (999, Unit.BYTES, "999 B"),
        (27.2e9, Unit.BYTES_PER_SECOND, "27.2 GB/s"),
        (741e9, Unit.FLOP_PER_SECOND, "741 GFLOP/s"),
        (28.5e12, Unit.FLOP, "28.5 TFLOP"),
        (0.2069, Unit.SECONDS, "207 ms"),
        (39.897, Unit.SECONDS, "39.9 s"),
        (0.23, Unit.SHARE, "23 %"),
        (0.004, Unit.SHARE, "0.4 %"),
        (596_049_920, Unit.PARAMETERS, "596,049,920 parameters"),
        (0, Unit.COUNT, "0"),
        (0.0123, Unit.COUNT, "0.0123"),
    ],
)
def test_values_are_written_with_their_unit(value: float, unit: Unit, written: str) -> None:
    assert format_value(value, unit) == written


@pytest.mark.parametrize(("seconds", "written"), [(0, "0:00"), (41.4, "0:41"), (725, "12:05"), (3723, "1:02:03")])
def test_durations_are_written_as_a_clock(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written


def test_a_figure_explains_itself_and_its_inputs() -> None:
    W = Quantity("weights", 2e9, Unit.BYTES, Origin.ARITHMETIC, "W", source="a file")
    B = Quantity("bandwidth", 20e9, Unit.BYTES_PER_SECOND, Origin.VENDOR, "B")
    step = Quantity("step", 0.1, Unit.SECONDS, Origin.ARITHMETIC, formula="W / B", inputs=(W, B))
    assert list(explain(step)) == [
        "step = 100 ms  [arithmetic]  W / B",
        "  W weights = 2.00 GB  [arithmetic]  (a file)",
        "  B bandwidth = 20.0 GB/s  [vendor]",
    ]
