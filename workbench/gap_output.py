"""How the command line prints a gap: rounds as they are measured, then the ladder and what it comes to."""

from workbench.experiments.events import Event, Finished, LadderMeasured, PointFailed, Predicted, Progress, Started
from workbench.experiments.gap.verdict import suspects
from workbench.output import Format, note, print_json, print_records
from workbench.quantity import format_duration
from workbench.runs.export import ladder_csv_text
from workbench.runs.ladder import Ladder
from workbench.runs.ladder_record import fastest_words, ladder_lines, ladder_record, lever_lines
from workbench.runs.run import Run


class GapPrinter:
    """Progress to standard error, the ladder to standard output in the format chosen."""

    def __init__(self, chosen: Format) -> None:
        self._format = chosen
        self._run: Run | None = None
        self.ladder: Ladder | None = None
        self.failure = ""

    def show(self, event: Event) -> None:
        """Print one event."""
        match event:
            case Started(run):
                self._run = run
                note(f"run {run.run_id} on {run.machine}")
            case Predicted():
                note(f"this box reads {event.read_rate} and multiplies {event.product_rate} right now")
            case Progress(stage="measuring"):
                left = "" if event.left_s is None else f", {format_duration(event.left_s)} left"
                note(f"round {event.repeat} of {event.repeats}{left}")
            case Progress():
                note(event.stage)
            case LadderMeasured(_, ladder):
                self.ladder = ladder
            case PointFailed():
                self.failure = event.reason
            case Finished():
                self._finish(event)
            case _:
                pass

    def left_behind(self) -> None:
        """Print the ladder as far as it came."""
        self._print_ladder()

    def kept(self) -> str:
        """What a signal that stopped the measuring left."""
        run = self._run.run_id if self._run else "last"
        return f"Stopped; the ladder as far as it came is kept: `workbench runs show {run}`."

    def _finish(self, event: Finished) -> None:
        self._print_ladder()
        for text in (self.failure, event.note):
            if text:
                note(text)
        note(f"kept as {event.run.run_id}: `workbench runs show {event.run.run_id}` prints it again")

    def _print_ladder(self) -> None:
        if self.ladder is not None and self._run is not None:
            print_ladder(self._run, self.ladder, self._format)


def print_ladder(run: Run, ladder: Ladder, chosen: Format) -> None:
    """A run's ladder in the format chosen; as a table its verdict, suspects, evidence and notes come below."""
    match chosen:
        case Format.JSON:
            print_json(ladder_record(ladder))
        case Format.CSV:
            print(ladder_csv_text(run, ladder), end="", flush=True)
        case Format.TABLE:
            _print_as_table(ladder)


def _print_as_table(ladder: Ladder) -> None:
    lines = ladder_lines(ladder)
    print_records(lines, Format.TABLE, without=("evidence",))
    print()
    print(ladder.verdict)
    for suspect in suspects(ladder):
        print(f"  suspect: {suspect.what}; check: {suspect.check}")
    print()
    for line in lines:
        print(f"{line.name}: {line.evidence}")
    if ladder.levers:
        print()
        print_records(lever_lines(ladder), Format.TABLE)
    if ladder.fastest is not None:
        print()
        print(fastest_words(ladder.fastest))
    for text in ladder.notes:
        print(f"! {text}")
