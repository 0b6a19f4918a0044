"""Setup: what is measured, what one token of it reads, and whether it fits."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from workbench.errors import SettingsError, WorkbenchError
from workbench.experiments.plan import Plan, plan
from workbench.experiments.settings import DEVICES, SweepSettings, Weights
from workbench.hardware.machine import this_machine
from workbench.models.model import DTYPE_BYTES
from workbench.models.presets import load_presets
from workbench.models.resolve import find_models
from workbench.ui.panes.planned import plan_lines, run_line
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry

AUTO = "auto"


class SetupPane(Vertical):
    """The fields on the left, what follows from them on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back_to_models", show=False)]

    class SettingsChanged(Message):
        """The fields say something else; `plan` is None where they are wrong."""

        def __init__(self, planned: Plan | None) -> None:
            super().__init__()
            self.planned = planned

    def __init__(self, settings: SweepSettings, *, id: str) -> None:
        super().__init__(id=id)
        self._initial = settings
        self._names: list[str] = []
        self._painted = False
        self._preset_problems: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """The fields, filled so that a first run needs no change."""
        first = self._initial
        yield Static(f"{first.track} · {this_machine()}", id="setup-machine", markup=False)
        with Horizontal():
            with Vertical(id="setup-fields"):
                yield OptionList(id="models", compact=True, markup=False)
                yield from _field("model or path", Entry(first.model, id="model"))
                yield from _field("weights", Choice((AUTO, *Weights), first.weights or AUTO, id="weights"))
                yield from _field("dtype", Choice(tuple(DTYPE_BYTES), first.dtype, id="dtype"))
                yield from _field("device", Choice(DEVICES, first.device, id="device"))
                threads = "" if first.threads is None else str(first.threads)
                yield from _field("threads", Entry(threads, f"all {this_machine().cores}", id="threads"))
                yield from _field("prompts", Entry(",".join(map(str, first.prompts)), id="prompts"))
                yield from _field("new tokens", Entry(str(first.new_tokens), id="new-tokens"))
                yield from _field("repeats", Entry(str(first.repeats), id="repeats"))
            with VerticalScroll(id="setup-plan", can_focus=False):
                yield Static("", id="setup-problem", markup=False)
                yield Static("", id="plan", markup=False)
                yield Static("", id="setup-run", markup=False)

    def on_mount(self) -> None:
        """Show the presets and look at the plan once the first picture is on the screen."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        self._painted = True
        presets = load_presets()
        self._preset_problems = presets.problems
        self._add_models([(name, "shape") for name in sorted(presets.models)])
        models = self.query_one("#models", OptionList)
        if self._initial.model in self._names:
            models.highlighted = self._names.index(self._initial.model)
        self.run_worker(self._find_on_disk, thread=True)
        self.check()

    def _find_on_disk(self) -> None:
        found = find_models()
        if found:
            self.app.call_from_thread(self._add_models, [(str(path), "on disk") for path in found])

    def _add_models(self, entries: list[tuple[str, str]]) -> None:
        models = self.query_one("#models", OptionList)
        for name, about in entries:
            if name not in self._names:
                self._names.append(name)
                shown = name if len(name) <= 24 else f"…{name[-23:]}"
                models.add_option(Option(f"{shown:<25}{about}"))

    def settings(self) -> SweepSettings:
        """What the fields say; raises SettingsError where one holds no number."""
        weights = self.query_one("#weights", Choice).value
        return SweepSettings(
            model=self._text("model"),
            weights=None if weights == AUTO else Weights(weights),
            prompts=tuple(whole_number(part, "prompts") for part in self._text("prompts").split(",") if part.strip()),
            new_tokens=whole_number(self._text("new-tokens"), "new tokens"),
            repeats=whole_number(self._text("repeats"), "repeats"),
            dtype=self.query_one("#dtype", Choice).value,
            device=self.query_one("#device", Choice).value,
            threads=whole_number(threads, "threads") if (threads := self._text("threads")) else None,
            track=self._initial.track,
        )

    def settings_or(self, other: SweepSettings) -> SweepSettings:
        """What the fields say, or `other` while they say nothing usable."""
        try:
            return self.settings()
        except SettingsError:
            return other

    def check(self) -> None:
        """Show what the fields lead to, or what is wrong with them."""
        planned: Plan | None = None
        problem = ""
        try:
            planned = plan(self.settings())
        except WorkbenchError as error:
            problem = str(error)
        self.query_one("#plan", Static).update("\n".join(plan_lines(planned)) if planned else "")
        run, refused = run_line(planned)
        self.query_one("#setup-problem", Static).update(
            "\n\n".join(filter(None, (problem or refused, *self._preset_problems)))
        )
        self.query_one("#setup-run", Static).update(run)
        self.post_message(self.SettingsChanged(planned))

    @on(OptionList.OptionHighlighted, "#models")
    def _take_model(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#model", Entry).value = self._names[event.option_index]

    @on(Input.Changed)
    @on(Choice.Changed)
    def _changed(self) -> None:
        # Fields report their first values too, before there is anything on the screen.
        if self._painted:
            self.check()

    def action_back_to_models(self) -> None:
        """Leave the field."""
        self.query_one("#models").focus()

    def _text(self, field: str) -> str:
        return self.query_one(f"#{field}", Entry).value.strip()


def whole_number(text: str, field: str) -> int:
    """The number a field holds; raises SettingsError where it holds none."""
    try:
        return int(text.strip().replace("_", ""))
    except ValueError:
        raise SettingsError(f"{field} holds {text.strip()!r}, which is not a whole number.") from None


def _field(label: str, widget: Entry | Choice) -> ComposeResult:
    with Horizontal(classes="field"):
        yield Static(label, classes="label", markup=False)
        yield widget
