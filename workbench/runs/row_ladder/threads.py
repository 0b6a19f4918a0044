"""What more threads do for a pass, where rows have it on fewer as well."""

from collections.abc import Sequence

from workbench.quantity import Unit, format_number, format_value
from workbench.runs.readings import range_words, times
from workbench.runs.row_ladder.points import Point


def threads_words(points: Sequence[Point], chosen: Point) -> str:
    """How the chosen pass goes with more threads, where other rows have it on fewer."""
    same = {p.row.threads: p for p in points if (p.tokens, p.batch) == (chosen.tokens, chosen.batch)}
    if len(same) < 2:
        return ""
    few, many = min(same), max(same)
    fewer, more, most = same[few], same[many], many / few
    gain = times(fewer.seconds, fewer.interval, more.seconds, more.interval)
    low, high = gain.interval.low, gain.interval.high
    between = "" if low == high else f" ({range_words(gain.interval)})"
    head = f"; from {few} to {many} threads the pass is {format_number(gain.value)} times faster{between}"
    if low <= 1 <= high and low < high:
        return f"{head}: can't tell whether more threads help"
    if high < 1:
        return f"{head}: more threads make it slower"
    # By a + p/threads through both ends: what no number of threads would take away.
    serial = (more.seconds * many - fewer.seconds * few) / (many - few)
    return (
        f"{head} of {format_number(most)} possible, as if {format_value(max(serial, 0.0), Unit.SECONDS)} of it used "
        "one thread or waited for memory"
    )
