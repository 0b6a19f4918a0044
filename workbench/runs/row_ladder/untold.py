"""What a measured ladder would say and a ladder of rows can't, and what would tell."""

from collections.abc import Sequence

from workbench.ceilings.split import SlowShare
from workbench.runs.ladder import DECODE, PREFILL
from workbench.runs.row import Row
from workbench.runs.row_ladder.rates import Rates, VendorRates
from workbench.runs.row_ladder.terms import CONTEXT, SEQUENCES, SQUARE, Term


def untold(
    rows: Sequence[Row],
    terms: Sequence[Term],
    phase: str,
    box: Rates,
    vendor: VendorRates | None,
    slow: SlowShare | None,
) -> tuple[str, ...]:
    """A sentence for each cause that the rows can't tell apart, for want of points, rates or threads."""
    told = {term.name for term in terms}
    said = [
        "can't tell weight kernels, norms, framework and sampling apart: rows hold whole passes; "
        "workbench gap MODEL takes one apart"
    ]
    if phase == DECODE and CONTEXT not in told:
        said.append(
            "can't tell whether the context costs more than its bytes: there are too few contexts of one batch; "
            "workbench sweep MODEL --prompts 16,1024,4096"
        )
    if phase == DECODE and SEQUENCES not in told:
        said.append(
            "can't tell what each sequence adds: there are too few batches of one context; "
            "workbench batch MODEL --batches 1,2,4,8"
        )
    if phase == PREFILL and SQUARE not in told:
        said.append("can't tell attention's n² from the rest: fewer than three prompts")
    if len({row.threads for row in rows}) < 2:
        said.append("can't tell what threads do: there is one thread count; the same run with --threads 1 beside it")
    if vendor is None:
        said.append("can't tell how far the box is below its vendor's bandwidth: --track NAME says which box it is")
    elif vendor.read is box.B:
        said.append("can't tell the box's own bandwidth from its vendor's: nothing read its memory beside these rows")
    if phase == DECODE and box.C is not None and not any(row.step_flop for row in rows):
        said.append("the ceiling is of bytes alone: these rows don't say the operations of a step")
    if slow is None and any(row.engine != "transformers" for row in rows):
        said.append("can't tell whether weights lay in a second memory: --slow-share and --slow say how much and where")
    return tuple(said)
