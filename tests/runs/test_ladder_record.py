"""A ladder's levers as lines of a table, of CSV and in JSON: a saving never stands without its interval."""

import csv
import io
from dataclasses import replace

import pytest

from workbench.quantity import Origin, Quantity, Unit, explain
from workbench.record import written
from workbench.runs.export import ladder_csv_text
from workbench.runs.ladder import DECODE, Ladder, LeverTried, Rung
from workbench.runs.ladder_record import ladder_record, lever_lines
from workbench.runs.run import Run

UNSURE = LeverTried(
    "bfloat16",
    0.0115,
    0.5691,
    agrees=True,
    low_s=-0.014,
    high_s=1.331,
    as_loaded_s=(0.035, 0.7, 1.4),
    with_it_s=(0.049, 0.1, 0.069),
)
SURE = replace(UNSURE, measured_saving_s=0.012, low_s=0.011, high_s=0.013)


def seconds(value: float) -> Quantity:
    return Quantity("a time", value, Unit.SECONDS, Origin.MEASURED)


def a_ladder(*levers: LeverTried) -> Ladder:
    rest = Rung("remainder", seconds(0.0149), 0.0149, 0.0149, "what is left")
    return Ladder(DECODE, 256, 1, seconds(0.02), seconds(0.0349), (), rest, 5, levers=levers)


def test_a_saving_whose_interval_holds_zero_is_not_resolved() -> None:
    line, sure = lever_lines(a_ladder(UNSURE, SURE))
    assert line.told == "not resolved"
    assert sure.told == "11.00 to 13.00"
    assert (written(line.low_ms), written(line.high_ms), line.pairs) == ("-14.0", "1,331", 3)


def test_the_explanation_of_a_saving_gives_the_passes_with_and_without_it_and_their_number() -> None:
    (line,) = lever_lines(a_ladder(UNSURE))
    assert line.measured_ms is not None
    told = "\n".join(explain(line.measured_ms))
    assert "as loaded, median of 3 passes = 700 ms" in told
    assert "with it, median of 3 passes = 69.0 ms" in told
    assert "3 pairs" in told
    assert "not resolved" in told
    assert line.explained_by["measured_ms"] == ("low_ms", "high_ms")


def test_a_trial_beside_other_load_is_marked_and_says_what_ran() -> None:
    (line,) = lever_lines(a_ladder(replace(SURE, disturbed="other processes took 71 % of the cores")))
    assert line.told == "! 11.00 to 13.00"
    assert line.note.startswith("! other processes took 71 % of the cores meanwhile")


def test_a_lever_that_was_not_tried_has_its_prediction_alone() -> None:
    (line,) = lever_lines(a_ladder(LeverTried("bfloat16", 0.01, note="by bytes")))
    assert (line.measured_ms, line.told, line.pairs, line.note) == (None, None, None, "by bytes")


def test_csv_has_the_levers_after_the_measured_time() -> None:
    run = Run("r", "gap", "2026-01-01T00:00:00Z", "a model", "a machine")
    lines = list(csv.DictReader(io.StringIO(ladder_csv_text(run, a_ladder(UNSURE)))))
    assert [line["line"] for line in lines] == ["ceiling", "remainder", "measured", "lever"]
    lever = lines[-1]
    assert (lever["name"], float(lever["ms"]), float(lever["low_ms"])) == ("bfloat16", 569.1, -14.0)
    assert (lever["pairs"], float(lever["as_loaded_ms"]), lever["agrees"]) == ("3", 700.0, "True")
    assert lines[0]["pairs"] == ""


@pytest.mark.parametrize(("lever", "resolved"), [(UNSURE, False), (SURE, True), (LeverTried("x", 1.0), None)])
def test_json_says_whether_a_saving_is_resolved(lever: LeverTried, resolved: bool | None) -> None:
    assert ladder_record(a_ladder(lever))["levers"][0]["resolved"] is resolved
