"""What was predicted of a point of a run before its first measurement, kept as it was and never altered."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Foretold:
    """A point's TTFT and TPOT (of a batch its step) in ms with their intervals; None where nothing could be predicted.

    `source` says what it rests on.
    """

    prompt_tokens: int
    batch: int
    ttft_ms: float | None = None
    ttft_low_ms: float | None = None
    ttft_high_ms: float | None = None
    tpot_ms: float | None = None
    tpot_low_ms: float | None = None
    tpot_high_ms: float | None = None
    source: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the point's row."""
        return {
            "predicted_ttft_ms": self.ttft_ms,
            "predicted_ttft_low_ms": self.ttft_low_ms,
            "predicted_ttft_high_ms": self.ttft_high_ms,
            "predicted_tpot_ms": self.tpot_ms,
            "predicted_tpot_low_ms": self.tpot_low_ms,
            "predicted_tpot_high_ms": self.tpot_high_ms,
            "predicted_from": self.source or None,
        }
