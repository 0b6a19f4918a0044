"""llama.cpp embedded: its own server, started for one run on loopback, timed by its own clock."""

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.connection import Client
from workbench.engines.endpoint.endpoint_model import EndpointModel
from workbench.engines.endpoint.key import ENVIRONMENT, Key
from workbench.engines.endpoint.server import find_server
from workbench.engines.engine import BatchTiming, BoxRates, Host, PointError, RequestTiming
from workbench.engines.llama_cpp.file_rates import FileRates
from workbench.engines.llama_cpp.timed_file import LOOK_S, SPARE_TOKENS, STOP_S, TimedFile, labels_of, rates_of
from workbench.errors import ModelError, SettingsError
from workbench.experiments.batch_plan import BatchPlan
from workbench.experiments.engine_settings import COMPLETIONS, LLAMA_CPP, EndpointSettings
from workbench.experiments.plan import LoadPlan, Plan
from workbench.hardware.machine import usable_cores
from workbench.paths import log_file
from workbench.runner import CancelToken
from workbench.runs.measured_device import ASSUMED_READ, assumed_compute

SLOT_TOKENS = 256
"""llama.cpp rounds the tokens of a slot up to a multiple of this."""
START_S = 300.0
"""Until a server that says nothing is given up: a large file on a slow disk takes minutes."""
SILENT_S = 600.0
"""Of a prefill no token comes, however long it takes; a server that died closes its connection."""


@dataclass(frozen=True)
class _Started:
    process: "subprocess.Popen[bytes]"
    address: str
    sequences: int


def load_llama_cpp(planned: LoadPlan, cancel: CancelToken) -> "LlamaCppModel":
    """Start llama.cpp's server on the plan's file.

    Raises SettingsError where the package is missing, ModelError where llama.cpp can't load the file.
    """
    if find_spec("xllamacpp") is None:
        raise SettingsError(
            "llama.cpp is not installed here. Install it with `pip install 'inference-workbench[llamacpp]'`, or name "
            "the engine transformers, or the --endpoint of a server that runs already."
        )
    key = Key(secret := secrets.token_urlsafe(24))
    started = _start(planned, secret, cancel)
    try:
        address = parse_address(started.address)
        client = Client(address, key, SILENT_S)
        server = find_server(client, address, "", cancel)
        settings = EndpointSettings(url=str(address), api=COMPLETIONS, cache_type=planned.settings.llama_cpp.cache_k)
        labels = labels_of(planned, LLAMA_CPP, f"xllamacpp {_version()}", Host(process=started.process.pid))
        # On a machine whose cores all compute, a chunk a token costs the server and its reader some per cent of a step.
        stand_in = BoxRates(ASSUMED_READ, assumed_compute(1))
        asked = EndpointModel(
            planned.resident, settings, address, client, server, key, labels, stand_in, is_streamed=False
        )
        return LlamaCppModel(asked, started, rates_of(planned, labels.threads))
    except BaseException:
        _stop(started.process)
        raise


def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("xllamacpp")
    return "of unknown version"


def _start(planned: LoadPlan, secret: str, cancel: CancelToken) -> _Started:
    """The server's process and its address, once it has loaded the file."""
    sequences, longest = _asked(planned)
    told = _told(planned, secret, sequences, longest)
    log_file().parent.mkdir(parents=True, exist_ok=True)
    package_root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop(ENVIRONMENT, None)
    with log_file().open("ab") as errors:
        # A session of its own: ctrl+c is for the workbench, which then ends it.
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench.engines.llama_cpp.server_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
        return _Started(process, _address(process, planned.model.name, cancel), sequences)
    except BaseException:
        _stop(process)
        raise


