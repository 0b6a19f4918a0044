"""What a probe's cells come to: rates, what counts, drift, and what is said of them."""

from dataclasses import replace

import pytest

from tests.fake_grid import BUSY, CACHE_BYTES, MB, QUIET, a_calibration, a_cell, a_product
from workbench.hardware.caches import Residence
from workbench.hardware.calibration import Work, cell_line, drift_between, findings, judged
from workbench.quantity import Origin, Unit


def test_a_cells_rates_are_of_its_shortest_and_middle_pass() -> None:
    cell = a_cell(amount=6.0, seconds=(3.0, 1.0, 2.0))
    assert (cell.best, cell.median) == (6.0, 3.0)
    assert cell.unit is Unit.BYTES_PER_SECOND
    assert a_product(1.0, 8).unit is Unit.FLOP_PER_SECOND


def test_read_rate_is_the_best_read_and_its_median_that_of_the_same_cell() -> None:
    slower_but_steady = a_cell(10.0, kernel="dot product", seconds=(0.04,) * 10)
    found = a_calibration(slower_but_steady, a_cell(20.0))
    assert found.read is not None
    assert found.read.value == pytest.approx(20e9)
    assert found.read_median == pytest.approx(20e9 / 1.045)
    assert (found.read.symbol, found.read.origin) == ("B", Origin.MEASURED)
    assert found.read.source == "sum, 2 threads, best of 10, probe of 2026-01-01T00:00:00Z"


def test_the_source_says_when_a_probe_was_quick_or_not_quiet() -> None:
    found = a_calibration(a_cell(threads=1), quick=True, load=BUSY).read
    assert found is not None
    assert found.source == "sum, 1 thread, best of 10, quick probe of 2026-01-01T00:00:00Z; the box was not quiet"


@pytest.mark.parametrize("work", [Work.COPY, Work.SIZE, Work.GEMV])
def test_nothing_but_a_read_is_the_roof(work: Work) -> None:
    found = a_calibration(a_cell(20.0), a_cell(60.0, work=work))
    assert found.read is not None
    assert found.read.value == pytest.approx(20e9)
    assert a_calibration(a_cell(60.0, work=work)).read is None


def test_product_and_matrix_vector_rates_are_the_best_of_their_dtype() -> None:
    cells = [a_product(4, 1), a_product(200, 1024), a_product(400, 1024, "bfloat16")]
    found = a_calibration(
        *cells, a_cell(7.0, work=Work.GEMV, threads=1), a_cell(9.0, work=Work.GEMV), a_cell(3.0, kernel="dot product")
    )
    C, gemv = found.gemm("float32"), found.gemv("float32")
    assert C is not None
    assert gemv is not None
    assert C.value == pytest.approx(200e9)
    assert (C.symbol, C.source.split(", ")[1]) == ("C", "1,024 rows")
    assert gemv.value == pytest.approx(9e9)
    assert found.gemv("float16") is None
    assert found.gemm("float16") is None
    assert found.dtypes(Work.GEMM) == ("float32", "bfloat16")


def test_the_rate_at_some_rows_lies_between_the_counts_measured_nearest() -> None:
    found = a_calibration(a_product(8, 1), a_product(9, 4), a_product(36, 16), a_product(30, 16), a_product(100, 1024))
    at = {rows: found.gemm_at("float32", rows) for rows in (1, 4, 8, 16, 5000)}
    rates = {rows: rate.value / 1e9 for rows, rate in at.items() if rate is not None}
    assert rates == pytest.approx({1: 8, 4: 9, 8: 18, 16: 36, 5000: 100})
    assert at[8] is not None
    assert at[8].source.startswith("between 4 and 16 rows: ")
    assert at[8].symbol == "C_b"
    assert found.gemm_at("bfloat16", 8) is None
    assert a_calibration(a_product(200, 1024)).gemm_at("float32", 8) is None


def test_a_read_that_may_lie_in_the_cache_is_rejected() -> None:
    small, large = a_cell(90.0, array_bytes=2 * CACHE_BYTES - 1), a_cell(20.0, array_bytes=2 * CACHE_BYTES)
    rejected, kept = judged([small, large], CACHE_BYTES)
    assert "may lie in the last-level cache of 100 MB" in rejected.rejected
    assert kept.rejected == ""
    found = a_calibration(rejected, kept)
    assert found.read is not None
    assert found.read.value == pytest.approx(20e9)


def test_a_read_above_what_single_threads_could_is_rejected() -> None:
    alone = [a_cell(8.0, threads=1), a_cell(10.0, threads=1, kernel="dot product")]
    within, above = a_cell(22.9, kernel="largest integer"), a_cell(23.1)
    assert [cell.rejected for cell in judged([within, *alone], None)] == ["", "", ""]
    assert "more than 2 times" in judged([above, *alone], None)[0].rejected


def test_with_neither_cache_nor_a_single_thread_known_a_read_stands() -> None:
    assert judged([a_cell(500.0, array_bytes=MB)], None)[0].rejected == ""


