"""What the screen knows of the box: its load now and over the last minutes, and its rates."""

import time

from workbench.ceilings.box import Box
from workbench.hardware.device import Device
from workbench.hardware.machine import this_machine
from workbench.hardware.monitor import Monitor, Sample
from workbench.runs.measured_device import this_device
from workbench.ui.live_run import LiveRun
from workbench.ui.widgets.box_view import BoxHistory

SAMPLE_S = 0.9
"""A sample younger than this is shown again."""


class BoxWatch:
    """Looks at the box when it is asked, not by itself; `box` is None until its rates have been looked up."""

    def __init__(self) -> None:
        self.monitor = Monitor()
        self.box: Box | None = None
        self._device: Device | None = None
        self._sample: Sample | None = None
        self._sampled_at = 0.0

    def look(self) -> Sample:
        """The load of this moment."""
        if self._sample is None or time.monotonic() - self._sampled_at > SAMPLE_S:
            self._sample, self._sampled_at = self.monitor.sample(), time.monotonic()
        return self._sample

    def look_up_rates(self) -> None:
        """Read what is known of this machine's rates: a probe or a run may have measured them."""
        self._device = this_device()

    def box_for(self, dtype: str) -> Box | None:
        """The rates for weights of a type."""
        if (device := self._device) is not None:
            self.box = Box(device.bandwidth, device.compute_for(dtype), device.memory)
        return self.box

    def history(self, live: LiveRun | None) -> BoxHistory:
        """The last minutes, and what a run reached in them."""
        return BoxHistory(tuple(self.monitor.history), live, this_machine(), self.box)
