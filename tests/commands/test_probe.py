"""`workbench probe` inside the test's process, mostly on a grid that measures nothing."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tests.commands.conftest import Workbench
from tests.fake_grid import MB, FakeGrid
from tests.models_on_disk import tiny_folder
from workbench.errors import SettingsError
from workbench.hardware.machine import this_machine
from workbench.runner import CancelToken
from workbench.runs.store import Store

KEYS = {"read_gb_s", "gemv_gb_s", "gemm_gflop_s", "load", "origin"}
READ_KEYS = {"best", "median", "by_kernel", "by_threads"}
LOAD_KEYS = {"other_cpu_percent", "steal_percent"}

Faking = Callable[..., None]


@pytest.fixture
def faking(monkeypatch: pytest.MonkeyPatch) -> Faking:
    """Puts a fake grid in the place of torch's."""

    def put(on_cell: Callable[[int], None] = lambda count: None, **changed: object) -> None:
        def open_grid(device: str, quick: bool, threads: Sequence[int], check: Callable[[], None]) -> FakeGrid:
            grid = FakeGrid(check, on_cell)
            for name, value in changed.items():
                setattr(grid, name, value)
            return grid

        monkeypatch.setattr("workbench.engines.probing.open_grid", open_grid)

    return put


def test_a_table_shows_every_grid_what_it_comes_to_and_the_box_meanwhile(workbench: Workbench, faking: Faking) -> None:
    faking()
    ended = workbench("probe")
    assert ended.code == 0
    assert "B read rate = 20.0 GB/s  [measured]" in ended.out
    assert ended.line("dot product  ")[1:4] == ["2", "20.0", "19.1"]
    assert ended.line("64.0")[-1] == "lives in the last-level cache"
    assert ended.line("150.0")[-1] == "lives partly in the last-level cache"
    assert ended.line("300.0")[-1] == "lives in memory"
    assert ended.line("copy ")[2] == "30.0"
    assert "bfloat16  1,024  200.0   198.0       3" in ended.out
    assert [ended.line(when)[0] for when in ("before", "during", "after")] == ["before", "during", "after"]
    assert "the first cell measured again, where it was farthest off: +0.0%" in ended.out
    assert "! Matrix-vector products in float32 read 7.00 GB/s, 35% of what memory gives" in ended.out
    assert "reading memory" in ended.err
    assert "reading memory" not in ended.out


def test_json_has_the_keys_that_scripts_rely_on(workbench: Workbench, faking: Faking) -> None:
    faking()
    ended = workbench("probe", "--format", "json")
    found = ended.json
    assert found.keys() >= KEYS
    assert found["read_gb_s"].keys() >= READ_KEYS
    assert found["load"].keys() >= LOAD_KEYS
    assert found["load"]["before"].keys() == found["load"]["after"].keys()
    assert found["read_gb_s"]["best"] == pytest.approx(20.0)
    assert found["read_gb_s"]["median"] == pytest.approx(20.0 / 1.045)
    assert found["read_gb_s"]["by_kernel"] == pytest.approx({"sum": 20.0, "dot product": 20.0})
    assert found["read_gb_s"]["by_threads"] == pytest.approx({"1": 11.0, "2": 20.0})
    assert found["read_gb_s"]["by_size"] == pytest.approx(
        {str(1 * MB): 90.0, str(64 * MB): 40.0, str(150 * MB): 22.0, str(300 * MB): 20.0}
    )
    assert found["read_gb_s"]["copy"] == pytest.approx(30.0)
    assert found["gemv_gb_s"] == pytest.approx({"float32": 7.0, "bfloat16": 7.0, "float16": 7.0})
    assert found["gemm_gflop_s"] == pytest.approx({"float32": 200.0, "bfloat16": 200.0, "float16": 200.0})
    assert found["gemm_gflop_s_by_rows"]["float32"] == pytest.approx({"1": 4.0, "8": 30.0, "1024": 200.0})
    assert (found["origin"], found["complete"], found["machine"]) == ("measured", True, str(this_machine()))
    assert len(found["cells"]) == 4 + 4 + 1 + 3 * 4


def test_csv_has_a_line_a_cell(workbench: Workbench, faking: Faking) -> None:
    faking()
    lines = workbench("probe", "--quick", "--format", "csv").csv
    assert [line["work"] for line in lines] == ["read", "read", "gemv", "gemm"]
    assert float(lines[0]["best"]) == pytest.approx(20e9)
    assert lines[3]["rows"] == "1024"


