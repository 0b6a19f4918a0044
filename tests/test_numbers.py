"""Numbers as people type them."""

from argparse import ArgumentTypeError

import pytest

from workbench.numbers import at_least_zero, count, counts, positive, shares, whole_numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [("4096", 4096), (" 4096 ", 4096), ("4_096", 4096), ("4,096", 4096), ("1,048,576", 1 << 20), ("0", 0), ("007", 7)],
)
def test_a_count(text: str, number: int) -> None:
    assert count(0)(text) == number


@pytest.mark.parametrize("text", ["", "4k", "1e3", "4.0", "0x10", "4,09", "40,96", "1,2", "4 096", "--1", "1__0", "_1"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no whole number: write it in digits alone, as in 4096"):
        count(0)(text)


@pytest.mark.parametrize("text", ["0", "-1", "1000000000001", "9" * 30])
def test_a_count_out_of_range(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="out of range; it must be 1 to 1,000,000,000,000"):
        count(1)(text)


def test_counts_keep_their_order_and_come_once() -> None:
    assert counts(1)("64, 1,16,1 ,64") == (64, 1, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no list of whole numbers, as in 1,16,64"),
        (" , ", "no list"),
        ("1,", "with no space after a comma"),
        (",1", "a comma with nothing beside it"),
        ("1,,2", "a comma with nothing beside it"),
        ("4,096", "'096' starts with a zero"),
        ("1 2", "'1 2' is no whole number"),
        ("1;2", "'1;2' is no whole number"),
        ("1,4k", "'4k' is no whole number"),
    ],
)
def test_what_is_no_list(text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        counts(0)(text)


def test_whole_numbers_of_any_size() -> None:
    assert list(whole_numbers("-5,0,10000000000000000")) == [-5, 0, 10**16]


@pytest.mark.parametrize(
    ("text", "number"),
    [("273", 273.0), ("0.5", 0.5), ("1e3", 1000.0), ("1,792", 1792.0), ("1,792.5", 1792.5), (".5", 0.5)],
)
def test_a_figure(text: str, number: float) -> None:
    assert positive(text) == number
    assert at_least_zero(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no number"),
        ("273GB/s", "without a unit"),
        ("1,79", "no number"),
        ("nan", "not finite"),
        ("-inf", "not finite"),
        ("-1", "not above zero"),
        ("1e-7", r"out of range; it must be 0\.000001 to 1,000,000,000,000"),
        ("1e13", "out of range"),
    ],
)
def test_what_is_no_figure(text: str, message: str) -> None:
    for read in (positive, at_least_zero):
        with pytest.raises(ArgumentTypeError, match=message):
            read(text)


def test_zero() -> None:
    assert at_least_zero("0") == at_least_zero("-0.0") == 0
    with pytest.raises(ArgumentTypeError, match="not above zero"):
        positive("0")


def test_shares() -> None:
    assert shares("0, 0.05,25%,50 %,1,100%") == (0, 0.05, 0.25, 0.5, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("150%", "150% is no share: it must be 0 to 1, or 0% to 100%$"),
        ("5", "5 per cent is written 5%$"),
        ("-0.1", "no share"),
        ("101", "100%$"),
        ("x", "no number"),
        ("nan", "not finite"),
        ("", "no list of shares, as in 0.05,0.1,25%$"),
        ("5%,", "nothing beside it"),
    ],
)
def test_what_is_no_share(text: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        shares(text)
