"""llama-bench and llama-batched-bench, played by a script that prints what they printed for a real file."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.models_on_disk import smollm2_gguf
from workbench.cli import main
from workbench.engines.engine import load_engine
from workbench.errors import SettingsError
from workbench.experiments.batch import batch_sweep
from workbench.experiments.engine_settings import LlamaCppSettings
from workbench.experiments.events import Finished, PointFailed, RowMeasured
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken
from workbench.runs.row import Row
from workbench.runs.run import RunStatus

PREFILL = (
    '{"build_commit": "b3e1f0a", "build_number": 7001, "cpu_info": "AMD EPYC", "gpu_info": "", "backends": "CPU", '
    '"model_filename": "smol.gguf", "model_type": "llama 256M Q4_1", "model_size": 96576768, "model_n_params": '
    '134515008, "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "type_k": "f16", "type_v": "f16", "n_gpu_layers": '
    '-1, "n_prompt": 16, "n_gen": 0, "n_depth": 0, "test_time": "2026-11-29T12:45:32Z", "avg_ns": 55731805, '
    '"stddev_ns": 6812453, "avg_ts": 289.815684, "stddev_ts": 33.482932, '
    '"samples_ns": [ 53099300, 63467708, 50628408 ],"samples_ts": [ 301.322, 252.097, 316.028 ]}'
)
STEPS_NS = [80_000_000, 84_000_000, 88_000_000]
BATCHED = (
    '{"n_kv_max": 4096, "n_batch": 2048, "n_ubatch": 512, "flash_attn": -1, "is_pp_shared": 0, "n_gpu_layers": -1, '
    '"n_threads": 2, "n_threads_batch": 2, "pp": 64, "tg": 16, "pl": 4, "n_kv": 320, "t_pp": 0.713106, '
    '"speed_pp": 358.992920, "t_tg": 0.317053, "speed_tg": 201.859009, "t": 1.030159, "speed": 310.631653}'
)
SCRIPT = """#!{python}
import json, os, pathlib, sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with (pathlib.Path(__file__).parent / "asked").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
assert "WORKBENCH_API_KEY" not in os.environ
print("load_backend: loaded CPU backend", file=sys.stderr)
if asked.get("-p") == "13" or asked.get("-npl") == "13":
    print("main: error: failed to create context", file=sys.stderr)
    raise SystemExit(1)
if asked.get("-p") == "14":
    print("nothing of use")
    raise SystemExit(0)
record = json.loads({record!r})
if "-npl" in asked:
    b, n, k = (int(asked[name]) for name in ("-npl", "-npp", "-ntg"))
    record.update(pl=b, pp=n, tg=k, n_kv=b * (n + k))
    record.update(t_tg=0.010 * k, speed_tg=b * k / (0.010 * k), t_pp=0.5, speed_pp=b * n / 0.5)
elif asked["-p"] == "0":
    ns = {steps!r}
    record.update(n_prompt=0, n_gen=int(asked["-n"]), n_depth=int(asked["-d"]), samples_ns=ns, avg_ns=sum(ns) / 3)
    record.pop("samples_ts"); record.pop("avg_ts")
else:
    n = int(asked["-p"])
    rates = [n * 1e9 / ns for ns in record["samples_ns"]]
    record.update(n_prompt=n, samples_ts=rates, avg_ts=n * 1e9 / record["avg_ns"])
print(json.dumps(record))
"""


FAULTY = """#!{python}
import os, pathlib, signal, subprocess, sys, time
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = pathlib.Path(__file__).parent
n = asked.get("-p") if asked.get("-p", "0") != "0" else asked.get("-d", asked.get("-npl"))
fault = {faults!r}.get(n)
if fault == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "hanging").write_text(f"{{os.getpid()}} {{child.pid}}")
    (folder / "hanging").rename(folder / "hangs")
    time.sleep(600)
if fault == "half":
    print('{{"n_prompt": 16, "n_gen": 0, "avg_ns": 557318')
    print("ggml: out of memory", file=sys.stderr)
    raise SystemExit(1)