def test_a_probe_is_kept_and_is_this_machine_from_then_on(workbench: Workbench, faking: Faking) -> None:
    faking()
    assert workbench("probe").code == 0
    with Store() as store:
        (kept,) = store.calibrations(str(this_machine()))
    assert kept.read is not None
    assert kept.read.value == pytest.approx(20e9)
    ended = workbench("ceiling", "smollm2-135m", "--hardware", "this machine")
    assert "20.0 GB/s" in ended.out + ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("qwen3-0.6c",), "Did you mean qwen3-0.6b"),
        (("/nowhere/model",), "/nowhere/model"),
        (("--device", "abacus"), "There is no device named 'abacus'"),
        (("--device", "gpu"), "There is no device named 'gpu'"),
        (("--quik",), "--quick"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(workbench: Workbench, arguments: tuple[str, ...], message: str) -> None:
    ended = workbench("probe", *arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("device", ["cuda", "xpu", "mps"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(workbench: Workbench, device: str) -> None:
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this box has one")
    if getattr(torch, device, None) is not None and getattr(torch, device).is_available():
        pytest.skip("this box has one")
    ended = workbench("probe", "--device", device)
    assert ended.code == 2
    assert f"no {device} device here" in ended.err
    assert "It can use: cpu" in ended.err


def test_a_device_lost_on_the_way_is_a_failed_run(workbench: Workbench, faking: Faking) -> None:
    def lose(count: int) -> None:
        if count == 2:
            raise RuntimeError("the device was lost")

    faking(lose)
    ended = workbench("probe")
    assert ended.code == 1
    assert "the device was lost" in ended.err
    with Store() as store:
        assert store.calibrations(str(this_machine())) == []


def test_ctrl_c_keeps_what_was_read(workbench: Workbench, faking: Faking, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(count: int) -> None:
        if count == 5:
            os.kill(os.getpid(), signal.SIGINT)
            # The signal is handled in the main thread: wait for it to have asked the probe to stop.
            assert stopping.wait(60)

    def noted(self: CancelToken) -> None:
        cancel(self)
        stopping.set()

    stopping, cancel = threading.Event(), CancelToken.cancel
    monkeypatch.setattr(CancelToken, "cancel", noted)
    faking(interrupt)
    ended = workbench("probe", "--format", "json")
    assert ended.code == 130
    assert "what was read so far is kept" in ended.err
    assert (ended.json["complete"], len(ended.json["cells"])) == (False, 5)
    with Store() as store:
        (kept,) = store.calibrations(str(this_machine()))
    assert not kept.complete
    assert len(kept.cells) == 5


def test_without_memory_the_reader_is_told_why_there_is_no_read_rate(workbench: Workbench, faking: Faking) -> None:
    faking(array_bytes=150 * MB)
    ended = workbench("probe")
    assert ended.code == 0
    assert "B is not known: its 150 MB may lie in the last-level cache of 100 MB" in ended.out
    assert "GB now" in ended.out
    assert workbench("probe", "--format", "json").json["read_gb_s"]["best"] is None


def test_a_store_that_cannot_be_opened_is_told_before_anything_is_measured(
    workbench: Workbench, faking: Faking, data_folder: Path
) -> None:
    faking(lambda count: pytest.fail("it measured"))
    data_folder.write_text("a file where a folder should be")
    ended = workbench("probe")
    assert ended.code == 2
    assert "WORKBENCH_DATA" in ended.err


def test_a_store_that_fills_up_does_not_take_the_figures_along(
    workbench: Workbench, faking: Faking, monkeypatch: pytest.MonkeyPatch
) -> None:
    faking()
    execute = sqlite3.connect

    def full(*arguments: object, **settings: object) -> sqlite3.Connection:
        connection = execute(*arguments, **settings)  # type: ignore[call-overload]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
        return connection  # type: ignore[no-any-return]

    with Store():
        pass
    monkeypatch.setattr(sqlite3, "connect", full)
    ended = workbench("probe")
    assert ended.code == 2
    assert "full" in ended.err
    assert "B read rate = 20.0 GB/s" in ended.out


def test_a_small_real_probe_of_the_processor(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("workbench.engines.probing.array_bytes", lambda *_: 4 * MB)
    monkeypatch.setattr("workbench.engines.probing.last_level_cache_bytes", lambda: MB)
    model = tiny_folder(tmp_path / "tiny-llama")
    threads = torch.get_num_threads()
    ended = workbench("probe", model, "--quick", "--device", "cpu", "--format", "json")
    assert ended.code == 0, ended.err
    found = ended.json
    assert (found["model"], found["device"], found["complete"]) == ("tiny-llama", "cpu", True)
    assert found["read_gb_s"]["best"] > 0 or "B is not known" in " ".join(found["findings"])
    assert found["gemv_gb_s"].keys() == found["gemm_gflop_s"].keys() == {"float32"}
    assert found["cells"][0]["samples"] == 10
    assert found["drift"] is not None
    assert torch.get_num_threads() == threads


def test_a_device_error_is_of_settings(faking: Faking, workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> FakeGrid:
        raise SettingsError("Torch finds no such device here.")

    monkeypatch.setattr("workbench.engines.probing.open_grid", refuse)
    ended = workbench("probe")
    assert (ended.code, ended.out) == (2, "")
    assert "no such device" in ended.err
