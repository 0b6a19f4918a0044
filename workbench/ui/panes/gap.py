"""Gap: one pass from its ceiling to its measured time, rung by rung, what it comes to and what would act on it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import DataTable, Input, Static

from workbench.experiments.events import Finished
from workbench.experiments.gap.verdict import SUSPECTS, Kind, Suspect, kinds, suspects, with_verdict
from workbench.experiments.settings import GapSettings, RunSettings
from workbench.quantity import explain
from workbench.runs.ladder import DECODE, PREFILL, Ladder, Rung
from workbench.runs.ladder_record import fastest_words, ladder_lines, milliseconds
from workbench.runs.row import Row
from workbench.runs.row_ladder.ladder import row_ladder
from workbench.runs.row_ladder.points import Asked
from workbench.runs.run import Run
from workbench.runs.symptoms import ALIKE_BUT_THREADS, explained_rows
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.chart import ASCII, Markers
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.field import field, whole_number
from workbench.ui.widgets.ladder_table import LadderTable
from workbench.ui.widgets.lever_table import LeverTable, plain
from workbench.ui.widgets.waterfall import ASCII_BARS, BLOCK_BARS

NOTHING_YET = "no run yet · r takes this pass of the Setup pane's model apart"
SEARCH_S = 300.0


class Verdict(Static, can_focus=True):
    """What the ladder comes to, in one sentence; enter adds the suspects and the notes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "explain", show=False)]

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self.ladder: Ladder | None = None
        self.can_focus = False

    def show(self, ladder: Ladder | None, failure: str) -> None:
        """Say what this ladder comes to, or why there is none."""
        self.ladder = ladder
        self.can_focus = ladder is not None
        text = failure if ladder is None else ladder.verdict
        if str(self.content) != text:
            self.update(text)

    def action_explain(self) -> None:
        """The sentence with the suspects behind the largest rung."""
        if self.ladder is not None:
            lines = [self.ladder.verdict, "", *_suspect_lines(suspects(self.ladder)), *_note_lines(self.ladder)]
            self.app.push_screen(TextScreen("What the ladder comes to", lines))


