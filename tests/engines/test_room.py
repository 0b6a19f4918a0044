"""A limit of address space too low for torch is refused in a sentence before torch is imported."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.models_on_disk import smollm2_gguf

GGUF = "the GGUF"
ROOT = Path(__file__).resolve().parents[2]
LIMITED = """
import sys, psutil
from workbench import cli
process = psutil.Process()
process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms + 600_000_000, psutil.RLIM_INFINITY))
code = cli.main(sys.argv[1:])
assert "torch" not in sys.modules
sys.exit(code)
"""


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_AS"), reason="this system tells no limit of a process")
@pytest.mark.parametrize(
    "command",
    [
        ("probe", "--quick"),
        ("predict", "smollm2-135m", "--prompts", "1"),
        ("sweep", GGUF, "--engine", "llama.cpp", "--prompts", "1", "--new-tokens", "2"),
    ],
    ids=lambda command: command[0],
)
def test_what_starts_torch_says_first_where_a_limit_leaves_it_no_room(command: tuple[str, ...]) -> None:
    named = [str(smollm2_gguf()) if word == GGUF else word for word in command]
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, *named], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "workbench: `ulimit -v` leaves this process 0." in ended.stderr
    assert "Traceback" not in ended.stderr
