"""The main job in a real terminal: choose a model, run the sweep, stop or finish it, export, quit."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from tests.models_on_disk import smollm2_gguf
from tests.terminal import Terminal
from workbench.runs.export import csv_text
from workbench.runs.run import Run, RunStatus
from workbench.runs.store import Store

SIZES = [(80, 24), (120, 40)]
READY = "r runs this sweep"
TAB_LINE = 1
VALUE = range(17, 30)
"""Columns in which a field of the form shows its value, in reverse where it has the keys."""


def open_app(folder: Path, size: tuple[int, int]) -> Terminal:
    return Terminal([sys.executable, "-m", "workbench"], *size, cwd=folder)


def choose(terminal: Terminal, model: str, prompts: str, new_tokens: int, repeats: int) -> None:
    """Fill in the Setup pane's fields from top to bottom, as a person does."""
    terminal.wait_for(READY)
    for label, text in (
        ("model or path", model),
        ("prompts", prompts),
        ("new tokens", str(new_tokens)),
        ("repeats", str(repeats)),
    ):
        fill(terminal, label, text)
    terminal.wait_for(lambda shown: READY in shown and f"repeats {repeats}" in " ".join(shown.split()))


def fill(terminal: Terminal, label: str, text: str) -> None:
    """Go on to the field of that label and write `text` there."""
    while not (before := focused(terminal)).startswith(label):
        terminal.send("\t")
        # By its words, not its line: the form moves while the plan comes in.
        terminal.wait_for(lambda _, before=before: focused(terminal) not in ("", before))  # type: ignore[misc]
    terminal.send("\r")
    terminal.wait_for("enter keep")
    terminal.send("\x15" + text)
    terminal.wait_for(text[-10:])
    terminal.send("\r")
    terminal.wait_for(lambda shown: "enter keep" not in shown)


def focused(terminal: Terminal) -> str:
    """The words of what is shown as having the keys, wherever the screen has it now; none halfway through a frame."""
    shown = terminal.text.splitlines()
    words = [shown[y][: VALUE.start].strip() for y in terminal.reversed_lines(VALUE) if y > TAB_LINE]
    return words[0] if len(words) == 1 else ""


def last_run() -> Run:
    with Store() as store:
        return store.run("last")


def export(terminal: Terminal, folder: Path) -> str:
    """Press e, take the path offered, and give back what the file holds."""
    terminal.send("e")
    terminal.wait_for("Export the run as CSV")
    terminal.send("\r")
    terminal.wait_for("Exported")
    terminal.send("\x1b")
    terminal.wait_for(lambda shown: "Exported" not in shown)
    (path,) = folder.glob("*.csv")
    return path.read_text(encoding="utf-8")


def quit_app(terminal: Terminal) -> None:
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.echoes


@pytest.mark.parametrize("size", SIZES)
def test_a_real_gguf_is_swept_to_the_end_and_exported(tmp_path: Path, size: tuple[int, int]) -> None:
    with open_app(tmp_path, size) as terminal:
        choose(terminal, str(smollm2_gguf()), "1,16", 3, 2)
        terminal.send("r")
        shown = terminal.wait_for("finished")
        assert "maths" in shown or "bytes" in shown
        exported = export(terminal, tmp_path)
        quit_app(terminal)
    run = last_run()
    with Store() as store:
        assert exported == csv_text(store.rows(run.run_id))
        assert all(len(samples.tpot_s) == 2 for _, samples in store.rows_with_samples(run.run_id))
    lines = list(csv.DictReader(io.StringIO(exported)))
    assert [line["prompt_tokens"] for line in lines] == ["1", "16"]
    assert {(line["quantisation"], line["weights"]) for line in lines} == {("Q4_1, dequantised", "real")}
    assert run.status is RunStatus.FINISHED


@pytest.mark.parametrize("size", SIZES)
def test_a_synthetic_sweep_is_stopped_midway_and_keeps_its_rows(tmp_path: Path, size: tuple[int, int]) -> None:
    with open_app(tmp_path, size) as terminal:
        choose(terminal, "smollm2-135m", "1,8000", 3, 1)
        terminal.send("r")
        terminal.wait_for("point 2 of 2")
        terminal.send("x")
        terminal.wait_for("interrupted")
        exported = export(terminal, tmp_path)
        quit_app(terminal)
    run = last_run()
    assert (run.status, run.rows) == (RunStatus.INTERRUPTED, 1)
    with Store() as store:
        assert exported == csv_text(store.rows(run.run_id))
    assert json.loads(json.dumps(run.settings))["prompts"] == [1, 8000]


def test_what_is_wrong_is_said_and_the_app_stays(tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(smollm2_gguf().read_bytes()[:1000])
    with open_app(tmp_path, (80, 24)) as terminal:
        terminal.wait_for(READY)
        for model, message in (("cut.gguf", "cut.gguf"), ("qwen3-0.6c", "Did you mean"), ("/nowhere", "/nowhere")):
            fill(terminal, "model or path", model)
            terminal.wait_for(lambda shown, message=message: message in shown and READY not in shown)  # type: ignore[misc]
            terminal.send("r")
            terminal.wait_for("can't be run")
            terminal.send("\x1b")
            terminal.wait_for(lambda shown: "can't be run" not in shown)
        quit_app(terminal)
