"""What the command line says before a run: its memory, and its time only where it can run."""

from dataclasses import replace

from workbench.experiments.foretelling import timing_seconds
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings
from workbench.headless import plan_words
from workbench.quantity import format_duration
from workbench.runs.store import Store


def test_no_time_is_told_of_what_memory_refuses() -> None:
    planned = replace(plan(SweepSettings(model="llama-3.1-70b", device="cpu")), available=10**10)
    assert planned.is_refused
    assert plan_words(planned).endswith("GB free.")
    assert "about" not in plan_words(planned)


def test_the_time_told_counts_the_operations_that_are_timed_first() -> None:
    planned = replace(plan(SweepSettings(model="smollm2-135m", device="cpu")), available=10**12)
    timing_s = timing_seconds(planned, Store)
    assert timing_s > 0
    assert f"about {format_duration(planned.seconds + timing_s)} if" in plan_words(planned)
    assert f"{format_duration(timing_s)} of it timing operations first" in plan_words(planned)