def _told(planned: LoadPlan, secret: str, sequences: int, longest: int) -> dict[str, object]:
    """What the server's process is to run: caches of so many sequences, each of the longest one's tokens."""
    settings = planned.settings
    return {
        "path": str(planned.model.path),
        "key": secret,
        "threads": settings.threads or usable_cores(),
        "batch_tokens": settings.llama_cpp.batch_tokens,
        "micro_batch_tokens": settings.llama_cpp.micro_batch_tokens,
        "cache_k": settings.llama_cpp.cache_k,
        "cache_v": settings.llama_cpp.cache_v,
        "gpu_layers": settings.llama_cpp.gpu_layers,
        "sequences": sequences,
        "context": -(-(longest + SPARE_TOKENS) // SLOT_TOKENS) * SLOT_TOKENS,
    }


def _asked(planned: LoadPlan) -> tuple[int, int]:
    """The most sequences at once for whose caches there is memory, and the most tokens one of them comes to hold."""
    match planned:
        case BatchPlan():
            settings, context = planned.settings, max(planned.settings.contexts)
            beside_loaded = planned.available - planned.need.weights - planned.need.engine
            most = max(1, min(max(settings.batches), planned.largest_batch(context, beside_loaded)))
            return most, settings.longest(context) + settings.new_tokens
        case Plan():
            return 1, max(planned.settings.prompts) + planned.settings.new_tokens
        case _:
            raise SettingsError("llama.cpp's pass can't be taken apart; `workbench gap --run RUN` reads its rows.")


def _address(process: "subprocess.Popen[bytes]", name: str, cancel: CancelToken) -> str:
    """Where it listens, once it says so; ModelError with its reason where it doesn't."""
    assert process.stdout is not None
    began = time.monotonic()
    while not select.select([process.stdout], [], [], LOOK_S)[0]:
        cancel.check()
        if time.monotonic() - began > START_S:
            raise ModelError(f"llama.cpp did not load {name} within {START_S:.0f} s. The details are in {log_file()}.")
    line = process.stdout.readline()
    try:
        said = json.loads(line)
    except ValueError:
        said = {"error": f"it ended with exit code {process.wait(STOP_S)}"}
    if "address" not in said:
        reason = str(said.get("error")).rstrip(".")
        raise ModelError(f"llama.cpp can't load {name}: {reason}. The details are in {log_file()}.")
    return str(said["address"])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the server, politely first."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


class LlamaCppModel(TimedFile):
    """A GGUF in llama.cpp's server on this machine, asked as an endpoint is; its memory and load are the run's own."""

    def __init__(self, asked: EndpointModel, started: _Started, rates: FileRates) -> None:
        super().__init__(asked.model, asked.labels, rates)
        self._asked = asked
        self._process = started.process
        self._sequences = started.sequences

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        """Draw the next request's tokens."""
        self._asked.prepare(prompt_tokens, seed)

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        """One request."""
        self._check_alive()
        return self._asked.request(new_tokens, cancel)

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        """Prefill each sequence in a slot of its own, then decode them all together, each from its own cache.

        Asked in one go the first would decode while the last are prefilled, and no step would be of them all.
        """
        self._check_alive()
        if len(lengths) > self._sequences:
            raise PointError(f"out of memory for its caches: llama.cpp was started for {self._sequences:,} sequences")
        prompts = self._asked.new_prompts(lengths, seed, cancel)
        slots = [{"id_slot": i, "cache_prompt": True} for i in range(len(prompts))]
        at_once = [0.0] * len(prompts)
        filled, _ = self._asked.exchanged(prompts, 1, at_once, cancel, slots)
        prefill_s = max(answer.last_s for answer in filled) - min(answer.sent_s for answer in filled)
        answers, _ = self._asked.exchanged(prompts, steps + 1, at_once, cancel, slots)
        if any(answer.tokens < 2 for answer in answers):
            raise PointError("llama.cpp gave no steps to time")
        # The server tells the steps of a sequence together: a pass is one sample of what a step takes.
        step_s = median((answer.server.decode_s or 0.0) / (answer.tokens - 1) for answer in answers)
        return BatchTiming(prefill_s, (step_s,))

    def _check_alive(self) -> None:
        if (code := self._process.poll()) is not None:
            raise PointError(f"llama.cpp's server ended with exit code {code}; the details are in {log_file()}")

    def close(self) -> None:
        """Stop the server and free what it held."""
        self._asked.close()
        super().close()
        _stop(self._process)
