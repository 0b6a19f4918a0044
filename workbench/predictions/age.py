"""How old what a prediction rests on is, in words."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from workbench.predictions.prediction import PointPrediction

OLD = timedelta(hours=1)
"""From then on the age is told: a shared box is another one an hour later."""


def age_words(of: Iterable[PointPrediction], now: datetime | None = None) -> str:
    """How old the oldest of the cells behind these predictions is; empty where none is older than OLD."""
    known = [each for point in of for each in (point.ttft, point.tpot) if each is not None]
    oldest = min((each.oldest for each in known), default="")
    if not oldest:
        return ""
    age = (now or datetime.now().astimezone()) - datetime.fromisoformat(oldest)
    return f"the oldest of the operations behind this were timed {ago(age)} ago" if age >= OLD else ""


def ago(age: timedelta) -> str:
    """An age in its largest whole unit: minutes, hours or days."""
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1))):
        if age >= length or unit == "minute":
            count = age // length
            return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"
    raise AssertionError("minutes end the list")
