"""Records: one schema behind table, JSON and CSV."""

import json
from dataclasses import dataclass

import pytest

from workbench.output import Format, json_text, print_records, print_table
from workbench.quantity import Quantity, Unit, arithmetic
from workbench.record import cells, format_cell_number, headed, headings, plain, written


@dataclass(frozen=True)
class Measured:
    """A record with a figure, a word and what may be missing."""

    model: str = headed("model")
    size: Quantity = headed("weights")
    rate: Quantity | None = headed("tok/s")
    fits: bool | None = headed("fits")
    plain_field: int = 3


def a_record(rate: float | None = 12.5, fits: bool | None = True) -> Measured:
    return Measured(
        "a, b",
        arithmetic("weights", 4.67e9, Unit.BYTES),
        None if rate is None else arithmetic("rate", rate, Unit.TOKENS_PER_SECOND),
        fits,
    )


def test_names_headings_and_cells_stand_in_the_order_of_the_fields() -> None:
    assert list(cells(a_record())) == list(headings(a_record())) == ["model", "size", "rate", "fits", "plain_field"]
    assert list(headings(Measured).values()) == ["model", "weights", "tok/s", "fits", "plain_field"]
    assert headings({"a": 1}) == {"a": "a"}


@pytest.mark.parametrize(
    ("unit", "value", "found"),
    [
        (Unit.BYTES, 4.0, 4),
        (Unit.BYTES, 4.5, 4.5),
        (Unit.TOKENS, 7.0, 7),
        (Unit.FLOP, 2e20, 2 * 10**20),
        (Unit.PARAMETERS, 3.0, 3),
        (Unit.SECONDS, 1.0, 1.0),
        (Unit.TOKENS_PER_SECOND, 2.0, 2.0),
        (Unit.COUNT, 8.0, 8.0),
    ],
)
def test_counts_are_whole_in_json_and_rates_are_not(unit: Unit, value: float, found: float) -> None:
    assert plain(arithmetic("x", value, unit)) == found
    assert type(plain(arithmetic("x", value, unit))) is type(found)


def test_plain_goes_all_the_way_down() -> None:
    value = {"records": (a_record(),), "format": Format.JSON, 1: None}
    assert json.loads(json_text(value)) == {
        "records": [{"model": "a, b", "size": 4_670_000_000, "rate": 12.5, "fits": True, "plain_field": 3}],
        "format": "json",
        "1": None,
    }


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (False, "no"),
        (32768, "32,768"),
        (12.345, "12.3"),
        ("word", "word"),
        ({"full": 30, "sliding": 2}, "30 full, 2 sliding"),
        (("Q4_K", "Q6_K"), "Q4_K Q6_K"),
        (arithmetic("x", 2048.0, Unit.FLOP_PER_BYTE), "2,048"),
        (arithmetic("x", 58.43, Unit.TOKENS_PER_SECOND), "58.4"),
        (arithmetic("x", 0.0171, Unit.SECONDS), "17.1 ms"),
        (arithmetic("x", 5.28e9, Unit.BYTES), "5.28 GB"),
    ],
)
def test_a_cell_as_a_table_shows_it(cell: object, shown: str) -> None:
    assert written(cell) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (9.999, "10.0"),
        (10.0, "10.0"),
        (117.53, "117.5"),
        (999.94, "999.9"),
        (1000.0, "1,000"),
        (0.0123, "0.0123"),
    ],
)
def test_figures_that_line_up(value: float, shown: str) -> None:
    assert format_cell_number(value) == shown


def test_a_table_leaves_out_what_no_record_has(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([a_record(rate=None), a_record(rate=None, fits=None)], Format.TABLE, without=("plain_field",))
    assert capsys.readouterr().out.splitlines() == [
        "model  weights  fits",
        "a, b   4.67 GB   yes",
        "a, b   4.67 GB     –",
    ]


def test_csv_quotes_and_says_yes_as_json_does(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([a_record(), a_record(rate=None, fits=False)], Format.CSV, without=("plain_field",))
    assert capsys.readouterr().out.splitlines() == [
        "model,size,rate,fits,plain_field",
        '"a, b",4670000000,12.5,true,3',
        '"a, b",4670000000,,false,3',
    ]


def test_csv_of_what_has_parts(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([{"layers": {"full": 48}, "types": ["Q4_K", "Q6_K"], "none": None}], Format.CSV)
    assert capsys.readouterr().out == "layers,types,none\n48 full,Q4_K Q6_K,\n"


@pytest.mark.parametrize("chosen", list(Format))
def test_no_records(capsys: pytest.CaptureFixture[str], chosen: Format) -> None:
    print_records([], chosen)
    assert capsys.readouterr().out == ("[]\n" if chosen is Format.JSON else "")


def test_a_table_of_nothing_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("", ""), [])
    assert capsys.readouterr().out == ""
