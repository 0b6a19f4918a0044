import csv
import io
from pathlib import Path

import pytest

from tests.fakes import a_row
from workbench.errors import StoreError
from workbench.runs.export import csv_text, records, write_text
from workbench.runs.row import COLUMNS


def test_csv_has_every_column_and_an_empty_cell_for_what_was_not_measured() -> None:
    (line,) = csv.DictReader(io.StringIO(csv_text([a_row(ttft_ms=1.5, ui_share=0.0)])))
    assert list(line) == [column.name for column in COLUMNS]
    assert (line["ttft_ms"], line["tpot_ms"], line["ui_share"]) == ("1.5", "", "0.0")


def test_csv_and_records_hold_the_same(tmp_path: Path) -> None:
    row = a_row(model='a "quoted", name', flags="one; two")
    (line,) = csv.DictReader(io.StringIO(csv_text([row])))
    assert line == {name: "" if value is None else str(value) for name, value in records([row])[0].items()}


def test_a_written_file_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("old")
    assert write_text(csv_text([a_row()]), path) == path
    assert path.read_text(encoding="utf-8") == csv_text([a_row()])
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_a_home_that_is_not_there_is_an_error_of_words() -> None:
    with pytest.raises(StoreError, match="still in the store"):
        write_text(csv_text([a_row()]), Path("~no-such-person/rows.csv"))


@pytest.mark.parametrize("name", ["missing/rows.csv", "."])
def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="still in the store"):
        write_text(csv_text([a_row()]), tmp_path / name)


def test_a_full_device_is_an_error_of_words() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(StoreError, match="No space left"):
        write_text(csv_text([a_row()]), Path("/dev/full"))
