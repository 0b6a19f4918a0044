"""What is typed after a command: a mistake is one sentence, with the nearest word that is known."""

from argparse import Namespace
from collections.abc import Callable

import pytest

from tests.commands.conftest import Workbench
from workbench.cli import main

MODEL = "smollm2-135m"
CEILING = ("ceiling", MODEL, "--bandwidth", "100")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ceilng", MODEL), "there is no 'ceilng'. Did you mean ceiling?"),
        (("--presets", "S"), "there is no option --presets. Did you mean --preset?"),
        (("--preset",), "--preset: expected one argument"),
        (("ceiling",), "required: MODEL"),
        (("ceiling", MODEL, "--bandwith", "100"), "ceiling: there is no option --bandwith. Did you mean --bandwidth?"),
        (("split", MODEL, "--fats", "9", "--slow", "2"), "split: there is no option --fats. Did you mean --fast?"),
        (("runs", "list", "--fromat=json"), "runs list: there is no option --fromat. Did you mean --format?"),
        (("prefill", MODEL, "qwen3-8b"), "'qwen3-8b' is one word too many"),
        ((*CEILING, "-f", "json"), "'-f' is one word too many"),
        ((*CEILING, "--kv-dtype", "q8_1"), "no cache type named 'q8_1'. Did you mean q8_0?"),
        ((*CEILING, "--dtype", "fp16"), "there is no 'fp16'. Did you mean float16?"),
        ((*CEILING, "--format", "jsn"), "no format named 'jsn'. Did you mean json?"),
        (("ceiling", MODEL, "--bandwidth", "0"), "--bandwidth: 0 is not above zero"),
        (("ceiling", MODEL, "--bandwidth", "-5"), "--bandwidth: -5 is not above zero"),
        (("ceiling", MODEL, "--bandwidth", "nan"), "nan is not finite"),
        (("ceiling", MODEL, "--bandwidth", "1e-300"), "1e-300 is out of range"),
        (("ceiling", MODEL, "--bandwidth", "273GB/s"), "without a unit"),
        ((*CEILING, "--context", "4k"), "'4k' is no whole number"),
        ((*CEILING, "--context", "4,096"), "'096' starts with a zero"),
        ((*CEILING, "--context", "0,", "4096"), "with no space after a comma"),
        ((*CEILING, "--context", ""), "no list of whole numbers"),
        ((*CEILING, "--batch", "0"), "0 is out of range; it must be 1 to"),
        (("split", MODEL, "--fast", "9", "--slow", "1", "--slow-share", "150%"), "150% is no share"),
        (("split", MODEL, "--fast", "9", "--slow", "1", "--slow-share", "5"), "5 per cent is written 5%"),
        (("split", MODEL, "--fast", "9"), "required: --slow"),
        (("sweep", MODEL, "--prompts", "4,096"), "'096' starts with a zero"),
    ],
)
def test_a_mistake_is_one_sentence(workbench: Workbench, arguments: tuple[str, ...], message: str) -> None:
    ended = workbench(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.startswith("workbench")
    assert ended.err.count("\n") == 1
    assert "?." not in ended.err
    assert "%%" not in ended.err


def test_words_in_any_case(workbench: Workbench) -> None:
    ended = workbench("ceiling", MODEL.upper(), "--bandwidth", "100", "--format", "JSON", "--dtype", "BFloat16")
    assert ended.json[0]["weight_bytes"] == 269_030_016


def test_an_option_may_be_cut_short(workbench: Workbench) -> None:
    assert workbench("ceiling", MODEL, "--band", "100").out == workbench(*CEILING).out


@pytest.mark.parametrize("command", ["presets", "inspect", "ceiling", "prefill", "fit", "split", "latency", "roofline"])
def test_help_names_the_formats(workbench: Workbench, command: str) -> None:
    ended = workbench(command, "--help")
    assert ended.code == 0
    assert "table|json|csv" in ended.out


@pytest.mark.parametrize(
    ("option", "name", "typed", "taken"),
    [
        (("sweep", MODEL, "--prompts"), "prompts", "16,1,16", (16, 1)),
        (("batch", MODEL, "--batches"), "batches", "2,2,4", (2, 4)),
        (("batch", MODEL, "--contexts"), "contexts", "64,64", (64,)),
        (("ceiling", MODEL, "--context"), "context", "64,64", (64,)),
        (("ceiling", MODEL, "--batch"), "batch", "2,1,2", (2, 1)),
        (("prefill", MODEL, "--prompts"), "prompts", "8,8", (8,)),
    ],
)
def test_what_a_list_names_twice_is_there_once(
    monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...], name: str, typed: str, taken: tuple[int, ...]
) -> None:
    found: list[object] = []
    taking = _Taking(lambda options: found.append(getattr(options, name)))
    monkeypatch.setattr("workbench.commands.arguments.parser.import_module", lambda _: taking)
    main([*option, typed])
    assert found == [taken]


class _Taking:
    """A module whose every command gives its options to `take`."""

    def __init__(self, take: Callable[[Namespace], object]) -> None:
        self._take = take

    def __getattr__(self, _name: str) -> Callable[[Namespace], object]:
        return self._take
