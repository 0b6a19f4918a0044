"""Whether a process measures a run, and so what may be done to the run."""

from workbench.errors import StoreError
from workbench.runs import owner
from workbench.runs.run import Run, RunStatus


def check_resumable(run: Run) -> None:
    """Raise StoreError where a run is finished, or a process measures it."""
    if run.status is RunStatus.FINISHED:
        raise StoreError(f"{run.run_id} is finished: every point has its row, and there is nothing to resume.")
    check_unowned(run)


def check_unowned(run: Run) -> None:
    """Raise StoreError where a process measures a run, or one that can't be looked for from here may."""
    if run.status is not RunStatus.RUNNING:
        return
    if not can_be_taken_over(run):
        raise StoreError(
            f"{run.run_id} is being measured by {owner.process_words(run.owner)}. Stop it there, and ask again then."
        )
    raise StoreError(f"{owner_words(run)} If that process is gone, add --take-over, or press u or d on the Runs pane.")


def can_be_taken_over(run: Run) -> bool:
    """Whether a run says that it is running, and it can't be seen from here that its process is alive."""
    return run.status is RunStatus.RUNNING and not owner.is_here(run.owner)


def owner_words(run: Run) -> str:
    """Which process owns a run, and when it was last heard of."""
    last = (
        f"the last row it wrote is of a point begun at {run.last_row_at}"
        if run.last_row_at
        else f"it has written no row since it was begun at {run.last_seen_at}"
    )
    return (
        f"{run.run_id} was being measured by {owner.process_words(run.owner)}, which can't be seen from here: {last}."
    )
