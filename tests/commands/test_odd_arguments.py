"""Commands with odd figures, lists and words in every place: an answer in full, or one sentence; never a traceback."""

import json
import random
from collections.abc import Mapping, Sequence

import pytest

from tests.commands.conftest import Workbench

ODD = (
    *(
        "0",
        "-1",
        "1",
        "0.5",
        "1e3",
        "1e12",
        "1e-6",
        "nan",
        "inf",
        "1e400",
        "-0",
        "0x1",
        "１２",
        "1_000",
        "1000000000000",
    ),
    *("", "  ", "4k", "1,2", "4,096", "1,", ",", "1;2", "50%", "150%", "x", "é", "∞", "a b", "\x00", "\n", "a" * 5000),
    *("float16", "q4_0", "FP8", "s", "rtx-4090", "json", "qwen3-8b", "/", "/dev/null", ".", "--", "-", "--levers"),
)
FIGURES = ("1", "0.5", "1000", "1e12", "0.000001")
COUNTS = ("1", "2,8000", "1000000000000")
SOUND: Mapping[str, Sequence[str]] = {
    "--hardware": ("rtx-4090", "m", "this machine"),
    "--dtype": ("float32", "float16"),
    "--kv-dtype": ("fp8", "q4_0", "float32"),
    "--slow-share": ("0,1", "5%"),
    "--prompt-tokens": ("8", "8000"),
    "--output-tokens": ("2", "400"),
    "--shorter-prompt": ("1", "90000"),
    "--cached-prefix": ("0", "7"),
    **dict.fromkeys(("--context", "--batch", "--prompts"), COUNTS),
}
BOX = ("--hardware", "--bandwidth", "--compute", "--memory", "--dtype", "--kv-dtype")
OPTIONS: Mapping[str, Sequence[str]] = {
    "ceiling": (*BOX, "--context", "--batch"),
    "prefill": (*BOX, "--prompts"),
    "fit": (*BOX, "--context", "--batch"),
    "split": ("--fast", "--slow", "--slow-share", "--dtype", "--kv-dtype"),
    "latency": (
        *("--prompt-tokens", "--output-tokens", "--ttft", "--end", "--waited"),
        *("--shorter-prompt", "--faster-decode", "--cached-prefix"),
    ),
    "roofline": (*BOX, "--batch", "--prompts", "--bytes-per-parameter"),
}
MODELS = ("smollm2-135m", "gpt-oss-120b-mxfp4", "qwen3-30b-a3b-q4_k_m")
CASES = 50


def arguments(chance: random.Random, command: str) -> list[str]:
    """A command with most of its options, nearly all of them sound."""
    words = [command]
    if command != "latency":
        words.append(chance.choice(MODELS) if chance.random() < 0.95 else chance.choice(ODD))
    needed = command in ("split", "latency")
    for option in OPTIONS[command]:
        if chance.random() < (0.95 if needed else 0.4):
            sound = chance.random() < 0.95
            words += [option, chance.choice(SOUND.get(option, FIGURES) if sound else ODD)]
    return words


def refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


@pytest.mark.parametrize("command", list(OPTIONS))
def test_an_answer_or_one_sentence(workbench: Workbench, command: str) -> None:
    chance = random.Random(command)
    answered = 0
    for _ in range(CASES):
        words = [*arguments(chance, command), "--format", "json"]
        ended = workbench(*words)
        assert ended.code in (0, 2), words
        if ended.code:
            assert ended.out == "", words
            assert ended.err.startswith("workbench"), words
            assert ended.err.count("\n") == 1, words
        else:
            answered += 1
            json.loads(ended.out, parse_constant=refuse)
    assert answered