def test_matrix_vector_products_over_weights_that_fit_the_cache_are_rejected_but_other_work_is_not() -> None:
    small = {"array_bytes": CACHE_BYTES}
    cells = [a_cell(9.0, work=work, **small) for work in (Work.GEMV, Work.SIZE, Work.COPY, Work.GEMM)]
    assert [bool(cell.rejected) for cell in judged(cells, CACHE_BYTES)] == [True, False, False, False]
    assert judged([a_cell(work=Work.GEMV, array_bytes=CACHE_BYTES + 1)], CACHE_BYTES)[0].rejected == ""


def test_drift_is_the_first_cells_rate_at_the_end_against_the_start() -> None:
    assert drift_between(a_cell(20.0), a_cell(15.0)) == pytest.approx(-0.25)
    for drift, word in ((-0.25, "25% slower"), (0.25, "25% faster")):
        found = a_calibration(drift=drift)
        assert not found.quiet
        assert any(f"first cell was {word}" in sentence for sentence in findings(found))


@pytest.mark.parametrize("drift", [None, 0.05, -0.05])
def test_a_small_drift_is_not_told(drift: float | None) -> None:
    found = a_calibration(drift=drift)
    assert found.quiet
    assert list(findings(found)) == []


def test_a_busy_box_is_labelled_busy() -> None:
    found = a_calibration(load=BUSY)
    assert not found.quiet
    assert any("took 40% of its cores and the hypervisor 8%" in sentence for sentence in findings(found))
    assert a_calibration(load=replace(QUIET, other_share=0.10, stolen_share=0.05)).quiet
    assert not a_calibration(load=replace(QUIET, other_share=0.101)).quiet
    assert not a_calibration(load=replace(QUIET, stolen_share=0.051)).quiet


def test_slow_matrix_vector_products_are_told_against_memory() -> None:
    gemv = [a_cell(rate, work=Work.GEMV, dtype=dtype) for dtype, rate in (("float32", 7.0), ("float16", 14.0))]
    told = [sentence for sentence in findings(a_calibration(a_cell(20.0), *gemv)) if "Matrix-vector" in sentence]
    assert len(told) == 1
    assert "in float32 read 7.00 GB/s, 35% of what memory gives" in told[0]


def test_few_rows_are_told_against_the_peak() -> None:
    products = [a_product(4, 1), a_product(30, 8), a_product(60, 16), a_product(200, 1024)]
    assert any(
        "8 rows in float32 reach 15% of the 200 GFLOP/s" in sentence
        for sentence in findings(a_calibration(a_cell(), *products))
    )


def test_plateaus_are_told_where_small_arrays_read_faster_than_memory() -> None:
    sizes = [a_cell(rate, work=Work.SIZE, array_bytes=size * MB) for size, rate in ((1, 90.0), (64, 26.0), (256, 20.0))]
    told = [sentence for sentence in findings(a_calibration(a_cell(20.0), *sizes)) if "cache" in sentence]
    assert len(told) == 1
    assert "up to 64.0 MB" in told[0]
    assert "90 GB/s" in told[0]
    assert list(findings(a_calibration(a_cell(20.0), sizes[-1]))) == []


def test_a_probe_without_memory_says_why_its_read_rate_is_not_known() -> None:
    shrunk = judged([a_cell(90.0, array_bytes=150 * MB)], CACHE_BYTES)
    found = a_calibration(*shrunk, load=replace(QUIET, available_bytes=375 * MB))
    assert found.read is None
    assert found.read_median is None
    said = " ".join(findings(found))
    assert "B is not known: its 150 MB may lie in the last-level cache" in said
    assert "may take 0.4 GB now" in said
    assert "Nothing was read" in " ".join(findings(a_calibration(a_product(4, 1))))


def test_a_stopped_probe_says_so_and_whether_its_reads_were_all_made() -> None:
    stopped = a_calibration(a_cell(), complete=False)
    assert any("stopped before its end" in sentence for sentence in findings(stopped))
    assert not stopped.reads_all
    assert a_calibration(a_cell(), a_cell(work=Work.SIZE), complete=False).reads_all
    assert a_calibration(a_cell()).reads_all


def test_a_model_is_said_to_live_in_cache_partly_or_in_memory() -> None:
    found = a_calibration()
    assert [found.residence(W) for W in (1, CACHE_BYTES, CACHE_BYTES + 1, 2 * CACHE_BYTES - 1, 2 * CACHE_BYTES)] == [
        Residence.CACHE,
        Residence.CACHE,
        Residence.PARTLY,
        Residence.PARTLY,
        Residence.MEMORY,
    ]
    assert a_calibration(last_level_cache_bytes=None).residence(1) is None


def test_a_cell_line_notes_the_rejection_where_an_array_lives_or_the_shape() -> None:
    assert cell_line(a_cell(rejected="a cache")).note == "a cache"
    assert cell_line(a_cell(work=Work.SIZE, array_bytes=MB), CACHE_BYTES).note == "lives in the last-level cache"
    assert cell_line(a_product(4, 1), CACHE_BYTES).note == "4×4"
    line = cell_line(a_product(4, 1))
    assert line.best.value == pytest.approx(4e9)
    assert (line.samples, line.array_bytes.value) == (3, 400 * MB)
