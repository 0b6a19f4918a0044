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
    if row.kind == BATCH:
        steps = dict.fromkeys(each.new_tokens - 1 for each in rows)
        answer = f" · {' or '.join(map(str, steps))} step{'' if (*steps,) == (1,) else 's'}"
    return (
        f"{row.model} · {row.weights} weights · {quantisation_label(row)} · {row.dtype}{batch}"
        f"{answer} · {row.engine} {row.engine_version} · {row.device}, {threads} · {row.machine}"
    )


def figures_words(rows: Sequence[Row]) -> str:
    """Which of several timings the figures of a run's rows are, in words; another tool may tell means alone."""
    chosen = "the median step" if rows[0].kind == BATCH else "the best of the repeats"
    measured = [row for row in rows if row.status == "ok"]
    means = [row for row in measured if row.ttft_median_ms is None and row.tpot_median_ms is None]
    if not means:
        return f"figures: {chosen}"
    if len(means) == len(measured):
        return "figures: means, as the file has no samples"
    return f"figures: {chosen}; a mean where the file has no samples, which the row then says"


def point_words(row: Row) -> str:
    """Which point of its run a row is."""
    tokens = cell(row, "prompt_tokens")
    if row.kind == BATCH:
        return f"context {tokens}, batch {row.batch:,}"
    before = f" after {row.depth_tokens:,} tokens" if row.depth_tokens else ""
    return f"steps alone{before}" if row.is_steps_alone else f"prompt {tokens}{before}"


FLAGS_APART = "; "


def flags_of_all(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the flags of each of these rows say, where there are several."""
    said = [row.flags.split(FLAGS_APART) for row in rows]
    return tuple(flag for flag in said[0] if flag and all(flag in each for each in said)) if len(said) > 1 else ()


def mark(row: Row) -> str:
    """What stands before a row that has flags: ~ where only its own spread or course is against it."""
    return "~" if row.judgement in UNSTEADY else "!"
