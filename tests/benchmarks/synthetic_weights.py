"""Time until a synthetic model is ready, against the model class's own initialisation."""

import gc
import time
from statistics import median

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.benchmarks.report import print_bar, spread
from workbench.engines.loading import load_model
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings

ROUNDS = 5


def main() -> None:
    planned = plan(SweepSettings(model="qwen3-0.6b", device="cpu"))
    values = dict(planned.model.config or {})
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    ours, classes = [], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        model = load_model(planned, torch.device("cpu"))
        ours.append(time.perf_counter() - begun)
        del model
        gc.collect()
        begun = time.perf_counter()
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        classes.append(time.perf_counter() - begun)
        del model
        gc.collect()
    print(f"filled here s: {spread(ours)}")
    print(f"initialised by the class s: {spread(classes)}")
    print_bar("seconds until Qwen3-0.6B in float32 is ready", median(ours), "at most 3", median(ours) <= 3)


if __name__ == "__main__":
    main()
