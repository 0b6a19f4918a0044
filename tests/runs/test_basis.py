"""The bandwidth behind a ceiling: of the row's minute, of the last probe, or the vendor's."""

import pytest

from tests.fakes import a_row
from workbench.quantity import explain
from workbench.runs.basis import Basis, known_bases, on_basis
from workbench.runs.cell import quantity

ROW = a_row(
    bytes_per_step=2_000_000_000,
    decode_tokens_per_s=5.0,
    tpot_ms=200.0,
    read_gb_per_s=20.0,
    calibrated_gb_per_s=25.0,
    vendor_gb_per_s=50.0,
)


@pytest.mark.parametrize(
    ("basis", "ceiling", "share"),
    [(Basis.MINUTE, 10.0, 0.5), (Basis.CALIBRATION, 12.5, 0.4), (Basis.VENDOR, 25.0, 0.2)],
)
def test_the_ceiling_and_the_share_of_it_follow_the_basis(basis: Basis, ceiling: float, share: float) -> None:
    row = on_basis(ROW, basis)
    assert row.ceiling_tokens_per_s == pytest.approx(ceiling)
    assert row.ceiling_share == pytest.approx(share)
    assert row.ceiling_read_gb_per_s == pytest.approx(ceiling * 2)
    assert row.read_gb_per_s == 20.0
    figure = quantity(row, "ceiling_tokens_per_s")
    assert figure is not None
    assert f"B the read rate the ceiling rests on = {ceiling * 2:.1f} GB/s" in "\n".join(explain(figure))


def test_the_row_says_which() -> None:
    said = [on_basis(ROW, basis).ceiling_basis for basis in Basis]
    assert [words.split(":")[0] for words in said if words] == ["measured", "measured", "vendor"]
    assert len(set(said)) == 3


def test_an_unknown_basis_leaves_no_ceiling() -> None:
    bare = a_row(bytes_per_step=2_000_000_000, decode_tokens_per_s=5.0, read_gb_per_s=20.0)
    row = on_basis(bare, Basis.VENDOR)
    assert (row.ceiling_tokens_per_s, row.ceiling_share, row.ceiling_read_gb_per_s) == (None, None, None)
    assert row.ceiling_basis == "not known: vendor"
    assert known_bases([bare]) == (Basis.MINUTE,)
    assert known_bases([bare, ROW]) == tuple(Basis)
