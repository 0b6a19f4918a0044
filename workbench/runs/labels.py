"""What is said of rows beside their figures: their labels, which timings the figures are, and whether to doubt them."""

from collections.abc import Sequence

from workbench.runs.cell import cell
from workbench.runs.judgement import UNSTEADY
from workbench.runs.row import BATCH, Row


def quantisation_label(row: Row) -> str:
    """How the weights are stored, in words that need no heading."""
    return "not quantised" if row.quantisation == "none" else row.quantisation


def labels(rows: Sequence[Row]) -> str:
    """The labels that the rows of a run share in one line, without which no rate is shown.

    Context stands in the row itself, and in a batch sweep the batch too. Of a prefill alone there are no new tokens.
    """
    row = rows[0]
    batch = "" if row.kind == BATCH else f" · batch {row.batch}"
    # A row of another tool may not tell its threads.
    threads = "1 thread" if row.threads == 1 else f"{row.threads or 'untold'} threads"
    answers = dict.fromkeys(each.new_tokens for each in rows if each.new_tokens > 1 or each.tpot_ms is not None)
    answer = f" · {' or '.join(map(str, answers))} new token{'' if (*answers,) == (1,) else 's'}" if answers else ""
    return (
        f"{row.model} · {row.weights} weights · {quantisation_label(row)} · {row.dtype}{batch}"
        f"{answer} · {row.engine} {row.engine_version} · {row.device}, {threads} · {row.machine}"
    )


def figures_words(kind: str) -> str:
    """Which of several timings the figures of a kind's rows are, in words."""
    return "figures: the median step" if kind == BATCH else "figures: the best of the repeats"


def point_words(row: Row) -> str:
    """Which point of its run a row is."""
    tokens = cell(row, "prompt_tokens")
    return f"context {tokens}, batch {row.batch:,}" if row.kind == BATCH else f"prompt {tokens}"


def mark(row: Row) -> str:
    """What stands before a row that has flags: ~ where only its own spread or course is against it."""
    return "~" if row.judgement in UNSTEADY else "!"