if fault == "dies":
    print("loading", file=sys.stderr)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
if fault == "rubbish":
    sys.stdout.buffer.write(bytes(range(256)) * 3)
    raise SystemExit(0)
if fault == "much":
    sys.stderr.write("warning: " * 20000)
os.execv(str(folder / "sound" / pathlib.Path(__file__).name), sys.argv)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, record in (("llama-bench", PREFILL), ("llama-batched-bench", BATCHED)):
        path = tmp_path / name
        path.write_text(SCRIPT.format(python=sys.executable, record=record, steps=STEPS_NS))
        path.chmod(0o755)
    return tmp_path


def rows(seen: object) -> list[Row]:
    return [event.row for event in seen if isinstance(event, RowMeasured | PointFailed)]  # type: ignore[attr-defined]


def settings(folder: Path, prompts: Sequence[int]) -> SweepSettings:
    return SweepSettings(
        model=str(smollm2_gguf()),
        engine="llama-bench",
        llama_cpp=LlamaCppSettings(program=str(folder), cache_v="q8_0"),
        prompts=tuple(prompts),
        new_tokens=9,
        repeats=3,
        threads=2,
    )


def test_a_point_has_its_repeats_from_one_run_of_each_phase(programs: Path) -> None:
    events = list(sweep(settings(programs, [16]), load_engine, TimedWindow())(CancelToken()))
    (measured,) = [event for event in events if isinstance(event, RowMeasured)]
    row = measured.row
    assert (row.engine, row.engine_version) == ("llama-bench", "b7001 (b3e1f0a), batch 2048/512")
    assert (row.quantisation, row.dtype, row.threads) == ("Q4_1", "f16/q8_0 cache", 2)
    every = sorted((*measured.samples.ttft_s, *measured.samples.dropped_ttft_s))
    assert set(every) == {0.0530993, 0.063467708, 0.050628408}
    assert row.ttft_ms == pytest.approx(50.628408)
    assert row.tpot_ms == pytest.approx(10.0)
    assert row.weight_bytes == 96_576_768
    asked = (programs / "asked").read_text().splitlines()
    assert any("-p 16 -n 0" in line and "-ctv q8_0" in line and "-t 2" in line for line in asked)
    assert any("-p 0 -n 8 -d 16" in line for line in asked)


def test_a_point_that_fails_is_a_row_with_the_program_s_own_words(programs: Path) -> None:
    found = rows(sweep(settings(programs, [13, 14, 16]), load_engine, TimedWindow())(CancelToken()))
    assert "exit code 1: main: error: failed to create context" in found[0].status
    assert "printed no result" in found[1].status
    assert found[2].status == "ok"


def faulty(programs: Path, faults: Mapping[str, str]) -> Path:
    """The programs in a folder where some points go wrong."""
    sound = programs / "sound"
    sound.mkdir()
    for name in ("llama-bench", "llama-batched-bench"):
        (programs / name).rename(sound / name)
        (programs / name).write_text(FAULTY.format(python=sys.executable, faults=dict(faults)))
        (programs / name).chmod(0o755)
    return programs


