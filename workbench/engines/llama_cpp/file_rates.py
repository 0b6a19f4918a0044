"""B and C of this box as a GGUF's own bytes show them: the file is read as llama.cpp reads it, from the page cache."""

import mmap
from collections.abc import Callable
from pathlib import Path

import torch

from workbench.engines.engine import BoxRates
from workbench.hardware.probe.model_rates import WeightReader, matrix_rate
from workbench.models.model import Model
from workbench.quantity import Quantity

MOST_ROWS = 16_384
PIECE_BYTES = 1 << 26


def _nothing() -> None:
    """A CPU has nothing queued."""


class FileRates:
    """Reads a file's bytes with as many threads as llama.cpp, and multiplies in float32 by a matrix of its width."""

    def __init__(self, path: Path, model: Model, threads: int, clock: Callable[[], float]) -> None:
        torch.set_num_threads(threads)
        self._clock = clock
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        whole = torch.frombuffer(self._bytes, dtype=torch.uint8)
        pieces = list(torch.split(whole[: len(whole) // 4 * 4].view(torch.int32), PIECE_BYTES // 4))
        self._reader: WeightReader | None = WeightReader(pieces, _nothing, clock)
        self._shape = min(MOST_ROWS, max(model.vocabulary, model.hidden)), model.hidden

    def box_rates(self) -> BoxRates:
        """B and C of this moment."""
        assert self._reader is not None, "rates are read before close"
        with torch.inference_mode():
            return BoxRates(self._reader.rate(), matrix_rate(torch.ones(self._shape), _nothing, self._clock))

    def read_again(self) -> Quantity:
        """B of this moment, in about a quarter of a second."""
        assert self._reader is not None, "rates are read before close"
        with torch.inference_mode():
            return self._reader.rate_again()

    def close(self) -> None:
        """Let go of the file."""
        self._reader = None
