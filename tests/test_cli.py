"""The command line as a process: what it prints where, and how it exits."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.models_on_disk import smollm2_gguf, tiny_folder
from workbench.runs.export import records
from workbench.runs.row import COLUMNS
from workbench.runs.run import RunStatus
from workbench.runs.store import Store


def workbench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "workbench", *map(str, arguments)]


SHORT: Sequence[str] = ("--prompts", "1,8", "--new-tokens", "3", "--repeats", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-llama")


def test_a_sweep_of_a_folder_prints_and_keeps_its_rows(tiny: Path) -> None:
    swept = workbench("sweep", tiny, *SHORT, "--format", "json")
    assert swept.returncode == 0, swept.stderr
    printed = json.loads(swept.stdout)
    with Store() as store:
        assert printed == records(store.rows(store.run("last").run_id))
        assert store.run("last").status is RunStatus.FINISHED
        assert all(len(samples.ttft_s) == 2 for _, samples in store.rows_with_samples(store.run("last").run_id))
    assert [row["prompt_tokens"] for row in printed] == [1, 8]
    for row in printed:
        assert row["weights"] == "real"
        assert row["ttft_ms"] > 0
        assert row["tpot_ms"] > 0
        assert row["decode_tokens_per_s"] == pytest.approx(1e3 / row["tpot_ms"])
        assert row["prompt_tokens_per_s"] == pytest.approx(row["prompt_tokens"] / row["ttft_ms"] * 1e3)


def test_synthetic_weights_of_a_folders_shape(tiny: Path) -> None:
    swept = workbench("sweep", tiny, *SHORT, "--weights", "synthetic,real", "--dtype", "bfloat16", "--format", "csv")
    assert swept.returncode == 0, swept.stderr
    lines = list(csv.DictReader(io.StringIO(swept.stdout)))
    assert [line["weights"] for line in lines] == ["synthetic", "synthetic", "real", "real"]
    assert list(lines[0]) == [column.name for column in COLUMNS]
    assert {line["dtype"] for line in lines} == {"bfloat16"}


def test_the_real_gguf_is_swept_dequantised_and_labelled_so() -> None:
    swept = workbench("sweep", smollm2_gguf(), *SHORT)
    assert swept.returncode == 0, swept.stderr
    assert "Converting" not in swept.stderr
    assert re.search(r"^ +1 .* bytes ", swept.stdout, re.MULTILINE)
    exported = workbench("runs", "export")
    lines = list(csv.DictReader(io.StringIO(exported.stdout)))
    assert {line["quantisation"] for line in lines} == {"Q4_1, dequantised"}
    assert {line["weights"] for line in lines} == {"real"}
    assert int(lines[0]["weight_bytes"]) == 134_515_008 * 4


def test_export_show_and_list_speak_of_the_same_run(tiny: Path, tmp_path: Path) -> None:
    assert workbench("runs", "list").returncode == 0
    assert workbench("sweep", tiny, *SHORT).returncode == 0
    path = tmp_path / "rows.csv"
    assert workbench("runs", "export", "last", "--output", path).returncode == 0
    assert path.read_text() == workbench("runs", "export").stdout
    assert workbench("runs", "export", "--format", "json", "--output", tmp_path / "rows.json").returncode == 0
    assert [row["prompt_tokens"] for row in json.loads((tmp_path / "rows.json").read_text())] == [1, 8]
    (run,) = json.loads(workbench("runs", "list", "--format", "json").stdout)
    assert (run["rows"], run["status"], run["model"]) == (2, "finished", "tiny-llama")
    shown = json.loads(workbench("runs", "show", run["run_id"], "--format", "json").stdout)
    assert [len(row["samples"]["tpot_s"]) for row in shown] == [2, 2]


def test_an_interrupted_run_is_resumed_and_compared(tiny: Path) -> None:
    assert workbench("sweep", tiny, *SHORT).returncode == 0
    with Store() as store:
        run = store.run("last")
        store.connection.execute("DELETE FROM rows WHERE prompt_tokens = 8")
        store.connection.execute("UPDATE runs SET status = ?", (RunStatus.INTERRUPTED,))
    resumed = workbench("runs", "resume", "last", "--format", "json")
    assert resumed.returncode == 0, resumed.stderr
    assert [(row["prompt_tokens"], row["sitting"]) for row in json.loads(resumed.stdout)] == [(1, 1), (8, 2)]
    again = workbench("runs", "resume")
    assert (again.returncode, again.stdout) == (2, "")
    assert "is finished" in again.stderr
    compared = workbench("runs", "compare", "last", run.run_id, "--format", "json")
    assert compared.returncode == 0, compared.stderr
    points = json.loads(compared.stdout)["points"]
    assert [(point["prompt_tokens"], point["total_tokens_per_s_ratio"]) for point in points] == [(1, 1.0), (8, 1.0)]


def test_a_batch_sweep_prints_and_keeps_its_rows_with_one_refused(tiny: Path) -> None:
    wanted = ("--contexts", "2,8", "--batches", "1,3,1000000000", "--steps", "3", "--device", "cpu")
    swept = workbench("batch", tiny, *wanted)
    assert swept.returncode == 0, swept.stderr
    assert re.search(r"^ +2 +1 .*(reads|arithmetic)$", swept.stdout, re.MULTILINE)
    assert re.search(r"^ +8 +1,000,000,000 +refused: .* largest batch that fits is", swept.stdout, re.MULTILINE)
    shown = workbench("runs", "show")
    # The columns may be wider where all rows are known: only the words are compared.
    told = [line.split() for line in shown.stdout.splitlines()]
    assert all(line.split() in told for line in swept.stdout.splitlines() if " refused: " in line or " reads" in line)
    exported = list(csv.DictReader(io.StringIO(workbench("runs", "export").stdout)))
    assert [(row["prompt_tokens"], row["batch"]) for row in exported] == [
        (t, b) for t in ("2", "8") for b in ("1", "3", "1000000000")
    ]
    for row in exported:
        assert (row["kind"], row["ttft_ms"]) == ("batch", "")
        assert (row["step_ms"] == "") is (row["bound_by"] == "memory")
    with Store() as store:
        assert [len(s.tpot_s) for _, s in store.rows_with_samples(store.run("last").run_id)] == [3, 3, 0] * 2


def test_sequences_of_unequal_length_run_and_a_sweep_of_nothing_but_refused_ones_fails(tiny: Path) -> None:
    mixed = workbench("batch", tiny, "--context", "8", "--batches", "4", "--contexts-mixed", "--format", "json")
    assert mixed.returncode == 0, mixed.stderr
    (row,) = json.loads(mixed.stdout)
    assert (row["status"], row["prompt_tokens"]) == ("ok", 8)
    assert "4 to 12 tokens" in row["flags"]
    assert workbench("batch", tiny, "--batches", "1000000000").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("batch", "qwen3-0.6b", "--batches", "0"), "at least 1"),
        (("batch", "qwen3-0.6b", "--contexts", "50000"), "longer than the context"),
        (("batch", "qwen3-0.6b", "--steps", "0"), "at least 1"),
        (("sweep", "qwen3-0.6c"), "Did you mean qwen3-0.6b"),
        (("sweep", "qwen3-0.6b", "--dtype", "float8"), "no dtype named"),
        (("sweep", "qwen3-0.6b", "--device", "gpu"), "no device named"),
        (("sweep", "qwen3-0.6b", "--prompts", "0"), "at least 1"),
        (("sweep", "qwen3-0.6b", "--prompts", "-5"), "length is -5"),
        (("sweep", "qwen3-0.6b", "--prompts", "a,b"), "no whole number"),
        (("sweep", "qwen3-0.6b", "--prompts", ""), "No prompt lengths"),
        (("sweep", "qwen3-0.6b", "--repeats", "0"), "at least 1"),
        (("sweep", "qwen3-0.6b", "--new-tokens", "1"), "at least 2"),
        (("sweep", "qwen3-0.6b", "--prompts", "50000"), "longer than the context"),
        (("sweep", "qwen3-235b-a22b", "--device", "cpu"), "GB of weights"),
        (("sweep", "/nowhere/model"), "/nowhere/model"),
        (("sweep", "missing.gguf"), "missing.gguf"),
        (("inspect", "qwen3-9b"), "Did you mean"),
        (("presets", "qwen"), "Nearest of the"),
        (("runs", "show", "nothing"), "no runs yet"),
        (("runs", "exprot"), "Did you mean export"),
        (("swep", "qwen3-0.6b"), "Did you mean sweep"),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_2(arguments: tuple[str, ...], message: str) -> None:
    ended = workbench(*arguments)
    assert ended.returncode == 2, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert len([line for line in ended.stderr.splitlines() if line.startswith("workbench")]) == 1


def test_an_architecture_transformers_does_not_know_is_named(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "novel"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((tiny / name).read_bytes().replace(b'"llama"', b'"novelty"'))
    ended = workbench("sweep", folder, *SHORT)
    assert ended.returncode == 2, ended.stderr
    assert "novelty" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_settings_that_ask_for_layers_the_weights_lack_are_refused(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    config = {**json.loads((tiny / "config.json").read_text()), "num_hidden_layers": 3}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes())
    ended = workbench("sweep", folder, *SHORT)
    assert ended.returncode == 2, ended.stdout
    assert "different models" in ended.stderr
    assert json.loads(workbench("runs", "list", "--format", "json").stdout) == []


@pytest.mark.parametrize("command_name", ["inspect", "sweep"])
def test_a_path_that_would_block_is_refused(tmp_path: Path, command_name: str) -> None:
    os.mkfifo(tmp_path / "waiting.gguf")
    ended = workbench(command_name, tmp_path / "waiting.gguf")
    assert ended.returncode == 2
    assert "neither a folder nor a file" in ended.stderr


def test_a_preset_that_makes_no_sense_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "config" / "inference-workbench" / "presets" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nsource = "me"\n[config]\nmodel_type = "llama"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    ended = workbench("presets", "--format", "json")
    assert ended.returncode == 0
    assert "qwen3-0.6b" in ended.stdout
    if sys.platform == "linux":
        assert "mine" in ended.stderr


def ceiling_of(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {**os.environ, **environment}
    return subprocess.run(
        command("ceiling", "smollm2-135m", *arguments), capture_output=True, text=True, env=told, encoding="utf-8"
    )


def test_json_stands_alone_on_standard_output_and_notes_on_standard_error() -> None:
    ended = ceiling_of("--bandwidth", "100", "--format", "json")
    assert ended.returncode == 0
    assert len(json.loads(ended.stdout)) == 6
    assert ended.stderr.startswith("smollm2-135m was made for contexts of up to 8,192 tokens.\n")


def test_a_terminal_without_the_characters_shows_question_marks() -> None:
    ended = ceiling_of("--bandwidth", "100", "--context", "0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.returncode == 0, ended.stderr
    assert "smollm2-135m ? llama ? bfloat16" in ended.stdout
    assert ended.stdout.isascii()


def test_a_data_folder_that_can_not_be_written_is_no_obstacle() -> None:
    ended = ceiling_of("--context", "0", WORKBENCH_DATA="/proc/nowhere")
    assert ended.returncode == 0
    assert "nothing has been measured" in ended.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("ceiling", "qwen3-8b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "gpt-oss-120b-mxfp4", "--bandwidth", "273"),
        ("ceiling", "smollm2-135m"),
        ("prefill", "smollm2-135m"),
        ("fit", "smollm2-135m"),
        ("presets", "N"),
    ],
)
def test_arithmetic_imports_neither_torch_nor_a_screen(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; from workbench.cli import main; main(sys.argv[1:]);"
        "print(sorted({'torch', 'transformers', 'numpy', 'textual', 'gguf'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == "[]"


def test_output_that_cannot_be_written_is_said() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command("presets"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert "can't be written" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_code_in_a_model_folder_is_never_run(tiny: Path, tmp_path: Path) -> None:
    folder, witness = tmp_path / "tricky", tmp_path / "witness"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes())
    config = json.loads((tiny / "config.json").read_text())
    config |= {"model_type": "tricky", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(witness)!r}, 'w')\nclass C: pass\nclass M: pass\n")
    ended = workbench("sweep", folder, *SHORT)
    assert ended.returncode == 2, ended.stderr
    assert not witness.exists()


def test_an_unwritable_path_loses_no_row(tiny: Path, tmp_path: Path) -> None:
    assert workbench("sweep", tiny, *SHORT).returncode == 0
    ended = workbench("runs", "export", "last", "--output", tmp_path / "missing" / "rows.csv")
    assert ended.returncode == 2
    assert "still in the store" in ended.stderr
    assert len(workbench("runs", "export").stdout.splitlines()) == 3


def test_inspect_gives_the_designs_keys_without_torch() -> None:
    code = (
        "import sys; from workbench.cli import main; main(['inspect', sys.argv[1], '--format', 'json']);"
        "print('torch' in sys.modules or 'numpy' in sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(smollm2_gguf())], capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip() == "False"
    found = json.loads(ended.stdout)
    design = (
        "model source architecture parameters read_parameters file_bytes resident_bytes read_bytes_per_token "
        "shared_read_bytes routed_expert_bytes experts experts_used tied_embeddings kv groups"
    )
    assert set(design.split()) <= set(found)
    assert found["parameters"] == 134_515_008


def test_presets_list_every_model_with_its_source() -> None:
    listed = json.loads(workbench("presets", "--format", "json").stdout)
    assert {"qwen3-0.6b", "qwen3-1.7b", "smollm2-135m"} <= {preset["name"] for preset in listed["models"]}
    assert all(preset["source"] for presets in listed.values() for preset in presets)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_sweep_and_keeps_its_rows(number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("sweep", "smollm2-135m", "--prompts", "1", "--new-tokens", "4000", "--repeats", "1", "--device", "cpu"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("prompt 1:"):
            break
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    with Store() as store:
        assert store.run("last").status is RunStatus.INTERRUPTED


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(command("presets"), stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert ended.returncode == 0
    assert ended.stderr == ""
