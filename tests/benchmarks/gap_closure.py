"""How much of a pass the ladder leaves unexplained: at most 5 per cent of a decode step, 10 of a prefill.

    python -m tests.benchmarks.gap_closure [--models smollm2-135m,qwen3-0.6b] [--seconds 20] [--only decode|prefill]

Prints the ladder of each pass, and its remainder against the bar; a ladder must take at most 60 s for the first shape
and 180 s for the second, loading included.
"""

import argparse
import time
from collections.abc import Iterator

from tests.benchmarks.report import print_bar
from workbench.engines.engine import load_transformers
from workbench.experiments.events import LadderMeasured
from workbench.experiments.gap.gap import gap
from workbench.experiments.settings import GapSettings, Weights
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken
from workbench.runs.ladder import Ladder

DTYPES = ("float32", "bfloat16")
DECODES = ((16, 1), (16, 8), (2048, 1), (2048, 8))
PREFILLS = (256, 1024)
MOST_S = {"smollm2-135m": 60.0, "qwen3-0.6b": 180.0}


def main() -> None:
    """Measure every pass and print its remainder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MOST_S))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", choices=("decode", "prefill"))
    chosen = parser.parse_args()
    for model in chosen.models.split(","):
        for dtype in chosen.dtypes.split(","):
            for settings in _passes(model, dtype, chosen.seconds, chosen.only):
                _measure(settings)


def _passes(model: str, dtype: str, seconds: float, only: str | None) -> Iterator[GapSettings]:
    about = {"model": model, "dtype": dtype, "seconds": seconds, "weights": Weights.SYNTHETIC, "device": "cpu"}
    if only != "prefill":
        for context, batch in DECODES:
            yield GapSettings(**about, context=context, batch=batch)  # type: ignore[arg-type]
    if only != "decode":
        for tokens in PREFILLS:
            yield GapSettings(**about, context=tokens, prefill=True)  # type: ignore[arg-type]


def _measure(settings: GapSettings) -> None:
    began = time.monotonic()
    found: Ladder | None = None
    for event in gap(settings, load_transformers, TimedWindow())(CancelToken()):
        if isinstance(event, LadderMeasured):
            found = event.ladder
    took = time.monotonic() - began
    what = f"{settings.model} {settings.dtype} {'prefill' if settings.prefill else 'decode'} of {settings.context:,}"
    what += "" if settings.batch == 1 else f" × {settings.batch}"
    if found is None:
        print(f"{what}: no ladder")
        return
    rungs = ", ".join(f"{rung.name} {rung.time.value * 1e3:.1f}" for rung in found.rungs)
    print(f"{what}: ceiling {found.ceiling.value * 1e3:.1f}, {rungs}; measured {found.measured.value * 1e3:.1f} ms")
    share = abs(found.remainder.time.value) / found.measured.value
    bar = 0.10 if settings.prefill else 0.05
    print_bar(f"  remainder, {found.rounds} rounds", share, f"at most {bar}", share <= bar)
    most = MOST_S.get(settings.model, 180.0)
    print_bar("  seconds for the ladder", took, f"at most {most:.0f}", took <= most)


if __name__ == "__main__":
    main()
