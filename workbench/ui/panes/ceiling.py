"""Ceiling: what arithmetic says a device could do with the chosen models, at once on every change."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Input, Static

from workbench.ceilings.experts import Shortcut
from workbench.ceilings.levers import Lever
from workbench.ceilings.overview import Overview, overview
from workbench.ceilings.roofline import Roofline, sentences
from workbench.errors import SettingsError, WorkbenchError
from workbench.experiments.settings import SweepSettings
from workbench.hardware.device import Device
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE
from workbench.models.model import DTYPE_BYTES, Model, ModelKind
from workbench.models.resolve import resolve
from workbench.quantity import Quantity, explain
from workbench.record import written
from workbench.runs.measured_device import device_named
from workbench.tracks import Track
from workbench.ui.answers import hand_over
from workbench.ui.panes.ceiling_pictures import growth_picture, roof_picture
from workbench.ui.widgets.chart import ASCII, Chart, Markers, Picture
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.explained import Explained
from workbench.ui.widgets.field import field, whole_numbers
from workbench.ui.widgets.memory_bars import BLOCKS, PLAIN, bar_lines
from workbench.ui.widgets.record_table import RecordTable

AUTO, AS_STORED = "auto", "as stored"
CONTEXTS, BATCHES = "0,4096,16384,32768", "1,4,16,64"
OVER_CONTEXT = (
    "context", "bytes_per_step", "kv_share", "tokens_per_second_each", "bound", "memory_needed_bytes", "fits",
)  # fmt: skip
OVER_CONTEXT_SEVERAL = ("model", "context", "bytes_per_step", "tokens_per_second_each", "bound", "fits")
OVER_BATCH = (
    "batch", "bytes_per_step", "tokens_per_second_each", "tokens_per_second_total", "bound", "memory_needed_bytes",
    "fits",
)  # fmt: skip
OVER_BATCH_SEVERAL = ("model", "batch", "tokens_per_second_each", "tokens_per_second_total", "bound", "fits")
WHOLE_TYPES = frozenset({*DTYPE_BYTES, "bf16", "f16", "f32"})
"""What weights that are not quantised are stored in, by torch and safetensors."""
LEVERS = ("factor", "tokens_per_second", "lever")
EXPERTS = ("model", "batch", "touched", "of", "bytes", "share")
log = logging.getLogger(__name__)

MOST_CASES = 12
"""Contexts or batches in one table: what still can be read."""
READING_AFTER_S = 0.3
MOST = 10**12
"""Past it a count of tokens or sequences is a slip of the finger."""


@dataclass(frozen=True)
class CeilingFields:
    """What the fields of the pane say."""

    hardware: str
    models: tuple[str, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    cache_type: str
    weights: str
    dtype: str


@dataclass(frozen=True)
class Shown:
    """The overview of some fields, or the sentence that says why there is none."""

    fields: CeilingFields
    device: Device | None = None
    found: Overview | None = None
    held: str = ""
    problem: str = ""


def look_up(fields: CeilingFields) -> Shown:
    """The overview that the fields ask for; touches no widget, so that a slow file holds nothing up."""
    try:
        device = device_named(fields.hardware)
        models = [_held(resolve(name), fields) for name in fields.models]
        cache_type = fields.cache_type
        if cache_type == AUTO:
            cache_type = models[0].held_in or DEFAULT_CACHE_TYPE
        element_bytes = CACHE_TYPE_BYTES[cache_type]
        found = overview(models, device, fields.contexts, fields.batches, element_bytes)
        return Shown(fields, device, found, f"weights {_weights(models)}, cache {cache_type}")
    except WorkbenchError as error:
        return Shown(fields, problem=str(error))
    except Exception as error:
        log.exception("looking up %s", fields)
        return Shown(fields, problem=f"An unexpected error: {type(error).__name__}: {error}. It is in the log.")


def _held(model: Model, fields: CeilingFields) -> Model:
    """The model as the fields have it held; auto leaves quantised weights as they are, others as Setup runs them."""
    if fields.weights == AUTO:
        whole = model.kind is not ModelKind.GGUF and model.quantisation.lower() in WHOLE_TYPES
        return model.in_dtype(fields.dtype) if whole else model
    return model if fields.weights == AS_STORED else model.in_dtype(fields.weights)


def _weights(models: Sequence[Model]) -> str:
    return " and ".join(dict.fromkeys(model.held_in or model.quantisation for model in models))


class CeilingPane(Vertical):
    """Fields above; tables, bars and levers on the left, charts on the right or below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "to_tables", show=False)]

    def __init__(self, may_draw: Callable[[], bool], *, id: str) -> None:
        super().__init__(id=id)
        self._may_draw = may_draw
        self._tracks: dict[str, Track] = {}
        self._followed: tuple[str, str, str] | None = None
        self._dtype = SweepSettings.dtype
        self._asked: CeilingFields | None = None
        self._shown: Shown | None = None
        self._blocks = BLOCKS

    def compose(self) -> ComposeResult:
        """Everything the pane ever shows; it is filled once it is looked at."""
        with Vertical(id="ceiling-fields"):
            with Horizontal(classes="fields"):
                yield from field("track", Choice((THIS_MACHINE,), THIS_MACHINE, id="ceiling-track"))
                yield from field("hardware", Entry(THIS_MACHINE, id="ceiling-hardware"))
            with Horizontal(classes="fields"):
                yield from field("models", Entry("", id="ceiling-models"))
                yield from field("weights", Choice((AUTO, AS_STORED, *DTYPE_BYTES), AUTO, id="ceiling-weights"))
            with Horizontal(classes="fields"):
                yield from field("context", Entry(CONTEXTS, id="ceiling-context"))
                yield from field("cache", Choice((AUTO, *CACHE_TYPE_BYTES), AUTO, id="ceiling-cache"))
            with Horizontal(classes="fields"):
                yield from field("batch", Entry(BATCHES, id="ceiling-batch"))
        yield Static("", id="ceiling-problem", markup=False)
        with VerticalScroll(id="ceiling-body", can_focus=False):
            with VerticalScroll(id="ceiling-left", can_focus=False):
                yield Explained(id="ceiling-box")
                yield Static("", id="context-heading", classes="heading", markup=False)
                yield RecordTable(id="context-table")
                yield Static("", id="batch-heading", classes="heading", markup=False)
                yield RecordTable(id="batch-table")
                yield Static("", id="memory-heading", classes="heading", markup=False)
                yield Static("", id="memory-bars", markup=False)
                yield Static("routed experts a step reads", id="experts-heading", classes="heading", markup=False)
                yield RecordTable(id="experts-table")
                yield Explained(id="shortcut")
                yield Static("", id="levers-heading", classes="heading", markup=False)
                yield RecordTable(id="levers-table")
                yield Static("", id="lever-why", markup=False)
            with Vertical(id="ceiling-charts"):
                yield Chart("", self._may_draw, id="growth-chart")
                yield Chart("", self._may_draw, id="roofline-chart")
                yield Explained(id="roofline-words")

    def follow(self, settings: SweepSettings, tracks: Mapping[str, Track]) -> None:
        """Take over the track, model and dtype of the Setup pane where they have changed."""
        chosen = (settings.track, settings.model, settings.dtype)
        if chosen == self._followed:
            return
        self._followed = chosen
        self._tracks = {track.name: track for track in tracks.values()}
        track = self.query_one("#ceiling-track", Choice)
        track.offer((*self._tracks,), settings.track)
        if settings.track in self._tracks:
            self._entry("hardware").value = self._tracks[settings.track].hardware
        self._entry("models").value = settings.model
        self._dtype = settings.dtype
        self.check()

    def check(self) -> None:
        """Look up what the fields ask for, where it is something else than before."""
        if not self.display:
            return
        try:
            fields = self.fields()
        except SettingsError as error:
            self._asked = None
            self._say(str(error))
            self._mark_stale(True)
            return
        if fields != self._asked:
            self._asked = fields
            self.set_timer(READING_AFTER_S, partial(self._say_reading, fields))
            self.run_worker(partial(self._look_up, fields), thread=True, exclusive=True, group="ceiling")

    def _say_reading(self, fields: CeilingFields) -> None:
        """Say what is waited for, where the answer is not there yet."""
        if fields == self._asked and (self._shown is None or self._shown.fields != fields):
            self._say(f"reading {', '.join(fields.models)} …")

    def look_again(self) -> None:
        """Look up the same fields anew: this machine's rates may have been measured since."""
        self._asked = None
        self.check()

    def fields(self) -> CeilingFields:
        """What the fields say; raises SettingsError where one of them says nothing usable."""
        models = tuple(dict.fromkeys(part.strip() for part in self._entry("models").value.split(",") if part.strip()))
        if not models:
            raise SettingsError("models is empty: name at least one, with commas between several.")
        return CeilingFields(
            hardware=self._entry("hardware").value.strip() or THIS_MACHINE,
            models=models,
            contexts=_cases(self._entry("context").value, "context", 0),
            batches=_cases(self._entry("batch").value, "batch", 1),
            cache_type=self.query_one("#ceiling-cache", Choice).value,
            weights=self.query_one("#ceiling-weights", Choice).value,
            dtype=self._dtype,
        )

    def use_markers(self, markers: Markers) -> None:
        """Draw charts and bars with these characters."""
        self._blocks = PLAIN if markers is ASCII else BLOCKS
        for chart in self.query(Chart):
            chart.use(markers)
        self._show_bars()

    def catch_up(self) -> None:
        """Draw what waited for the timed window to close."""
        for chart in self.query(Chart):
            chart.catch_up()

    def on_resize(self) -> None:
        """Bars are as long as there is room."""
        self._show_bars()

    @on(Entry.Kept)
    def action_to_tables(self) -> None:
        """Leave the field, for the first table."""
        self.query_one("#context-table").focus()
        for place in ("#ceiling-body", "#ceiling-left"):
            self.query_one(place, VerticalScroll).scroll_home(animate=False)

    def _look_up(self, fields: CeilingFields) -> None:
        hand_over(self, self._show, look_up(fields))

    def _show(self, shown: Shown) -> None:
        # The answer may come late, to other fields.
        if shown.fields != self._asked:
            return
        self._say(shown.problem)
        found, device = shown.found, shown.device
        self._mark_stale(found is None)
        if found is None or device is None:
            return
        self._shown = shown
        several = len(shown.fields.models) > 1
        figures = [figure for figure in (found.box.B, found.box.C, found.box.M) if figure is not None]
        self.query_one("#ceiling-box", Explained).show(
            f"{device.name} · " + " · ".join(f"{q.symbol} {q} {q.origin}" for q in figures),
            device.title,
            _box_lines(device, figures),
        )
        name = "" if several else f"{found.chosen.name} "
        self._put("context-heading", f"{name}over context, batch {found.first_batch:,} · {shown.held}")
        self._table("context").show(found.over_context, OVER_CONTEXT_SEVERAL if several else OVER_CONTEXT)
        self._put("batch-heading", f"over batch, {found.batch_context:,} tokens in each sequence")
        self._table("batch").show(found.over_batch, OVER_BATCH_SEVERAL if several else OVER_BATCH)
        self._show_bars()
        self._table("experts").show(found.experts, EXPERTS)
        for place in ("#experts-heading", "#experts-table"):
            self.query_one(place).display = bool(found.experts)
        self._show_shortcut(found.shortcut)
        now = written(found.over_batch[0].tokens_per_second_each)
        at = f"{found.batch_context:,} tokens, batch {found.first_batch}"
        self._put("levers-heading", f"levers on {found.chosen.name} at {at}, now {now} tok/s")
        self._table("levers").show(found.levers, LEVERS)
        self._show_why()
        title, picture = growth_picture(found.growth)
        self.query_one("#growth-chart", Chart).show(picture, f"{title}, {found.chosen.name}" if several else title)
        self._show_roof(found.roof)

    def _show_shortcut(self, short: Shortcut) -> None:
        """Say what the file's size suggests a token reads, where that is not what it reads."""
        place = self.query_one("#shortcut", Explained)
        place.display = str(short.shortcut) != str(short.counted)
        place.show(
            f"file · active / total says {short.shortcut} a token, tensor by tensor it is {short.counted}",
            "The file-size shortcut",
            _shortcut_lines(short),
        )

    def _show_roof(self, roof: Roofline | None) -> None:
        words = self.query_one("#roofline-words", Explained)
        chart = self.query_one("#roofline-chart", Chart)
        if roof is None:
            chart.show(Picture(), "roofline")
            words.show("No arithmetic rate is known of this device: there is no roofline.")
            return
        title, picture = roof_picture(roof)
        chart.show(picture, title)
        said = list(sentences(roof))
        words.show(
            f"ridge {roof.ridge_flop_per_byte}, met by {roof.tokens_at_ridge or 'no number of tokens'} a pass",
            "Roofline",
            [
                *said,
                "",
                *explain(roof.ridge_flop_per_byte),
                *(explain(roof.tokens_at_ridge) if roof.tokens_at_ridge else ()),
            ],
        )

    def _show_bars(self) -> None:
        found = self._shown.found if self._shown else None
        if found is None:
            return
        b = self._blocks
        if found.fits:
            first = found.fits[0]
            self._put(
                "memory-heading",
                f"memory at {first.context:,} tokens, batch {first.batch}: {b.weights} weights {b.cache} cache "
                f"{b.free} free",
            )
        else:
            self._put("memory-heading", "memory: not known of this device")
        width = self.query_one("#memory-bars").content_size.width
        self._put("memory-bars", "\n".join(bar_lines(found.fits, width, b)) if width else "")

    @on(DataTable.CellHighlighted, "#levers-table")
    def _show_why(self) -> None:
        lever = self._table("levers").selected
        self._put("lever-why", lever.why if isinstance(lever, Lever) else "")

    @on(Choice.Changed, "#ceiling-track")
    def _take_track(self) -> None:
        track = self._tracks.get(self.query_one("#ceiling-track", Choice).value)
        if track is not None:
            self._entry("hardware").value = track.hardware

    @on(Input.Changed)
    @on(Choice.Changed)
    def _changed(self, event: Input.Changed | Choice.Changed) -> None:
        event.stop()
        self.check()

    def _entry(self, name: str) -> Entry:
        return self.query_one(f"#ceiling-{name}", Entry)

    def _table(self, name: str) -> RecordTable:
        return self.query_one(f"#{name}-table", RecordTable)

    def _mark_stale(self, stale: bool) -> None:
        """Dim what belongs to earlier fields."""
        self.query_one("#ceiling-body").set_class(stale, "-stale")

    def _say(self, problem: str) -> None:
        self.query_one("#ceiling-problem", Static).display = bool(problem)
        self._put("ceiling-problem", problem)

    def _put(self, place: str, text: str) -> None:
        line = self.query_one(f"#{place}", Static)
        if str(line.content) != text:
            line.update(text)


def _cases(text: str, name: str, least: int) -> tuple[int, ...]:
    found = tuple(sorted(set(whole_numbers(text, name))))
    if not found:
        raise SettingsError(f"{name} is empty: give at least one number, with commas between several.")
    if len(found) > MOST_CASES:
        raise SettingsError(f"{name} holds {len(found)} numbers; a table here takes at most {MOST_CASES}.")
    if found[0] < least or found[-1] > MOST:
        raise SettingsError(f"{name} must be from {least} to {MOST:,}.")
    return found


def _box_lines(device: Device, figures: Sequence[Quantity]) -> list[str]:
    lines = [line for figure in figures for line in explain(figure)]
    if device.measured_read is not None:
        lines += ["", "what somebody measured:", *explain(device.measured_read)]
    return [*lines, *(f"\n{note}" for note in device.notes)]


def _shortcut_lines(short: Shortcut) -> list[str]:
    apart = [f"{d.bytes / 1e9:+8.3f} GB  {d.group}: {d.why}" for d in short.deviations]
    return [*explain(short.shortcut), "", *explain(short.counted), "", "why they differ:", *apart]
