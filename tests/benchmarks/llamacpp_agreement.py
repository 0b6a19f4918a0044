"""Embedded llama.cpp against the server's own timings on the same file, threads and lengths, alternating.

Where llama-bench is on the PATH it is the other side. Without it the other side is a bare request to the same server,
timed by nothing but what its answer says: the sweep's warm-up, repeats and rows must not move its rates.
"""

import json
import shutil
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import median

from tests.benchmarks.report import print_bar, spread
from tests.models_on_disk import smollm2_gguf
from workbench.engines.endpoint.prompts import random_ids
from workbench.engines.engine import LoadedModel, RequestTiming
from workbench.engines.llama_cpp import embedded
from workbench.engines.llama_cpp.bench import load_llama_bench
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.settings import SweepSettings
from workbench.runner import CancelToken

PROMPTS, NEW_TOKENS, ALTERNATIONS = (16, 128, 512), 65, 11
BAR = 0.03
Timed = Callable[[int, int], RequestTiming]
PHASES: Mapping[str, Callable[[RequestTiming], float]] = {"prompt": lambda t: t.ttft_s, "decode": lambda t: t.tpot_s}


def asked_of(model: LoadedModel, n: int, seed: int) -> RequestTiming:
    """One request as a sweep makes it."""
    model.prepare(n, seed)
    return model.request(NEW_TOKENS, CancelToken())


def bare(address: str, secret: str, n: int, seed: int) -> RequestTiming:
    """One request without the workbench's client: the server's own timings of it."""
    body = {"prompt": random_ids(n, 49_152, seed), "n_predict": NEW_TOKENS, "temperature": 0}
    body |= {"ignore_eos": True, "cache_prompt": False}
    head = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/completion", json.dumps(body).encode(), head)
    with urllib.request.urlopen(request) as reply:
        timings = json.load(reply)["timings"]
    return RequestTiming(timings["prompt_ms"] / 1e3, timings["predicted_ms"] / 1e3, timings["predicted_n"] - 1)


def main() -> None:
    settings = SweepSettings(
        model=str(smollm2_gguf()), engine="llama.cpp", prompts=PROMPTS, new_tokens=NEW_TOKENS, repeats=1
    )
    started: list[embedded._Started] = []
    secrets: list[str] = []
    start = embedded._start

    def kept(planned: LoadPlan, secret: str, cancel: CancelToken) -> embedded._Started:
        secrets.append(secret)
        started.append(start(planned, secret, cancel))
        return started[-1]

    embedded._start = kept
    model = embedded.load_llama_cpp(plan(settings), CancelToken())
    bench = shutil.which("llama-bench")
    try:
        if bench:
            other: Timed = partial(
                asked_of, load_llama_bench(plan(replace(settings, engine="llama-bench")), CancelToken())
            )
        else:
            other = partial(bare, started[0].address, secrets[0])
        print(f"the other side: {'llama-bench' if bench else 'the server alone'}; {NEW_TOKENS} new tokens")
        for n in PROMPTS:
            compare(model, other, n)
    finally:
        model.close()


def compare(model: LoadedModel, other: Timed, n: int) -> None:
    ours: list[RequestTiming] = []
    theirs: list[RequestTiming] = []
    asked_of(model, n, 0)
    other(n, 0)
    for i in range(1, ALTERNATIONS + 1):
        pair: list[tuple[list[RequestTiming], Timed]] = [(ours, partial(asked_of, model)), (theirs, other)]
        for kept, timed in pair if i % 2 else reversed(pair):
            kept.append(timed(n, i))
    for name, of in PHASES.items():
        each = [(of(a), of(b)) for a, b in zip(ours, theirs, strict=True)]
        ratios = [a / b for a, b in each]
        best = min(a for a, _ in each) / min(b for _, b in each)
        print(f"{n} tokens, {name}: ours over theirs: {spread(ratios)}; of the best {best:.3f}")
        off = abs(median(ratios) - 1)
        print_bar(f"{n} tokens, {name} rate off by", off, f"≤ {BAR}", off <= BAR)
    rest_ms = [(t.seen.end_s - t.ttft_s - t.decode_s) * 1e3 for t in ours if t.seen]
    print(f"{n} tokens: the client's end-to-end time beyond the server's phases, ms: {spread(rest_ms)}")


if __name__ == "__main__":
    main()
