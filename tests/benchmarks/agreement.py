"""The sweep against a plain loop over the same model in the same process, alternating."""

import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from tests.benchmarks.report import print_bar, spread
from workbench.engines.torch_engine import TorchModel, load
from workbench.experiments.events import RowMeasured
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken

ALTERNATIONS = 7
REPEATS = 3
PROMPTS = {"smollm2-135m": (1, 16, 64, 256, 1024), "qwen3-0.6b": (1, 16, 64, 256)}


@dataclass
class KeptModel:
    """A loaded model that outlives the sweep, so that both sides time the same weights in the same memory."""

    loaded: TorchModel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    def close(self) -> None:
        """Stay loaded."""


def plain_request(network: Any, vocabulary: int, prompt: int, new_tokens: int) -> tuple[float, float]:
    """TTFT and TPOT in seconds of one request, with nothing around it but the clock."""
    cache_name = "cache" if "cache" in network.forward.__code__.co_varnames else "past_key_values"
    ids = torch.randint(0, vocabulary, (1, prompt))
    with torch.inference_mode():
        begun = time.perf_counter()
        step = network(input_ids=ids, logits_to_keep=1)
        following = step.logits[:, -1:].argmax(-1)
        ttft = time.perf_counter() - begun
        cache = step[cache_name]
        begun = time.perf_counter()
        for _ in range(new_tokens - 1):
            following = network(input_ids=following, **{cache_name: cache}).logits[:, -1:].argmax(-1)
        tpot = (time.perf_counter() - begun) / (new_tokens - 1)
    return ttft, tpot


def compare(settings: SweepSettings) -> None:
    """Print the ratios of the sweep's figures to the plain loop's, phase by phase."""
    kept = KeptModel(load(plan(settings), CancelToken()))
    network = kept.loaded._network

    def already_loaded(planned: LoadPlan, cancel: CancelToken) -> Any:
        return kept

    def swept() -> dict[int, tuple[float, float]]:
        events = sweep(settings, already_loaded, TimedWindow())(CancelToken())
        rows = [event.row for event in events if isinstance(event, RowMeasured)]
        return {row.prompt_tokens: ((row.ttft_ms or 0) / 1e3, (row.tpot_ms or 0) / 1e3) for row in rows}

    def plain() -> dict[int, tuple[float, float]]:
        plain_request(network, kept.loaded.model.vocabulary, 16, settings.new_tokens)
        best = {}
        for prompt in settings.prompts:
            timings = [
                plain_request(network, kept.loaded.model.vocabulary, prompt, settings.new_tokens)
                for _ in range(REPEATS)
            ]
            best[prompt] = (min(t[0] for t in timings), min(t[1] for t in timings))
        return best

    ratios: list[dict[int, tuple[float, float]]] = []
    for alternation in range(ALTERNATIONS):
        first, second = (swept(), plain()) if alternation % 2 else (plain(), swept())
        ours, theirs = (first, second) if alternation % 2 else (second, first)
        ratios.append({n: (ours[n][0] / theirs[n][0], ours[n][1] / theirs[n][1]) for n in settings.prompts})
    for phase, name in enumerate(("TTFT", "TPOT")):
        for n in settings.prompts:
            print(f"  {name} ratio at prompt {n:>5}: {spread([ratio[n][phase] for ratio in ratios])}")
        middle = median(ratio[n][phase] for ratio in ratios for n in settings.prompts)
        print_bar(f"{settings.model} {name} ratio", middle, "1.00 ± 0.02", abs(middle - 1) <= 0.02)


def main() -> None:
    for model, prompts in PROMPTS.items():
        print(f"{model}, float32, prompts {prompts}, {ALTERNATIONS} alternations")
        compare(SweepSettings(model=model, prompts=prompts, repeats=REPEATS, device="cpu"))


if __name__ == "__main__":
    main()
