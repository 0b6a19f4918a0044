"""What answering keys may cost while something is timed: a share of the windows' time, saved up for a while."""

import time
from collections.abc import Callable

from workbench.experiments.window import Disturbance, TimedWindow

SHARE = 0.005
"""Half of what the screen may take of its windows altogether."""
KEY_S, MOST_S = 0.02, 0.25
"""CPU seconds that answering a key takes with its repaint, and that may be saved up."""
LONGEST_WAIT_S = 3.0
"""A key is answered by then, whatever it costs: the row says what the screen took."""


class KeyAllowance:
    """CPU time of the screen's thread inside timed windows, of which keys are answered while some is left.

    Asked in the screen's thread only.
    """

    def __init__(self, window: TimedWindow, cpu_seconds: Callable[[], float] = time.thread_time) -> None:
        self._window = window
        self._cpu_seconds = cpu_seconds
        self._counted = Disturbance()
        self._cpu_before_window = 0.0
        self.saved_s = 0.0
        self.most_s = MOST_S

    def painted(self) -> None:
        """The screen is up to date: what its thread takes from now on falls into the window that opens."""
        self._count()
        self._cpu_before_window = self._cpu_seconds()

    def answers(self, waited_s: float = 0.0) -> bool:
        """Whether a key that has waited so long is answered now; always while nothing is timed."""
        if not self._window.is_open or waited_s >= LONGEST_WAIT_S:
            return True
        self._count()
        spent = self._cpu_seconds() - self._cpu_before_window
        return self.saved_s + SHARE * self._window.open_seconds - spent > KEY_S

    def _count(self) -> None:
        """Take in the windows that have closed since."""
        all_so_far, counted = self._window.altogether, self._counted
        if all_so_far.open_s > counted.open_s:
            spent = (all_so_far.instrument_cpu_s or 0.0) - (counted.instrument_cpu_s or 0.0)
            self.saved_s = min(self.most_s, self.saved_s + SHARE * (all_so_far.open_s - counted.open_s) - spent)
            self._counted = all_so_far
