"""The probe as an experiment on a grid that measures nothing: its events, its ends, and what it keeps."""

from collections.abc import Callable

import pytest

from tests.fake_grid import CACHE_BYTES, MB, FakeGrid
from workbench.errors import ModelError, SettingsError
from workbench.experiments.events import Calibrated, CellMeasured, Event, Progress
from workbench.experiments.probe import OpenGrid, ProbeSettings, probe, thread_counts
from workbench.experiments.window import TimedWindow
from workbench.hardware.calibration import Calibration, Work, findings
from workbench.runner import CancelToken, drive
from workbench.runs.store import Store


class Opened:
    """Opens one fake grid and remembers it."""

    def __init__(self, on_cell: Callable[[int], None] = lambda count: None, **changed: int) -> None:
        self.on_cell, self.changed = on_cell, changed
        self.grid: FakeGrid | None = None

    def __call__(self, settings: ProbeSettings, cancel: CancelToken) -> FakeGrid:
        self.grid = FakeGrid(cancel.check, self.on_cell)
        for name, value in self.changed.items():
            setattr(self.grid, name, value)
        return self.grid


def events_of(opened: OpenGrid, cancel: CancelToken | None = None, **settings: object) -> list[Event]:
    chosen = ProbeSettings(**settings)  # type: ignore[arg-type]
    return list(probe(chosen, TimedWindow(), opened)(cancel or CancelToken()))


def calibration_in(events: list[Event]) -> Calibration:
    (found,) = [event.calibration for event in events if isinstance(event, Calibrated)]
    return found


def test_a_whole_probe_measures_every_kind_in_order_and_the_first_again() -> None:
    opened = Opened()
    events = events_of(opened)
    assert opened.grid is not None
    assert opened.grid.asked == [
        *("reads", "sizes", "copy"),
        *("matrix-vector float32", "products float32", "again"),
        *("matrix-vector bfloat16", "products bfloat16", "again"),
        *("matrix-vector float16", "products float16", "again"),
    ]
    assert opened.grid.closed
    assert isinstance(events[0], Progress)
    assert isinstance(events[-1], Calibrated)
    found = calibration_in(events)
    assert found.cells == tuple(event.cell for event in events if isinstance(event, CellMeasured))
    assert (found.complete, found.quick, found.model, found.device) == (True, False, "qwen3-0.6b", "cpu")
    assert found.drift == pytest.approx(0.0)
    assert found.load_after is not None
    assert found.last_level_cache_bytes == CACHE_BYTES


def test_each_cell_comes_after_the_stage_it_belongs_to() -> None:
    stages: dict[str, list[Work]] = {}
    stage = ""
    for event in events_of(Opened()):
        match event:
            case Progress():
                stage = event.stage
            case CellMeasured(cell):
                stages.setdefault(stage, []).append(cell.work)
            case _:
                pass
    assert set(stages.pop("reading memory")) == {Work.READ}
    assert set(stages.pop("reading arrays of growing size")) == {Work.SIZE}
    assert stages.pop("copying") == [Work.COPY]
    assert {stage.split(",")[0] for stage in stages} == {"matrix-vector products", "matrix products"}


def test_a_quick_probe_leaves_out_sizes_copies_and_half_widths() -> None:
    opened = Opened()
    found = calibration_in(events_of(opened, quick=True))
    assert opened.grid is not None
    assert opened.grid.asked == ["reads", "matrix-vector float32", "products float32", "again"]
    assert found.quick
    assert found.complete


def test_every_cell_is_measured_while_the_window_is_open() -> None:
    window = TimedWindow()
    was_open: list[bool] = []
    opened = Opened(lambda count: was_open.append(window.is_open))
    for event in probe(ProbeSettings(), window, opened)(CancelToken()):
        assert not window.is_open, event
    assert was_open
    assert all(was_open)