class GapPane(Vertical):
    """Its fields, the ladder, what it comes to, and the levers that were tried."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "app.perturb", show=False),
        Binding("t", "try_lever", show=False),
        Binding("f", "find_fastest", show=False),
        Binding("escape", "to_table", show=False),
    ]

    class Asked(Message):
        """Something is to be tried on the pass shown, which the run `before` took apart."""

        def __init__(self, settings: GapSettings, before: LiveRun | None) -> None:
            super().__init__()
            self.settings = settings
            self.before = before

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.live: LiveRun | None = None
        self._awaits_levers = False

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows; it is filled by `show`."""
        first = GapSettings()
        with Horizontal(classes="fields"):
            yield from field("phase", Choice((DECODE, PREFILL), DECODE, id="gap-phase"))
            yield from field("context", Entry(str(first.context), id="gap-context"))
            yield from field("batch", Entry(str(first.batch), id="gap-batch"))
        yield Static(NOTHING_YET, id="gap-progress", classes="progress", markup=False)
        yield LadderTable(id="ladder-table")
        yield Static("", id="gap-evidence", markup=False)
        yield Verdict(id="gap-verdict")
        yield Static("", id="gap-notes", classes="-empty", markup=False)
        yield Static("", id="gap-suspects", markup=False)
        yield LeverTable(id="gap-levers-table")
        yield Static("", id="gap-fastest", markup=False)

    def settings(self, setup: RunSettings) -> GapSettings:
        """The pass of the fields, on the model and device of the Setup pane.

        Raises SettingsError where a field holds no number.
        """
        return GapSettings(
            model=setup.model,
            weights=setup.weights,
            dtype=setup.dtype,
            device=setup.device,
            threads=setup.threads,
            variant=setup.variant,
            track=setup.track,
            context=whole_number(self._text("context"), "context"),
            batch=whole_number(self._text("batch"), "batch"),
            prefill=self.query_one("#gap-phase", Choice).value == PREFILL,
        )

    def show(self, live: LiveRun) -> None:
        """Show the run as it stands."""
        if live is not self.live:
            self.live = live
            self._awaits_levers = not live.over and _tries_levers(live)
            self._take_fields(live)
        ladder = live.ladder
        self.query_one("#gap-progress", Static).update(_progress(live, self.size.width - 2), layout=False)
        self.query_one(LadderTable).show(ladder)
        failed = next((row.status for row in live.rows if row.status != "ok"), "")
        self.query_one(Verdict).show(ladder, failed and f"! The pass {failed}")
        self._put("notes", () if ladder is None else _note_lines(ladder))
        self._put("suspects", () if ladder is None else _other_suspects(ladder))
        self.query_one(LeverTable).follow(live)
        fastest = None if ladder is None else ladder.fastest
        self._put("fastest", () if fastest is None else (fastest_words(fastest),))
        self._tell_evidence()
        if self._awaits_levers and live.over:
            self._awaits_levers = False
            self._show_levers()

    def _show_levers(self) -> None:
        """Show what trying levers came to, where the pane is in sight."""
        ladder, levers = self.query_one(LadderTable), self.query_one(LeverTable)
        if ladder.has_focus and levers.selected is not None:
            self._put_levers_first()

    def _put_levers_first(self) -> None:
        """Give the levers the keys, and in a narrow terminal the ladder's place."""
        self.add_class("-levers")
        self.query_one(LeverTable).focus()

    def _take_fields(self, live: LiveRun) -> None:
        """Have the fields name the pass shown, so that r takes the same one apart again."""
        match live:
            case LiveRun(settings=GapSettings() as settings):
                shown = settings.prefill, settings.context, settings.batch
            case LiveRun(ladder=Ladder() as ladder):
                shown = ladder.phase == PREFILL, ladder.tokens, ladder.batch
            case _:
                return
        prefill, context, batch = shown
        self.query_one("#gap-phase", Choice).value = PREFILL if prefill else DECODE
        self.query_one("#gap-context", Entry).value = str(context)
        self.query_one("#gap-batch", Entry).value = str(batch)

    def show_rows(self, run: Run, rows: Sequence[Row]) -> None:
        """Show the ladder that a kept run's rows give, of the phase chosen; raises StoreError where they give none."""
        phase = self.query_one("#gap-phase", Choice).value
        ladder = with_verdict(row_ladder(explained_rows([(run, rows)], ALIKE_BUT_THREADS), Asked(phase)))
        of = RunSettings(model=run.model)
        self.show(LiveRun(of, run=run, finished=Finished(run, run.status, note="from its rows"), ladder=ladder))

    def catch_up(self) -> None:
        """Nothing waits here: `show` is only called between timed windows."""

    def use_markers(self, markers: Markers) -> None:
        """Draw the bars with characters that a terminal without those has too."""
        self.query_one(LadderTable).use(ASCII_BARS if markers is ASCII else BLOCK_BARS)

    @on(DataTable.RowHighlighted)
    def _tell_evidence(self) -> None:
        table = self.query_one(LadderTable)
        text = ""
        if table.ladder is not None:
            line = ladder_lines(table.ladder)[table.place]
            text = f"{line.name}: {line.evidence}"
        self.query_one("#gap-evidence", Static).update(text, layout=False)

    @on(DataTable.RowSelected)
    def _explain(self) -> None:
        table = self.query_one(LadderTable)
        if table.ladder is not None:
            self.app.push_screen(line_explanation(table.ladder, table.place))

    def action_try_lever(self) -> None:
        """Go to the levers; on one of them, try it on the pass shown."""
        settings, table = self._settings_shown(), self.query_one(LeverTable)
        if settings is None or table.selected is None:
            self._say("There is no lever to try", "Levers are proposed once a ladder is complete; r measures one.")
        elif not table.has_focus:
            self._put_levers_first()
        elif table.lever:
            self.remove_class("-levers")
            self.post_message(self.Asked(replace(settings, levers=(table.lever,)), self.live))
        else:
            self._say("This is a combination", "f searches combinations; t tries a lever that stands by itself.")

    def action_find_fastest(self) -> None:
        """Search the combinations of levers on the pass shown."""
        settings = self._settings_shown()
        if settings is None:
            self._say("There is no pass to make faster", "r measures a ladder; f then searches among its levers.")
        else:
            self.remove_class("-levers")
            self.post_message(self.Asked(replace(settings, fastest_within=SEARCH_S), self.live))

    def _settings_shown(self) -> GapSettings | None:
        live = self.live
        if live is None or live.ladder is None or not isinstance(live.settings, GapSettings):
            return None
        return plain(live.settings)

    def _say(self, title: str, text: str) -> None:
        self.app.push_screen(TextScreen(title, [text]))

    @on(Entry.Kept)
    def action_to_table(self) -> None:
        """Leave the field, or the levers."""
        self.remove_class("-levers")
        self.query_one(LadderTable).focus()

    def left(self) -> None:
        """Have the pane open on its ladder the next time."""
        self.remove_class("-levers")

    @on(Input.Changed)
    @on(Choice.Changed)
    def _keep_to_itself(self, event: Input.Changed | Choice.Changed) -> None:
        # These fields say nothing to the Setup pane.
        event.stop()

    def _put(self, name: str, lines: Iterable[str]) -> None:
        place, text = self.query_one(f"#gap-{name}", Static), "\n".join(lines)
        place.set_class(not text, "-empty")
        if str(place.content) != text:
            place.update(text)

    def _text(self, name: str) -> str:
        return self.query_one(f"#gap-{name}", Entry).value.strip()


