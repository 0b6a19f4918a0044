"""Runs: every run kept, to open, compare, resume, export or delete."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import DataTable, Input, Static

from workbench.errors import StoreError
from workbench.hardware.machine import this_machine
from workbench.predictions.ledger import entries
from workbench.runs.compare import compare
from workbench.runs.importers.importing import Imported, words
from workbench.runs.listed import ListedRun, listed, matching
from workbench.runs.ownership import can_be_taken_over, owner_words
from workbench.runs.run import Run, RunStatus
from workbench.runs.store import Store
from workbench.ui.widgets.comparison import ComparisonScreen
from workbench.ui.widgets.confirm import ConfirmScreen
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explanation import TextScreen
from workbench.ui.widgets.field import field
from workbench.ui.widgets.import_dialog import ImportDialog
from workbench.ui.widgets.ledger import LedgerScreen
from workbench.ui.widgets.run_table import RunTable

NONE_YET = "no runs yet · r on the Setup pane measures the first"


class RunsPane(Vertical):
    """A filter, the runs that pass it, and what else is known of the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", show=False),
        Binding("c", "compare", "Compare", show=False),
        Binding("l", "ledger", "Ledger", show=False),
        Binding("g", "ladder", "Gap", show=False),
        Binding("u", "resume", "Resume", show=False),
        Binding("i", "import", "Import", show=False),
        Binding("d", "delete", "Delete", show=False),
        Binding("escape", "to_table", show=False),
    ]

    class Opened(Message):
        """A run is to be shown in its pane."""

        def __init__(self, run_id: str) -> None:
            super().__init__()
            self.run_id = run_id

    class Resumed(Opened):
        """What is missing of a run is to be measured."""

    class Explained(Opened):
        """The ladder of a run is to be shown, by its rows where no pass of it was taken apart."""

    class KeysChanged(Message):
        """Other keys do something now."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._kept: Mapping[str, Run] = {}
        self._runs: tuple[ListedRun, ...] = ()

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows."""
        yield from field("filter", Entry("", "words of the model, kind, dtype, status …", id="runs-filter"))
        yield Static("", id="runs-line", markup=False)
        yield RunTable(id="runs-table")
        yield Static("", id="run-about", markup=False)

    @property
    def selected(self) -> ListedRun | None:
        """The run under the cursor."""
        return self.query_one(RunTable).selected

    def look_again(self) -> None:
        """Read the store."""
        try:
            with Store() as store:
                self._kept = {run.run_id: run for run in store.runs()}
        except StoreError as error:
            self.query_one("#runs-line", Static).update(str(error))
            return
        self._runs = tuple(map(listed, self._kept.values()))
        self._show()

    def _show(self) -> None:
        words = self.query_one("#runs-filter", Entry).value
        passing = matching(self._runs, words)
        count = "1 run" if len(self._runs) == 1 else f"{len(self._runs):,} runs"
        line = f"{len(passing):,} of {count}" if words.strip() else count
        self.query_one("#runs-line", Static).update(line if self._runs else NONE_YET)
        self.query_one(RunTable).show(passing)
        self._about()

    @on(DataTable.RowHighlighted)
    @on(RunTable.MarksChanged)
    def _about(self) -> None:
        run = self.selected
        text = ""
        if run is not None:
            failed = f" · {run.failed} failed" if run.failed else ""
            sittings = f" · {run.sittings} sittings" if run.sittings > 1 else ""
            text = f"{run.run_id} · {run.machine}{failed}{sittings}\n{self._owner_line(run) or run.note}"
        self.query_one("#run-about", Static).update(text)
        self.post_message(self.KeysChanged())

    def _owner_line(self, run: ListedRun) -> str:
        """Which process measures a run, where that can't be seen to be alive from here."""
        kept = self._kept[run.run_id]
        return owner_words(kept) if can_be_taken_over(kept) else ""

    @on(DataTable.RowSelected)
    def _open(self, event: DataTable.RowSelected) -> None:
        event.stop()
        if (run := self.selected) is not None:
            self.post_message(self.Opened(run.run_id))

    @on(RunTable.NothingSelected)
    def _say_none(self) -> None:
        """Say why no run is under the cursor."""
        why = "No run passes the filter; / changes it." if self._runs else f"There are {NONE_YET}."
        self._say("No run is chosen", why)

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._show()

    async def action_filter(self) -> None:
        """Type words that the runs shown must have."""
        entry = self.query_one("#runs-filter", Entry)
        entry.focus()
        await entry.action_submit()

    @on(Entry.Kept)
    def action_to_table(self) -> None:
        """Leave the filter."""
        self.query_one(RunTable).focus()

    def action_compare(self) -> None:
        """The two marked runs side by side, the one marked first as the run."""
        marked = self.query_one(RunTable).marked
        if len(marked) < 2:
            self._say("Two runs are compared", "space marks the run under the cursor: mark two, then press c.")
            return
        try:
            with Store() as store:
                run, other = (store.run(name) for name in marked)
                comparison = compare(
                    run, store.rows_with_samples(run.run_id), other, store.rows_with_samples(other.run_id)
                )
        except StoreError as error:
            self._say("The runs can't be compared", str(error), is_error=True)
            return
        self.app.push_screen(ComparisonScreen(comparison))

    def action_ledger(self) -> None:
        """What was predicted on this machine beside what was measured."""
        try:
            with Store() as store:
                ledger = entries(store.predicted_rows(str(this_machine())))
        except StoreError as error:
            self._say("The ledger can't be read", str(error), is_error=True)
        else:
            self.app.push_screen(LedgerScreen(ledger))

    def action_import(self) -> None:
        """Ask for a file of another tool's results, and what they were measured with."""
        if any(run.status == "running" for run in self._runs):
            self._say("A measurement is running", "Reading a file would disturb it. x stops it, where it was begun.")
            return

        def told(imported: Imported | None) -> None:
            if imported is not None:
                self.look_again()
                self._say("Imported" if imported.runs else "Already imported", "\n".join(words(imported)))

        self.app.push_screen(ImportDialog(), told)

    def action_resume(self) -> None:
        """Measure what is missing of the run under the cursor."""
        if (run := self._selected_or_say()) is not None:
            self._unowned(run, lambda: self.post_message(self.Resumed(run.run_id)))

    def action_ladder(self) -> None:
        """Show where the time of the run under the cursor went, as far as its rows say."""
        if (run := self._selected_or_say()) is not None:
            self.post_message(self.Explained(run.run_id))

    def action_delete(self) -> None:
        """Take the run under the cursor out of the store, once that is confirmed."""
        if (run := self._selected_or_say()) is not None:
            self._unowned(run, lambda: self._confirm_deletion(run))

    def _selected_or_say(self) -> ListedRun | None:
        """The run under the cursor; where there is none, that is said."""
        if self.selected is None:
            self._say_none()
        return self.selected

    def _unowned(self, run: ListedRun, act: Callable[[], object]) -> None:
        """Act on a run that no process measures; of one whose process can't be seen from here, ask first."""
        kept = self._kept[run.run_id]
        if kept.status is not RunStatus.RUNNING:
            act()
            return
        if not can_be_taken_over(kept):
            self._say("The run is being measured", "x stops it, where it was begun.")
            return

        def answered(yes: bool | None) -> None:
            if yes and self._changed(lambda store: store.take_over(run.run_id), "The run can't be taken over"):
                act()

        self.app.push_screen(
            ConfirmScreen(
                "Is its process gone?",
                f"{owner_words(kept)} Take it over only if that process is gone: one that still measures will stop at "
                "its next row.",
            ),
            answered,
        )

    def _changed(self, change: Callable[[Store], object], refused: str) -> bool:
        """Whether the store was changed; where it can't be, `refused` heads why. What the store then holds is shown."""
        try:
            with Store() as store:
                change(store)
        except StoreError as error:
            self._say(refused, str(error), is_error=True)
            return False
        finally:
            self.look_again()
        return True

    def _confirm_deletion(self, run: ListedRun) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self._changed(lambda store: store.delete_run(run.run_id), "The run can't be deleted")

        count = self._kept[run.run_id].rows
        rows = "its row" if count == 1 else f"its {count} rows"
        self.app.push_screen(
            ConfirmScreen("Delete this run?", f"{run.run_id}, {run.model}, with {rows}. It can't be brought back."),
            answered,
        )

    def _say(self, title: str, text: str, *, is_error: bool = False) -> None:
        self.app.push_screen(TextScreen(title, [text], is_error=is_error))
