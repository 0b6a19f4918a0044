"""Who times the operations of a pass one by one, from which times are predicted."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from workbench.engines.engine import check_room_for_torch, load_engine, load_transformers
from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.settings import RunSettings
from workbench.hardware.timings import Conditions, Timing
from workbench.models.model import Model
from workbench.predictions.passes import Pass
from workbench.runner import CancelToken


class OperationTimer(Protocol):
    """Times operations on one device, in the thread that measures."""

    def conditions(self, settings: RunSettings) -> Conditions | None:
        """What operations of such a run are timed under; None on a device where they can't be timed one by one."""

    def working_bytes(self, settings: RunSettings, model: Model, of: Pass) -> int:
        """Weights and caches that a pass goes over, as far as it matters how many they are."""

    def time(
        self, settings: RunSettings, model: Model, passes: Sequence[Pass], cancel: CancelToken
    ) -> Iterator[tuple[Timing, ...]]:
        """The framework's cells first, then those of each pass in turn."""


class TransformersTimer:
    """Times them with torch as transformers' model classes run them; torch is imported when it is first asked."""

    def conditions(self, settings: RunSettings) -> Conditions | None:
        """As the protocol has it."""
        check_room_for_torch()
        from workbench.engines import operation_timing

        return operation_timing.conditions(settings)

    def working_bytes(self, settings: RunSettings, model: Model, of: Pass) -> int:
        """As the protocol has it."""
        from workbench.engines import operation_timing

        return operation_timing.working_bytes(settings, model, of)

    def time(
        self, settings: RunSettings, model: Model, passes: Sequence[Pass], cancel: CancelToken
    ) -> Iterator[tuple[Timing, ...]]:
        """As the protocol has it."""
        from workbench.engines import operation_timing

        yield from operation_timing.time_operations(settings, model, passes, cancel)


def timer_of(load: object, settings: RunSettings) -> OperationTimer | None:
    """Who times the operations of what is loaded so; None where nobody can."""
    is_known = load in (load_transformers, load_engine) and settings.engine == TRANSFORMERS
    return TransformersTimer() if is_known else None
