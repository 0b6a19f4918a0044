"""What llama.cpp's server and its benchmarks have in common: a GGUF on this machine that another program times."""

import time

from workbench.engines.engine import BoxRates, EngineLabels, Host
from workbench.engines.llama_cpp.file_rates import FileRates
from workbench.engines.timed_only import TimedOnly
from workbench.experiments.plan import LoadPlan
from workbench.hardware.machine import usable_cores
from workbench.models.model import Model
from workbench.quantity import Quantity

SPARE_TOKENS = 8
"""What a sequence's slot has room for beside the tokens it comes to hold."""
LOOK_S = 0.05
"""How often is looked whether the run was cancelled, while a program is waited for."""
STOP_S = 2.0
"""How long a program that was told to end is waited for."""


def labels_of(planned: LoadPlan, engine: str, version: str, host: Host | None = None) -> EngineLabels:
    """A row's labels: the engine of this version, the file's quantisation, and what llama.cpp is set to."""
    settings = planned.settings
    return EngineLabels(
        engine=engine,
        engine_version=f"{version}, {settings.llama_cpp.words}",
        quantisation=planned.model.quantisation,
        dtype=settings.llama_cpp.cache_label,
        device="cpu" if settings.llama_cpp.gpu_layers in (None, 0) else "accelerator",
        threads=settings.threads or usable_cores(),
        host=host or Host(),
    )


def rates_of(planned: LoadPlan, threads: int) -> FileRates:
    """What reads the plan's file with so many threads."""
    assert planned.model.path is not None, "a GGUF has a path"
    return FileRates(planned.model.path, planned.model, threads, time.perf_counter)


class TimedFile(TimedOnly):
    """A model timed by another program, and B and C of this box from the bytes of its file."""

    def __init__(self, model: Model, labels: EngineLabels, rates: FileRates) -> None:
        super().__init__(model)
        self.labels = labels
        self._rates = rates

    def box_rates(self) -> BoxRates:
        """B and C of this moment, B on the file's own bytes."""
        return self._rates.box_rates()

    def read_again(self) -> Quantity:
        """B of this moment."""
        return self._rates.read_again()

    def close(self) -> None:
        """Let go of the file."""
        self._rates.close()
