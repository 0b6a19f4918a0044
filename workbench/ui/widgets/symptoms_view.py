"""What rows say in words: the symptoms they show, and what a perturbation came to; each with its figures."""

from collections.abc import Iterator, Sequence

from workbench.experiments.gap.perturbation import reading
from workbench.quantity import Quantity, explain
from workbench.runs.checks import Verdict
from workbench.runs.labels import labels
from workbench.runs.row import Row
from workbench.runs.symptoms import SymptomLine, failures, symptom_words, symptoms, untold_words
from workbench.ui.widgets.explanation import TextScreen


def symptoms_screen(run_id: str, rows: Sequence[Row]) -> TextScreen:
    """Why rows failed, and the symptoms of a run: those present first, with their figures, the absent, the rest."""
    found = sorted(symptoms(rows), key=lambda line: list(Verdict).index(Verdict(line.verdict)))
    failed = [line for sentence in failures(rows) for line in (sentence, "")]
    return TextScreen(f"What {run_id} shows", [labels(rows), "", *failed, *_symptom_lines(found)])


def perturbation_screen(rows: Sequence[Row]) -> TextScreen:
    """What the rows of both sweeps of a perturbation say."""
    lines: list[str] = []
    for sentence in reading(rows):
        figures = (sentence.ttft_growth, sentence.tpot_growth, sentence.total_growth)
        lines += [f"{sentence.varied.upper()}: {sentence.text}", *_figure_lines(figures), ""]
    return TextScreen("What was varied, and what it acted on", lines)


def _symptom_lines(found: Sequence[SymptomLine]) -> Iterator[str]:
    for line in (line for line in found if line.verdict != Verdict.UNKNOWN):
        yield f"{line.verdict.upper()} · {line.symptom} · {line.phase}"
        yield from (f"  {words}" for words in symptom_words(line))
        if line.verdict == Verdict.PRESENT:
            yield from _figure_lines((line.times,))
        yield ""
    if untold := list(untold_words(found)):
        yield from (Verdict.UNKNOWN.upper(), *(f"  {line}" for line in untold))


def _figure_lines(figures: Sequence[Quantity | None]) -> Iterator[str]:
    for figure in figures:
        if figure is not None:
            yield from (f"  {line}" for line in explain(figure))