def test_each_way_a_program_goes_wrong_is_a_row_with_its_reason_and_the_others_are_kept(programs: Path) -> None:
    faults = {"20": "half", "21": "dies", "22": "rubbish", "23": "much"}
    folder = faulty(programs, faults)
    found = rows(sweep(settings(folder, [16, 20, 21, 22, 23]), load_engine, TimedWindow())(CancelToken()))
    reasons = {row.prompt_tokens: row.status for row in found}
    assert reasons[20] == "failed: llama-bench ended with exit code 1: ggml: out of memory"
    assert reasons[21] == "failed: llama-bench was ended by signal 9: loading"
    assert reasons[22].startswith("failed: llama-bench printed no result")
    assert reasons[22].isprintable()
    assert (reasons[16], reasons[23]) == ("ok", "ok")


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_program_that_hangs_is_ended_with_all_it_started_when_the_run_is(programs: Path, is_batch: bool) -> None:
    folder = faulty(programs, {"24": "hangs"})
    asked = settings(folder, [16, 24])
    several = BatchSettings(
        model=asked.model, engine=asked.engine, llama_cpp=asked.llama_cpp, contexts=(64,), batches=(1, 24), steps=16
    )
    cancel = CancelToken()

    def stop() -> None:
        appears(folder / "hangs")
        cancel.cancel()

    stopping = threading.Thread(target=stop)
    stopping.start()
    if is_batch:
        seen = list(batch_sweep(replace(several, repeats=1), load_engine, TimedWindow())(cancel))
    else:
        seen = list(sweep(asked, load_engine, TimedWindow())(cancel))
    stopping.join()
    assert [row.status for row in rows(seen)] == ["ok"]
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert finished.status is RunStatus.INTERRUPTED
    assert still_alive(folder) == []


def test_a_program_does_not_outlive_a_workbench_that_is_killed(programs: Path) -> None:
    folder = faulty(programs, {"24": "hangs"})
    command = [sys.executable, "-m", "workbench", "sweep", str(smollm2_gguf()), "--llama-bench", str(folder)]
    with subprocess.Popen([*command, "--prompts", "24"], stdout=subprocess.DEVNULL) as workbench:
        appears(folder / "hangs")
        workbench.kill()
    assert still_alive(folder) == []


def test_a_program_that_is_none_fails_its_points_with_the_reason(programs: Path) -> None:
    program = programs / "llama-bench"
    program.write_bytes(b"\x7fELF cut short")
    (row,) = rows(sweep(settings(programs, [16]), load_engine, TimedWindow())(CancelToken()))
    assert f"{program} can't be run: Exec format error" in row.status


def still_alive(folder: Path) -> list[psutil.Process]:
    """What is left, some seconds later, of the program that hung and of what it started."""
    left = [psutil.Process(int(pid)) for pid in (folder / "hangs").read_text().split() if psutil.pid_exists(int(pid))]
    _, alive = psutil.wait_procs(left, timeout=10)
    return alive


def appears(path: Path) -> None:
    """Wait for a file that another process makes."""
    while not path.exists():
        os.sched_yield()


def test_several_sequences_are_timed_by_its_sister(programs: Path) -> None:
    asked = BatchSettings(
        model=str(smollm2_gguf()),
        engine="llama-bench",
        llama_cpp=LlamaCppSettings(program=str(programs / "llama-bench")),
        contexts=(64,),
        batches=(1, 4, 13),
        steps=16,
        repeats=1,
    )
    found = rows(batch_sweep(asked, load_engine, TimedWindow())(CancelToken()))
    assert [row.status for row in found[:2]] == ["ok", "ok"]
    assert found[1].step_ms == pytest.approx(10.0)
    assert found[1].total_tokens_per_s == pytest.approx(400.0)
    assert "failed to create context" in found[2].status
    mixed = rows(batch_sweep(replace(asked, mixed=True, batches=(4,)), load_engine, TimedWindow())(CancelToken()))
    assert "one length only" in mixed[0].status


def test_programs_are_found_on_the_path_or_the_way_to_them_is_told(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(smollm2_gguf())
    command = ["sweep", model, "--engine", "llama-bench", "--prompts", "16", "--repeats", "1", "--format", "json"]
    monkeypatch.setenv("PATH", str(programs))
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)[0]["engine"] == "llama-bench"
    monkeypatch.setenv("PATH", str(programs / "nowhere"))
    assert main(command) == 2
    assert "no llama-bench on the PATH" in capsys.readouterr().err


def test_a_program_that_is_not_where_it_is_named_is_refused(programs: Path) -> None:
    with pytest.raises(SettingsError, match="There is no llama-bench at"):
        list(sweep(settings(programs / "other", [16]), load_engine, TimedWindow())(CancelToken()))
