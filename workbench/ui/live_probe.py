"""What the screen knows of one probe, built from its events alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.experiments.events import Calibrated, CellMeasured, Event, Progress
from workbench.hardware.calibration import Calibration, Cell, Work, findings
from workbench.quantity import Unit, explain, format_value


@dataclass
class LiveProbe:
    """A probe as it unfolds: its stage, the cells so far, and what they came to."""

    stage: str = "starting"
    cells: list[Cell] = field(default_factory=list)
    calibration: Calibration | None = None

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Progress():
                self.stage = event.stage
            case CellMeasured(cell):
                self.cells.append(cell)
            case Calibrated(calibration):
                self.calibration = calibration
            case _:
                pass

    def summary(self) -> str:
        """Where the probe stands, in one line."""
        if not self.cells:
            return f"probing · {self.stage}"
        cell = self.cells[-1]
        rows = f" of {cell.rows:,} rows" if cell.work is Work.GEMM else ""
        return f"probing · {self.stage} · {cell.kernel}{rows}: {format_value(cell.best, cell.unit)}"


def calibration_lines(found: Calibration) -> Iterator[str]:
    """What a probe found, for a person: B, what kernels make of it, C by dtype, and its findings."""
    if found.read is not None:
        yield from explain(found.read)
    if found.read_median is not None:
        yield f"  median {format_value(found.read_median, Unit.BYTES_PER_SECOND)}"
    for work, of in ((Work.GEMV, found.gemv), (Work.GEMM, found.gemm)):
        for dtype in found.dtypes(work):
            figure = of(dtype)
            if figure is not None:
                yield f"{figure.name}: {figure}"
    yield ""
    yield from (f"! {sentence}" for sentence in findings(found))