def line_explanation(ladder: Ladder, place: int) -> TextScreen:
    """What `enter` on a line of the ladder shows: its time and interval, how it was measured, and what to suspect."""
    line = ladder_lines(ladder)[place]
    if 0 < place <= len(ladder.terms):
        rung = ladder.terms[place - 1]
        lines = [*_interval_lines(rung), "", *explain(rung.time), "", rung.evidence]
    else:
        lines = [*explain(ladder.measured if place else ladder.ceiling), "", line.evidence]
    if found := SUSPECTS.get(line.name, ()):
        lines += ["", *_suspect_lines(found)]
    return TextScreen(f"{line.name} · {_pass_words(ladder)}", lines)


def _interval_lines(rung: Rung) -> Iterator[str]:
    ms, low_ms, high_ms = (milliseconds(seconds) for seconds in (rung.time.value, rung.low_s, rung.high_s))
    yield f"{ms} ms, at 95 % between {low_ms} and {high_ms} ms, all ways of measuring it included."
    if not rung.resolved:
        yield "Not resolved: the interval spans zero. More rounds, or a quieter box, narrow it."


def _suspect_lines(found: tuple[Suspect, ...]) -> Iterator[str]:
    if found:
        yield "Suspects, the likeliest first:"
    for number, suspect in enumerate(found, 1):
        yield f"{number}. {suspect.what}"
        yield f"   check: {suspect.check}"


def _note_lines(ladder: Ladder) -> Iterator[str]:
    yield from (f"! {text}" for text in ladder.notes)


def _other_suspects(ladder: Ladder) -> Iterator[str]:
    """Of what is, or may be, a symptom, after the first, which the verdict has named."""
    if Kind.SYMPTOM in kinds(ladder):
        yield from (f"or: {suspect.what} ({suspect.check})" for suspect in suspects(ladder)[1:])


def _tries_levers(live: LiveRun) -> bool:
    settings = live.settings
    return isinstance(settings, GapSettings) and bool(settings.levers or settings.fastest_within)


def _tried_words(live: LiveRun) -> str:
    """What a run that tried levers found of each, while the ladder it shows is that of a run before."""
    if live.ladder is None or not live.over or not isinstance(live.settings, GapSettings):
        return ""
    tried = (lever for lever in live.ladder.levers if lever.name in live.settings.levers)
    return ", ".join(
        f"{lever.name} saved {milliseconds(lever.measured_saving_s)} ms"
        for lever in tried
        if lever.measured_saving_s is not None
    )


def _pass_words(ladder: Ladder) -> str:
    of = f"prefill of {ladder.tokens:,} tokens" if ladder.phase == PREFILL else f"step at context {ladder.tokens:,}"
    return f"{of}, batch {ladder.batch:,}"


def _progress(live: LiveRun, width: int) -> str:
    """Where the run stands; which pass its ladder is of, and what the model held, where there is room."""
    line = live.summary()
    passes = "" if live.ladder is None or not live.over else _pass_words(live.ladder)
    ladder, run = live.ladder, live.run
    other = ladder is not None and run is not None and ladder.run_id not in ("", run.run_id)
    whose = f"ladder of {ladder.run_id}" if ladder is not None and other else ""
    for more in filter(None, (_tried_words(live), passes, whose, live.finished.memory if live.finished else "")):
        if len(f"{line} · {more}") <= width:
            line = f"{line} · {more}"
    return line
