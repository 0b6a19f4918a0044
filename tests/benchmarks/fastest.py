"""The speed-up that a search over levers finds, from a model's decode step in float32, and how long the search takes.

Passes with and without the levers are interleaved, so that other load slows both; a quiet box is better all the same.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from tests.benchmarks.report import print_bar

LEAST_SPEEDUP, MOST_S = 3.0, 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="qwen3-0.6b")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--within", type=float, default=MOST_S)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "workbench", "gap", options.model, "--context", str(options.context)),
            *("--seconds", "5", "--fastest", "--within", str(options.within), "--format", "json"),
        ]
        process = subprocess.run(
            command,
            env={**os.environ, "WORKBENCH_DATA": folder, "XDG_CONFIG_HOME": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    ladder = json.loads(process.stdout)
    for lever in ladder["levers"]:
        predicted, saved = lever["predicted_saving_ms"], lever["measured_saving_ms"]
        print(
            f"{lever['name']:<40} predicted {'–' if predicted is None else f'{predicted:.1f}':>7} ms, saved "
            f"{'–' if saved is None else f'{saved:.1f}':>7} ms, agrees {lever['agrees']}: {lever['note']}"
        )
    found = ladder["fastest"]
    print(
        f"{found['name']}: {found['pass_s'] * 1e3:.1f} ms instead of {found['as_loaded_s'] * 1e3:.1f}, "
        f"TTFT × {found['ttft_ratio']}, {found['note']}"
    )
    print_bar("times faster", found["speedup"], f"at least {LEAST_SPEEDUP}", found["speedup"] >= LEAST_SPEEDUP)
    print_bar("seconds of search", found["seconds"], f"at most {MOST_S:.0f}", found["seconds"] <= MOST_S)


if __name__ == "__main__":
    main()
