"""Which engine runs a model, and what is set for each of them beside the settings that all have."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.engines.endpoint.address import parse_address
from workbench.errors import SettingsError, unknown_name
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE, cache_type
from workbench.paths import expanded

TRANSFORMERS, LLAMA_CPP, LLAMA_BENCH, ENDPOINT = "transformers", "llama.cpp", "llama-bench", "endpoint"
ENGINES = (TRANSFORMERS, LLAMA_CPP, LLAMA_BENCH, ENDPOINT)
AUTO, COMPLETIONS, CHAT = "auto", "completions", "chat"
APIS = (AUTO, COMPLETIONS, CHAT)
BENCH_PROGRAMS = ("llama-bench", "llama-batched-bench")
"""One times a prompt and its steps, the other several sequences together; both lie in one folder."""
LLAMA_CPP_CACHES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
"""The types of a cache that llama.cpp has, as it calls them."""


@dataclass(frozen=True)
class EndpointSettings:
    """A server's address, the model's name there, and what it runs on where that is known.

    `hardware` names a device of the presets, of which `devices` read together. The requests of a batch are sent all at
    once, or at `rate` a second. Those within both limits count as good. A server silent for `timeout_s` has failed.
    """

    url: str = ""
    served_model: str = ""
    api: str = AUTO
    hardware: str = ""
    devices: int = 1
    cache_type: str = DEFAULT_CACHE_TYPE
    timeout_s: float = 60.0
    rate: float | None = None
    ttft_limit_ms: float | None = None
    tpot_limit_ms: float | None = None


@dataclass(frozen=True)
class LlamaCppSettings:
    """What llama.cpp is started with: tokens of a batch and of what is computed at once, the cache's types, and layers.

    `gpu_layers` None leaves them to llama.cpp. `program` is llama-bench or its folder; empty where PATH has it.
    """

    batch_tokens: int = 2048
    micro_batch_tokens: int = 512
    cache_k: str = "f16"
    cache_v: str = "f16"
    gpu_layers: int | None = None
    program: str = ""

    @property
    def cache_label(self) -> str:
        """The element types of the cache."""
        return f"{self.cache_k} cache" if self.cache_k == self.cache_v else f"{self.cache_k}/{self.cache_v} cache"

    @property
    def cache_element_bytes(self) -> float:
        """Bytes of an element, keys and values together halved."""
        return (CACHE_TYPE_BYTES[cache_type(self.cache_k)] + CACHE_TYPE_BYTES[cache_type(self.cache_v)]) / 2

    @property
    def words(self) -> str:
        """What a row's label adds to the version."""
        layers = "" if self.gpu_layers is None else f", {self.gpu_layers} layers on the accelerator"
        return f"batch {self.batch_tokens}/{self.micro_batch_tokens}{layers}"


def check_engine(engine: str, endpoint: EndpointSettings, llama_cpp: LlamaCppSettings) -> None:
    """Raise SettingsError for an engine that isn't known, or settings of the chosen one that can't be."""
    if engine not in ENGINES:
        raise SettingsError(unknown_name("engine", engine, ENGINES))
    if engine == ENDPOINT:
        _check_endpoint(endpoint)
    elif engine != TRANSFORMERS:
        _check_llama_cpp(llama_cpp)
    if engine == LLAMA_BENCH:
        bench_program(llama_cpp.program, BENCH_PROGRAMS[0])


def _check_endpoint(endpoint: EndpointSettings) -> None:
    parse_address(endpoint.url)
    cache_type(endpoint.cache_type)
    if endpoint.api not in APIS:
        raise SettingsError(unknown_name("API", endpoint.api, APIS))
    if endpoint.devices < 1:
        raise SettingsError(f"The number of devices is {endpoint.devices}; it must be at least 1.")
    if endpoint.devices > 1 and not endpoint.hardware:
        raise SettingsError("Several devices have a bandwidth only where one is named: add --hardware NAME.")
    figures: Mapping[str, Any] = {
        "The time-out": endpoint.timeout_s,
        "The rate of arrivals": endpoint.rate,
        "The limit of TTFT": endpoint.ttft_limit_ms,
        "The limit of TPOT": endpoint.tpot_limit_ms,
    }
    for name, value in figures.items():
        if value is not None and not 0 < value < 1e9:
            raise SettingsError(f"{name} is {value:g}; it must be above zero, and no more than a person waits.")


def _check_llama_cpp(settings: LlamaCppSettings) -> None:
    for kind in (settings.cache_k, settings.cache_v):
        if kind not in LLAMA_CPP_CACHES:
            raise SettingsError(unknown_name("cache type of llama.cpp", kind, LLAMA_CPP_CACHES))
    if not 1 <= settings.micro_batch_tokens <= settings.batch_tokens <= 1 << 20:
        raise SettingsError(
            f"llama.cpp computes {settings.micro_batch_tokens} tokens at once of a batch of {settings.batch_tokens}; "
            "both must be at least 1, the first no larger than the second."
        )
    if settings.gpu_layers is not None and not 0 <= settings.gpu_layers <= 100_000:
        raise SettingsError(f"The layers on the accelerator are {settings.gpu_layers}; they must be at least 0.")


def bench_program(named: str, program: str) -> Path:
    """The path of llama-bench or llama-batched-bench: as named, beside the one named, or on the PATH.

    Raises SettingsError where there is none.
    """
    if not named:
        if (found := shutil.which(program)) is None:
            raise SettingsError(
                f"There is no {program} on the PATH. llama.cpp builds it: name it, or its folder, with --llama-bench."
            )
        return Path(found)
    path = expanded(Path(named))
    if not path.exists():
        raise SettingsError(f"There is no {program} at {path}: nothing is there. Name the program or its folder.")
    folder = path if path.is_dir() else path.parent
    ending = path.suffix if path.suffix == ".exe" else ""
    found_path = path if path.is_file() and path.stem == program else folder / f"{program}{ending}"
    if not found_path.is_file():
        raise SettingsError(f"There is no {program} at {found_path}. Name the program or its folder.")
    return found_path
