"""One pass of a transformers model, run whole, with parts left out of it, or part by part, on the same cache."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workbench.engines.device import Synchronise
from workbench.engines.kept_cache import KeptCache, filled_cache
from workbench.engines.recorded_pass import RecordedPass
from workbench.experiments.gap.parts import SHORT_S, InPlace, Part, Sample
from workbench.hardware.run_queue import most_and_all, waited_s

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Pass:
    """What is run: `forward` on `ids`, sequences × tokens, with a cache that holds `context` tokens of each.

    `forward` takes tokens and a cache, None for a new one, and gives back the model's output; `cache_of` takes the
    cache from that. `clocks_in_place` is whether a clock around a call times it: not where a device works behind its
    back.
    """

    network: Any
    forward: Callable[[torch.Tensor, Any], Any]
    cache_of: Callable[[Any], Any]
    ids: torch.Tensor
    context: int
    clocks_in_place: bool


class PassDissection:
    """A decode step of sequences that hold `context` tokens each; with `context` 0 a prefill of the tokens.

    A decode step's cache is that of a short prefill with its positions repeated: the time depends on no value.
    """

    def __init__(self, run: Pass, synchronise: Synchronise, clock: Callable[[], float] = time.perf_counter) -> None:
        self._run = run
        self._synchronise = synchronise
        self._clock = clock
        with torch.inference_mode():
            self._kept = KeptCache(self._filled_cache())
            self._pass()
            self._logits = self._out.logits[:, -1:]
            self._kept.put_back()
            self._recorded = RecordedPass(run.network, self._kept.cache)
            start = clock()
            self._recorded.record(self._network_pass)
            synchronise()
            self._warms_up = clock() - start <= SHORT_S
            self._recorded.sampling(self._choose)
            if run.context:
                self._kept.share()
            self._kept.put_back()

    def whole(self) -> Sample:
        """The pass as the engine runs it."""
        return self._timed(self._pass)

    def without(self, parts: Sequence[Part]) -> Sample:
        """The pass with these parts left out of it."""
        with self._recorded.without(parts):
            run = self._network_pass if Part.SAMPLING in parts else self._pass
            return self._timed(run)

    def alone(self, part: Part) -> Sample:
        """The part's calls alone, in the pass's order."""
        return self._timed(lambda: self._recorded.again(part))

    def in_place(self) -> InPlace | None:
        """The pass with a clock around each part's calls."""
        if not self._run.clocks_in_place:
            return None
        with self._recorded.in_place(self._clock) as seconds:

            def run() -> None:
                seconds.update(dict.fromkeys(Part, 0.0))
                self._network_pass()
                start = self._clock()
                self._choose()
                seconds[Part.SAMPLING] = self._clock() - start

            sample = self._timed(run)
        return InPlace(sample, dict(seconds))

    def unchanged(self) -> bool:
        """Whether the pass gives the logits that it gave before it was recorded."""
        with torch.inference_mode():
            self._kept.put_back()
            self._pass()
            again = self._out.logits[:, -1:]
            self._kept.put_back()
        most = self._logits.abs().max().item() or 1.0
        return bool(((again - self._logits).abs().max() <= TOLERANCE * most).item())

    def _filled_cache(self) -> Any:
        run = self._run
        if not run.context:
            out = run.forward(run.ids[:, :1], None)
            cache = run.cache_of(out)
            return type(cache)(config=run.network.config)
        prompt = run.ids[:, :1].expand(-1, run.context)
        return filled_cache(lambda ids: run.cache_of(run.forward(ids, None)), prompt, run.context)

    def _network_pass(self) -> None:
        self._out = self._run.forward(self._run.ids, self._kept.cache)

    def _choose(self) -> torch.Tensor:
        token: torch.Tensor = self._out.logits[:, -1:].argmax(-1)
        return token

    def _pass(self) -> None:
        self._network_pass()
        self._token = self._choose()

    def _timed(self, run: Callable[[], Any]) -> Sample:
        with torch.inference_mode():
            self._kept.put_back()
            if self._warms_up:
                run()
                self._kept.put_back()
            self._synchronise()
            waited = waited_s()
            start = self._clock()
            run()
            self._synchronise()
            wall = self._clock() - start
            most, together = most_and_all(waited, waited_s())
            self._kept.put_back()
        return Sample(wall, min(most, wall), min(together, wall))
