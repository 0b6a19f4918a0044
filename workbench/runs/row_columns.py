"""The columns of a table of rows, on screen and on the command line: which, under what heading, how wide."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.runs.column import Column
from workbench.runs.row import BATCH, GAP, POINT_COLUMNS, PREFILL_DECODE, Row, column_of

SWEEP_TABLE: tuple[str, ...] = (
    "prompt_tokens",
    "depth_tokens",
    "ttft_ms",
    "predicted_ttft_ms",
    "prompt_tokens_per_s",
    "prefill_gflop_per_s",
    "bound_by",
    "tpot_ms",
    "predicted_tpot_ms",
    "decode_tokens_per_s",
    "ceiling_share",
)
"""The columns of the prefill/decode table, on screen and on the command line: those of the prefill first."""

BATCH_TABLE: tuple[str, ...] = (
    "prompt_tokens",
    "batch",
    "step_ms",
    "predicted_tpot_ms",
    "total_tokens_per_s",
    "decode_tokens_per_s",
    "bytes_per_step",
    "ceiling_share",
    "bound_by",
)
"""The columns of the batch table, on screen and on the command line."""

GAP_TABLE: tuple[str, ...] = (
    "prompt_tokens",
    "batch",
    "ttft_ms",
    "bound_by",
    "tpot_ms",
    "tpot_median_ms",
    "bytes_per_step",
    "ceiling_share",
)
"""The columns of the pass that was taken apart, on the command line."""

TABLES: Mapping[str, tuple[str, ...]] = {PREFILL_DECODE: SWEEP_TABLE, BATCH: BATCH_TABLE, GAP: GAP_TABLE}
WHERE_PREDICTED = ("predicted_ttft_ms", "predicted_tpot_ms")
WHERE_TOLD = (*WHERE_PREDICTED, "depth_tokens")
"""Left out of a table in which no row has one."""
WIDTHS: Mapping[str, int] = {
    "prompt_tokens": 8,
    "ttft_ms": 8,
    "predicted_ttft_ms": 8,
    "predicted_tpot_ms": 8,
    "prompt_tokens_per_s": 7,
    "prefill_gflop_per_s": 8,
    "bytes_per_step": 8,
    "bound_by": 8,
}
BATCH_WIDTHS: Mapping[str, int] = {"prompt_tokens": 7, "batch": 6, "bound_by": 13}
LEAST_WIDTH = 7
SHORT_HEADING = 5
"""Characters of a heading that is not broken: "tok/" above "s" is no word."""
PREDICTED_LINES = ("pre-", "dicted")
"""Beside what was measured, whose heading it needs not repeat."""


@dataclass(frozen=True)
class TableColumn:
    """A column with the two lines of its heading; the width has room for the gap before it."""

    name: str
    heading: tuple[str, str]
    width: int


def table_columns(kind: str) -> tuple[Column, ...]:
    """The columns of the table of a kind's rows."""
    return tuple(column_of(name, kind) for name in TABLES[kind])


def columns_shown(kind: str, rows: Iterable[Row]) -> tuple[TableColumn, ...]:
    """The columns of a kind's rows, those of predictions and of the depth only where one of the rows has one."""
    known = {name for row in rows for name in WHERE_TOLD if getattr(row, name) is not None}
    widths = {**WIDTHS, **(BATCH_WIDTHS if "batch" in POINT_COLUMNS[kind] else {})}
    found = []
    for column in table_columns(kind):
        if column.name in WHERE_TOLD and column.name not in known:
            continue
        lines = PREDICTED_LINES if column.name in WHERE_PREDICTED else heading_lines(column.heading)
        is_first = column.name == TABLES[kind][0]
        least = widths.get(column.name, LEAST_WIDTH)
        found.append(TableColumn(column.name, lines, max(least, *(len(line) + (not is_first) for line in lines))))
    return tuple(found)


def heading_lines(heading: str) -> tuple[str, str]:
    """A heading on two lines, broken at its last space or, without one, after its stroke; a short one stays whole."""
    if len(heading) <= SHORT_HEADING:
        return "", heading
    first, space, last = heading.rpartition(" ")
    if not space:
        first, stroke, last = heading.rpartition("/")
        first += stroke
    return first, last
