"""The strip under every pane: the box before a run, and during one how close to its ceiling it is."""

from textual.widgets import Static

from workbench.hardware.machine import Machine
from workbench.hardware.monitor import Sample
from workbench.quantity import Unit, format_number, format_value
from workbench.ui.live_run import LiveRun

FEW_CORES = 8
SEPARATOR = "   "
IDLE_STEP_PERCENT, RUNNING_STEP_PERCENT = 15.0, 2.0
MEMORY_STEP_BYTES = 100_000_000


class Strip(Static):
    """Shows a sample when it differs from the one on screen by more than a person would care to see."""

    def __init__(self, machine: Machine, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._machine = machine
        self._shown: Sample | None = None
        self._parts: list[str] = []

    def show(self, sample: Sample, live: LiveRun | None) -> None:
        """Put the sample on screen where it says something new."""
        running = live is not None and not live.over
        step = RUNNING_STEP_PERCENT if running else IDLE_STEP_PERCENT
        if self._shown is not None and not _differs(self._shown, sample, step):
            sample = self._shown
        self._shown = sample
        self._parts = box_parts(sample, self._machine) if live is None else run_parts(sample, live)
        self._fill()

    def on_resize(self) -> None:
        """Break the lines anew."""
        self._fill()

    def _fill(self) -> None:
        text = filled(self._parts, self.content_size.width)
        if text != str(self.content):
            self.update(text, layout=False)


def box_parts(sample: Sample, machine: Machine) -> list[str]:
    """What the box is and what is free of it."""
    return [
        f"CPU {cores(sample.core_percent)}",
        f"RAM {gigabytes(sample.available_bytes)} of {gigabytes(machine.memory_bytes)} GB free",
        f"other load {format_value(sample.other_share, Unit.SHARE)}",
        "rates not measured yet",
    ]


def run_parts(sample: Sample, live: LiveRun) -> list[str]:
    """What the run takes of what was predicted and of what the box can do."""
    parts = [f"CPU {cores(sample.core_percent)}"]
    memory = f"RAM {gigabytes(sample.resident_bytes)}"
    predicted = live.predicted
    parts.append(f"{memory} of {gigabytes(predicted.resident_bytes)} GB predicted" if predicted else f"{memory} GB")
    if predicted is not None:
        read, gflop = live.best_read_gb_per_s, live.best_gflop_per_s
        parts.append(f"{_or_dash(read)} of {format_number(predicted.read_rate.value / 1e9)} GB/s read")
        parts.append(f"{_or_dash(gflop)} of {format_number(predicted.product_rate.value / 1e9)} GFLOP/s")
    parts.append(f"other load {format_value(sample.other_share, Unit.SHARE)}")
    if live.rows and live.rows[-1].ui_share is not None:
        parts.append(f"UI {format_value(live.rows[-1].ui_share, Unit.SHARE)}")
    return parts


def filled(parts: list[str], width: int) -> str:
    """The parts on as many lines as they need, none broken in two."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{SEPARATOR}{part}" if lines[-1] else part
        if lines[-1] and len(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def cores(percent: tuple[float, ...]) -> str:
    """Per cent of each core; of many cores their mean and the busiest."""
    if len(percent) <= FEW_CORES:
        return " ".join(f"{p:.0f}" for p in percent) + " %"
    return f"{len(percent)} cores {sum(percent) / len(percent):.0f} %, busiest {max(percent):.0f} %"


def gigabytes(count: float) -> str:
    """Bytes in GB to one decimal, without the unit."""
    return f"{count / 1e9:.1f}"


def _or_dash(value: float | None) -> str:
    return "–" if value is None else format_number(value)


def _differs(shown: Sample, sample: Sample, step: float) -> bool:
    return (
        any(abs(a - b) >= step for a, b in zip(shown.core_percent, sample.core_percent, strict=True))
        or abs(shown.other_share - sample.other_share) * 100 >= step
        or abs(shown.resident_bytes - sample.resident_bytes) >= MEMORY_STEP_BYTES
        or abs(shown.available_bytes - sample.available_bytes) >= MEMORY_STEP_BYTES
    )