@pytest.mark.parametrize("stop_at", [1, 3, 5, 8, 12])
def test_stopped_between_or_within_cells_it_keeps_those_before(stop_at: int) -> None:
    cancel = CancelToken()
    opened = Opened(lambda count: cancel.cancel() if count == stop_at else None)
    found = calibration_in(events_of(opened, cancel))
    assert len(found.cells) == stop_at
    assert not found.complete
    assert (found.drift, found.load_after) == (None, None)
    assert next(iter(findings(found))).startswith("The probe was stopped")
    assert opened.grid is not None
    assert opened.grid.closed


def test_stopped_by_who_listens_it_keeps_the_cell_just_heard_of() -> None:
    cancel = CancelToken()
    heard: list[Event] = []
    for event in probe(ProbeSettings(), TimedWindow(), Opened())(cancel):
        heard.append(event)
        if isinstance(event, CellMeasured):
            cancel.cancel()
    assert len(calibration_in(heard).cells) == 1


def test_stopped_before_the_first_cell_it_keeps_nothing() -> None:
    cancel = CancelToken()
    opened = Opened()
    cancel.cancel()
    assert not any(isinstance(event, Calibrated) for event in events_of(opened, cancel))
    assert opened.grid is not None
    assert opened.grid.closed


def test_an_error_of_the_grid_is_raised_and_its_memory_given_back() -> None:
    def fail(count: int) -> None:
        if count == 3:
            raise RuntimeError("the device was lost")

    opened = Opened(fail)
    with pytest.raises(RuntimeError, match="the device was lost"):
        events_of(opened)
    assert opened.grid is not None
    assert opened.grid.closed


def test_an_unknown_model_is_refused_before_anything_is_opened() -> None:
    opened = Opened()
    with pytest.raises(ModelError, match=r"Did you mean qwen3-0\.6b"):
        events_of(opened, model="qwen3-0.6c")
    assert opened.grid is None


def test_a_device_that_is_not_there_is_refused() -> None:
    def refuse(settings: ProbeSettings, cancel: CancelToken) -> FakeGrid:
        raise SettingsError("Torch finds no cuda device here")

    with pytest.raises(SettingsError, match="no cuda device"):
        events_of(refuse)


def test_a_box_that_moved_meanwhile_is_not_quiet() -> None:
    found = calibration_in(events_of(Opened(again=12)))
    assert found.drift == pytest.approx(-0.4)
    assert not found.quiet


def test_the_drift_is_the_farthest_even_where_the_box_came_back() -> None:
    opened = Opened()
    found: list[Calibration] = []
    for event in probe(ProbeSettings(), TimedWindow(), opened)(CancelToken()):
        assert opened.grid is not None or isinstance(event, Progress)
        if opened.grid is not None:
            opened.grid.again = {1: 21.0, 2: 15.0}.get(opened.grid.asked.count("again") + 1, 19.8)
        if isinstance(event, Calibrated):
            found.append(event.calibration)
    assert found[0].drift == pytest.approx(-0.25)


def test_arrays_shrunk_into_the_cache_leave_no_read_rate_but_the_products() -> None:
    found = calibration_in(events_of(Opened(array_bytes=150 * MB)))
    assert found.read is None
    assert found.gemm("float32") is not None
    assert any("B is not known" in sentence for sentence in findings(found))


def test_what_is_found_is_in_the_store_before_anyone_hears_of_it() -> None:
    with Store() as store:

        def listen(event: Event) -> None:
            if isinstance(event, Calibrated):
                assert store.calibrations(event.calibration.machine) == [event.calibration]
                heard.append(event)

        heard: list[Event] = []
        drive(probe(ProbeSettings(), TimedWindow(), Opened()), CancelToken(), store, listen)
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, (1,)), (2, (1, 2)), (3, (1, 3)), (4, (1, 2, 4)), (7, (1, 3, 7)), (64, (1, 32, 64))]
)
def test_one_thread_half_and_all_are_tried_each_once(cores: int, expected: tuple[int, ...]) -> None:
    assert thread_counts(cores) == expected
