"""`workbench runs import` inside the test's process."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Workbench
from tests.models.files import smollm2
from tests.runs.importers.recordings import RECORDED, recording


def test_an_import_is_listed_shown_exported_and_told_of_a_second_time(workbench: Workbench) -> None:
    path = RECORDED / "llama-bench.json"
    words = ("runs", "import", path, "--model", smollm2(), "--hardware", "rtx-5090")
    ended = workbench(*words, "--format", "json")
    assert ended.code == 0, ended.err
    [run] = ended.json
    assert (run["rows"], run["status"], run["kind"]) == (6, "finished", "prefill_decode")
    assert f"6 rows imported as {run['run_id']}." in ended.err
    shown = workbench("runs", "show", "last", "--format", "json").json
    assert len(shown[1]["samples"]["ttft_s"]) == 3
    exported = workbench("runs", "export", "last").csv
    assert [line["engine"] for line in exported] == ["llama.cpp"] * 6
    assert float(exported[2]["ceiling_share"]) > 0
    again = workbench(*words)
    assert (again.code, "nothing was added" in again.err) == (0, True)
    assert workbench(*words, "--again").code == 0
    assert len(workbench("runs", "list", "--format", "csv").csv) == 2


def test_two_imports_are_compared_and_explained(workbench: Workbench) -> None:
    names = [
        workbench("runs", "import", RECORDED / name, "--format", "json").json[0]["run_id"]
        for name in ("llama-bench.json", "llama-bench.jsonl")
    ]
    compared = workbench("runs", "compare", *names, "--format", "json").json
    assert len(compared["points"]) == 6
    assert compared["points"][0]["ttft_ratio"] > 0
    explained = workbench("runs", "explain", names[0], "--format", "json").json
    growth = next(line for line in explained if line["symptom"].startswith("the first token waits longer"))
    assert growth["times"] == pytest.approx(420.857528 / 57.273393)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is empty"), ("hello", "holds no results"), ("\0\1", "binary"), (None, "is a folder")],
)
def test_what_holds_no_results_is_refused_in_one_sentence(
    workbench: Workbench, tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path if text is None else tmp_path / "results"
    if text is not None:
        path.write_text(text)
    ended = workbench("runs", "import", path)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert ended.err.count("\n") == 1


def test_rows_without_a_figure_are_counted_apart(workbench: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = recording("llama-bench.jsonl").splitlines()
    broken = [json.dumps(json.loads(line) | {"samples_ns": [], "samples_ts": [], "avg_ns": 0}) for line in lines[:2]]
    path.write_text("\n".join([*broken, *lines[2:]]))
    ended = workbench("runs", "import", path)
    assert (ended.code, ended.err.count("\n")) == (0, 2)
    assert "6 rows imported as " in ended.err
    assert ", 2 of them without a figure.\n" in ended.err
    assert "The first says: failed: avg_ns is 0; it must be above zero, and finite.\n" in ended.err


def test_what_was_left_out_is_told(workbench: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("ggml: found 1 device\n" + recording("llama-bench.jsonl").rstrip()[:-30])
    ended = workbench("runs", "import", path)
    assert "5 rows imported" in ended.err
    assert "cut short" in ended.err


def test_a_model_that_was_named_and_not_taken_is_told_at_once(workbench: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(recording("llama-bench.jsonl"))
    ended = workbench("runs", "import", path, "--model", "qwen3-8b", "--hardware", "rtx-5090")
    assert ended.code == 0
    assert ended.err.count("No ceiling: the file's model") == 1
