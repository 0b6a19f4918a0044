"""llama.cpp embedded, on the real file: rows by the server's own clock, and a server that ends with its run."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from tests.models_on_disk import smollm2_gguf, tiny_folder
from workbench.engines.endpoint.endpoint_model import load_endpoint
from workbench.engines.endpoint.key import Key
from workbench.engines.engine import LoadedModel, load_engine
from workbench.engines.llama_cpp import embedded
from workbench.errors import ModelError, SettingsError
from workbench.experiments.batch import batch_sweep
from workbench.experiments.engine_settings import EndpointSettings, LlamaCppSettings
from workbench.experiments.events import PointFailed, RowMeasured
from workbench.experiments.plan import LoadPlan, plan
from workbench.experiments.prefill_decode import sweep
from workbench.experiments.settings import BatchSettings, SweepSettings
from workbench.experiments.window import TimedWindow
from workbench.models.resolve import resolve
from workbench.runner import CancelToken
from workbench.runs.row import Row

pytestmark = pytest.mark.skipif(
    find_spec("xllamacpp") is None, reason="xllamacpp is not installed: pip install 'inference-workbench[llamacpp]'"
)
ENDS_S = 10.0


def settings() -> SweepSettings:
    return SweepSettings(
        model=str(smollm2_gguf()), engine="llama.cpp", prompts=(4, 40), new_tokens=5, repeats=1, threads=1
    )


def several() -> BatchSettings:
    return BatchSettings(
        model=str(smollm2_gguf()), engine="llama.cpp", contexts=(16,), batches=(1, 3), steps=3, repeats=1, threads=1
    )


def rows(seen: object) -> list[Row]:
    return [event.row for event in seen if isinstance(event, RowMeasured | PointFailed)]  # type: ignore[attr-defined]


def kept(made: list[LoadedModel]) -> object:
    def load(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
        made.append(load_engine(planned, cancel))
        return made[-1]

    return load


def test_a_sweep_has_exact_prompts_no_cache_its_labels_and_the_file_s_own_ceiling() -> None:
    made: list[LoadedModel] = []
    found = rows(sweep(settings(), kept(made), TimedWindow())(CancelToken()))  # type: ignore[arg-type]
    assert [row.status for row in found] == ["ok", "ok"]
    for row, n in zip(found, (4, 40), strict=True):
        assert (row.prompt_tokens, row.cached_tokens, row.timed_by) == (n, 0, "the server's clock")
        assert "prompt tokens where" not in row.flags
        assert "tokens where 5 were asked" not in row.flags
        assert (row.engine, row.quantisation, row.dtype, row.threads) == ("llama.cpp", "Q4_1", "f16 cache", 1)
        assert row.engine_version.startswith("xllamacpp ")
        assert row.weight_bytes == resolve(str(smollm2_gguf())).read_bytes_per_token
        assert (row.ceiling_basis or "").startswith("measured: the read rate around this point")
        assert (row.end_to_end_ms or 0) >= (row.ttft_ms or 0) + 4 * (row.tpot_ms or 0) > 0
        assert (row.client_ttft_ms, row.client_tpot_ms) == (None, None)
        assert (row.ttft_ms or 0) > 0
    process = made[0].labels.host.process
    assert process is not None
    assert not psutil.pid_exists(process)


def test_a_batch_decodes_all_its_sequences_together() -> None:
    found = rows(batch_sweep(several(), load_engine, TimedWindow())(CancelToken()))
    assert [(row.status, row.batch, row.repeats) for row in found] == [("ok", 1, 1), ("ok", 3, 1)]
    assert all((row.prefill_ms or 0) > 0 and (row.step_ms or 0) > 0 for row in found)
    assert (found[1].bytes_per_step or 0) > (found[0].bytes_per_step or 0)


def test_a_server_that_dies_fails_what_is_left_and_no_more() -> None:
    made: list[LoadedModel] = []
    seen = iter(sweep(settings(), kept(made), TimedWindow())(CancelToken()))  # type: ignore[arg-type]
    first = next(event for event in seen if isinstance(event, RowMeasured))
    process = made[0].labels.host.process
    assert process is not None
    psutil.Process(process).kill()
    (second,) = rows(list(seen))
    assert first.row.status == "ok"
    assert second.status.startswith("failed: ")


def test_a_server_does_not_outlive_a_workbench_that_is_killed() -> None:
    command = [sys.executable, "-m", "workbench", "sweep", str(smollm2_gguf()), "--engine", "llama.cpp"]
    command += ["--prompts", "4,8,16,32,64,128", "--repeats", "5", "--threads", "1", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        # Its heading is written with the first row: the server runs.
        assert parent.stdout.readline().startswith("run_id")
        servers = psutil.Process(parent.pid).children()
        parent.kill()
    assert servers
    _, alive = psutil.wait_procs(servers, timeout=ENDS_S)
    assert alive == []


def test_a_server_does_not_outlive_a_workbench_that_is_killed_while_it_loads(tmp_path: Path) -> None:
    os.mkfifo(never_read := tmp_path / "model.gguf")
    told = embedded._told(plan(settings()), "a key", 1, 64) | {"path": str(never_read)}
    command = [sys.executable, "-m", "workbench.engines.llama_cpp.server_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as server:
        assert server.stdin is not None
        server.stdin.write(json.dumps(told).encode() + b"\n")
        server.stdin.flush()
        # Once it is opened for writing too the server waits for the first bytes of the file.
        with never_read.open("wb"):
            server.stdin.close()
            assert server.wait(ENDS_S) == -signal.SIGKILL


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_it_answers_as_an_endpoint_of_either_api(api: str) -> None:
    planned = plan(settings())
    secret = "a-key-of-this-test"
    started = embedded._start(planned, secret, CancelToken())
    try:
        asked = SweepSettings(
            model=str(smollm2_gguf()),
            engine="endpoint",
            endpoint=EndpointSettings(url=started.address, api=api),
            prompts=(40,),
            new_tokens=5,
            repeats=1,
        )

        def load(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
            return load_endpoint(planned, cancel, Key(secret))

        (row,) = rows(sweep(asked, load, TimedWindow())(CancelToken()))
        refused = replace(asked, endpoint=replace(asked.endpoint, url=started.address))
        with pytest.raises(SettingsError, match="refuses the key"):
            list(sweep(refused, load_engine, TimedWindow())(CancelToken()))
    finally:
        embedded._stop(started.process)
    assert (row.status, row.engine, row.timed_by) == ("ok", "llama.cpp server", "the server's clock")
    assert "tokens where 5 were asked" not in row.flags
    assert row.cached_tokens == 0


def test_what_llama_cpp_can_t_load_is_said_before_anything_is_timed(tmp_path: Path) -> None:
    asked = replace(settings(), llama_cpp=LlamaCppSettings(cache_k="f16", cache_v="q4_0", micro_batch_tokens=64))
    broken = tmp_path / "broken.gguf"
    data = smollm2_gguf().read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError):
        list(sweep(replace(asked, model=str(broken)), load_engine, TimedWindow())(CancelToken()))


def test_a_folder_is_no_gguf_and_is_refused(tmp_path: Path) -> None:
    asked = replace(settings(), model=str(tiny_folder(tmp_path / "tiny")))
    with pytest.raises(SettingsError, match="no GGUF file"):
        list(sweep(asked, load_engine, TimedWindow())(CancelToken()))


def test_without_its_package_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"inference-workbench\[llamacpp\]"):
        list(sweep(settings(), load_engine, TimedWindow())(CancelToken()))
