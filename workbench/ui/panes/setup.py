"""Setup: what is measured, what one token of it reads, and whether it fits."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, OptionList, Static

from workbench.ceilings.box import Box
from workbench.errors import SettingsError, WorkbenchError
from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.foretelling import timing_seconds
from workbench.experiments.gap.named_variants import names_of
from workbench.experiments.plan import Plan, plan
from workbench.experiments.settings import AUTO_REPEATS, SweepSettings
from workbench.hardware.devices import load_devices
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.presets import load_presets
from workbench.models.resolve import find_models
from workbench.presets import in_short
from workbench.quantity import Origin
from workbench.runs.store import Store
from workbench.tracks import Suited, Track, load_tracks, suited, suited_here, track_settings
from workbench.ui.answers import hand_over
from workbench.ui.panes.engine_fields import EngineFields
from workbench.ui.panes.planned import plan_lines, run_line
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.field import field, whole_number, whole_numbers
from workbench.ui.widgets.model_list import AS_STORED, ON_DISK, ModelList, heading

log = logging.getLogger(__name__)


def _apart_from_model(settings: SweepSettings) -> SweepSettings:
    """What decides, whichever model is chosen, what each in the list needs."""
    return replace(settings, model="")


class SetupPane(Vertical):
    """The fields on the left, what follows from them on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back_to_models", show=False)]

    class SettingsChanged(Message):
        """The fields say something else; `plan` is None where they are wrong."""

        def __init__(self, planned: Plan | None) -> None:
            super().__init__()
            self.planned = planned

    def __init__(self, settings: SweepSettings, track: Track | None, *, id: str) -> None:
        super().__init__(id=id)
        self._initial = settings
        self.tracks: dict[str, Track] = {} if track is None else {track.name: track}
        self._painted = False
        self._asked: SweepSettings | None = None
        self._planned: Plan | None = None
        self._problem = ""
        self._presets: tuple[str, ...] = ()
        self._preset_problems: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """The fields, filled so that a first run needs no change."""
        first = self._initial
        yield Static("", id="setup-machine", markup=False)
        with Horizontal():
            with Vertical(id="setup-fields"):
                yield Static(heading(AS_STORED), id="models-heading", markup=False)
                yield ModelList(id="models")
                with VerticalScroll(id="setup-entries", can_focus=False):
                    yield from field("track", Choice(tuple(self.tracks), first.track, id="track"))
                    yield from field("model or path", Entry(first.model, "not told: no ceiling", id="model"))
                    yield EngineFields(first, id="engine-fields")
                    yield from field("prompts", Entry(",".join(map(str, first.prompts)), id="prompts"))
                    yield from field("new tokens", Entry(str(first.new_tokens), id="new-tokens"))
                    yield from field("repeats", Entry(str(first.repeats), id="repeats"))
            with VerticalScroll(id="setup-plan", can_focus=False):
                yield Static("", id="setup-problem", markup=False)
                yield Static("", id="setup-run", markup=False)
                yield Static("", id="plan", markup=False)

    def on_mount(self) -> None:
        """Show the presets and look at the plan once the first picture is on the screen."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        self._painted = True
        devices, presets = load_devices(), load_presets()
        tracks = load_tracks(devices=devices, models=presets)
        self._preset_problems = (*tracks.problems, *devices.problems, *presets.problems)
        known = [*sorted(tracks.tracks.values(), key=lambda track: (track.name != THIS_MACHINE, track.name))]
        self.tracks = {**{track.name: track for track in known}, **self.tracks}
        self.query_one("#track", Choice).offer(tuple(self.tracks), self._initial.track)
        models = self.query_one(ModelList)
        models.offer((name, "") for name in sorted(presets.models))
        self._presets = tuple(presets.models)
        models.choose(self._initial.model)
        self.run_worker(self._find_on_disk, thread=True)
        self.check()

    def _suit(self, settings: SweepSettings) -> None:
        track = self.tracks.get(settings.track)
        if track is not None:
            self.run_worker(partial(self._find_suited, track, settings), thread=True, exclusive=True, group="suited")

    def _find_suited(self, track: Track, settings: SweepSettings) -> None:
        """What models need as a run here holds them, but as stored on other hardware and in an engine of files."""
        as_run = track.hardware == THIS_MACHINE and settings.engine == TRANSFORMERS
        found: list[Suited] = []
        if as_run:
            # What is wrong with the sweep itself is said on the right.
            with suppress(SettingsError):
                found += suited_here(settings, self._presets)
        else:
            for name in self._presets:
                # A preset that can't be computed says why once it is chosen.
                with suppress(WorkbenchError):
                    found += suited(track, (name,))
        hand_over(self, self._show_suited, settings, f"in {settings.dtype}" if as_run else AS_STORED, found)

    def _show_suited(self, settings: SweepSettings, form: str, found: Sequence[Suited]) -> None:
        if self._asked is not None and _apart_from_model(settings) == _apart_from_model(self._asked):
            self.query_one("#models-heading", Static).update(heading(form))
            self.query_one(ModelList).suit(found)

    def _find_on_disk(self) -> None:
        hand_over(self, self._show_on_disk, find_models())

    def _show_on_disk(self, found: Sequence[Path]) -> None:
        self.query_one(ModelList).offer((str(path), ON_DISK) for path in found)

    def settings(self) -> SweepSettings:
        """What the fields say; raises SettingsError where one holds no number, or a lever that is none."""
        repeats = self._text("repeats")
        return SweepSettings(
            model=self._text("model"),
            prompts=whole_numbers(self._text("prompts"), "prompts"),
            new_tokens=whole_number(self._text("new-tokens"), "new tokens"),
            repeats=AUTO_REPEATS if repeats == AUTO_REPEATS else whole_number(repeats, "repeats"),
            track=self.query_one("#track", Choice).value,
            **self.query_one(EngineFields).settings(),
        )

    def settings_or(self, other: SweepSettings) -> SweepSettings:
        """What the fields say, or `other` while they say nothing usable."""
        try:
            return self.settings()
        except SettingsError:
            return other

    def look_again(self) -> None:
        """Look up the same fields anew: rates may have been measured, and memory taken or freed, since."""
        self._asked = None
        self.check()

    def check(self) -> None:
        """Look up what the fields lead to, or say at once what is wrong with them."""
        if not self._painted:
            # Fields report their first values too, before there is anything on the screen.
            return
        try:
            settings = self.settings()
        except SettingsError as error:
            self._asked = None
            self._show(None, str(error))
            return
        if settings != self._asked:
            self._problem = ""
        if self._asked is None or _apart_from_model(settings) != _apart_from_model(self._asked):
            self._suit(settings)
        self._asked = settings
        self.run_worker(partial(self._look_up, settings), thread=True, exclusive=True, group="plan")

    def show_probe(self, summary: str) -> None:
        """Show where a probe stands."""
        self.query_one("#setup-machine", Static).update(summary)

    def show_box(self, box: Box) -> None:
        """Show what is known of this machine's rates, and which key measures them."""
        rates = [f"{rate.symbol} {rate} {rate.origin}" for rate in (box.B, box.C) if rate is not None]
        key = "p probes again" if box.B.origin is Origin.MEASURED else "p probes: a minute"
        self.query_one("#setup-machine", Static).update(" · ".join(["this box", *rates, key]))

    def planned_for(self, settings: SweepSettings) -> Plan | None:
        """The plan of these settings, where it has been made already."""
        return self._planned if self._planned is not None and self._planned.settings == settings else None

    def _look_up(self, settings: SweepSettings) -> None:
        # In a thread: settings without weights may need a class of transformers, whose import takes seconds.
        planned: Plan | None = None
        problem, timing_s = "", 0.0
        try:
            planned = plan(settings)
            timing_s = 0.0 if planned.is_refused else timing_seconds(planned, Store)
        except WorkbenchError as error:
            problem = str(error)
        except Exception as error:
            log.exception("planning %s", settings)
            problem = f"An unexpected error: {type(error).__name__}: {error}. It is in the log."
        hand_over(self, self._show_latest, settings, planned, problem, timing_s)

    def _show_latest(self, settings: SweepSettings, planned: Plan | None, problem: str, timing_s: float) -> None:
        if settings == self._asked:
            self._show(planned, problem, timing_s)

    def problem_of(self, settings: SweepSettings) -> str:
        """What is wrong with these settings, where that is known already."""
        return self._problem if settings == self._asked else ""

    def _show(self, planned: Plan | None, problem: str, timing_s: float = 0.0) -> None:
        self._planned, self._problem = planned, problem
        self.query_one("#plan", Static).update("\n".join(plan_lines(planned)) if planned else "")
        run, refused = run_line(planned, timing_s)
        said = "\n\n".join(filter(None, (problem or refused, *in_short(self._preset_problems))))
        for place, text in (("#setup-problem", said), ("#setup-run", run)):
            line = self.query_one(place, Static)
            line.update(text)
            line.display = bool(text)
        self.post_message(self.SettingsChanged(planned))

    @on(Choice.Changed, "#track")
    def _take_track(self) -> None:
        """Fill the fields as the track has them; the model stays where it suits the track too."""
        track = self.tracks.get(self.query_one("#track", Choice).value)
        if track is None:
            return
        settings = track_settings(track)
        self.query_one("#dtype", Choice).value = settings.dtype
        self.query_one("#device", Choice).value = settings.device
        for name, text in (
            ("threads", "" if settings.threads is None else str(settings.threads)),
            ("levers", ",".join(names_of(settings.variant))),
            ("prompts", ",".join(map(str, settings.prompts))),
            ("new-tokens", str(settings.new_tokens)),
            ("repeats", str(settings.repeats)),
        ):
            self.query_one(f"#{name}", Entry).value = text
        if self._text("model") not in track.models:
            self.query_one("#model", Entry).value = settings.model

    @on(OptionList.OptionHighlighted, "#models")
    def _take_model(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#model", Entry).value = self.query_one(ModelList).names[event.option_index]

    @on(Input.Changed)
    @on(Choice.Changed)
    def _changed(self) -> None:
        self.check()

    @on(Entry.Kept)
    def action_back_to_models(self) -> None:
        """Leave the field."""
        self.query_one("#models").focus()

    def _text(self, field: str) -> str:
        return self.query_one(f"#{field}", Entry).value.strip()
