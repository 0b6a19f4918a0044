"""The options that choose an engine and set it: --engine, --endpoint, --llama-bench and what belongs to each."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from getpass import getpass
from typing import Any

from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.key import Key
from workbench.errors import SettingsError
from workbench.experiments.engine_settings import (
    ENDPOINT,
    LLAMA_BENCH,
    LLAMA_CPP,
    TRANSFORMERS,
    EndpointSettings,
    LlamaCppSettings,
)

OF_ENDPOINT: Mapping[str, str] = {
    "api": "--api",
    "model_behind": "--model-behind",
    "hardware": "--hardware",
    "devices": "--devices",
    "cache_type": "--cache-type",
    "timeout": "--timeout",
    "rate": "--rate",
    "ttft_limit": "--ttft-limit",
    "tpot_limit": "--tpot-limit",
    "ask_key": "--ask-key",
}
OF_LLAMA_CPP: Mapping[str, str] = {
    "batch_tokens": "--batch-tokens",
    "micro_batch_tokens": "--micro-batch-tokens",
    "cache_type_k": "--cache-type-k",
    "cache_type_v": "--cache-type-v",
    "gpu_layers": "--gpu-layers",
}
"""The option of each name that belongs to one engine only."""


def engine_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of run settings that the options choose, the model among them.

    Raises SettingsError for options of different engines, and where no model is named for an engine that loads one.
    """
    engine = _engine(options)
    _refuse_others(options, OF_ENDPOINT, engine == ENDPOINT, "--endpoint URL")
    _refuse_others(options, OF_LLAMA_CPP, engine in (LLAMA_CPP, LLAMA_BENCH), "--engine llama.cpp or llama-bench")
    if engine == ENDPOINT:
        return {"engine": engine, "model": options.model_behind or "", "endpoint": _endpoint(options)}
    if options.model is None:
        raise SettingsError("Name the model to measure: a model folder, a .gguf file or a preset.")
    chosen = {"engine": engine, "model": options.model}
    return chosen if engine == TRANSFORMERS else chosen | {"llama_cpp": _llama_cpp(options)}


def asked_key(options: argparse.Namespace) -> Key | None:
    """The key that a person types unseen; None where none is asked for, and that of the environment serves."""
    if not getattr(options, "ask_key", None):
        return None
    if not sys.stdin.isatty():
        raise SettingsError("--ask-key asks at a terminal, and there is none. Set WORKBENCH_API_KEY instead.")
    return Key(getpass(f"key of {parse_address(options.endpoint)} (not shown): "))


def _engine(options: argparse.Namespace) -> str:
    """The engine that is named, or that another option implies."""
    implied = ENDPOINT if options.endpoint is not None else LLAMA_BENCH if options.llama_bench is not None else None
    named: str | None = options.engine
    if named is not None and implied not in (None, named):
        raise SettingsError(f"--engine {named} and the option for {implied} exclude each other; leave one out.")
    if named == ENDPOINT and options.endpoint is None:
        raise SettingsError("The engine endpoint needs the address of its server: --endpoint URL.")
    return named or implied or TRANSFORMERS


def _refuse_others(options: argparse.Namespace, names: Mapping[str, str], is_chosen: bool, needs: str) -> None:
    given = [option for name, option in names.items() if getattr(options, name, None) not in (None, False)]
    if given and not is_chosen:
        raise SettingsError(f"{given[0]} needs {needs}.")


def _endpoint(options: argparse.Namespace) -> EndpointSettings:
    chosen = EndpointSettings(
        url=str(parse_address(options.endpoint)),
        served_model=options.model or "",
        hardware=options.hardware or "",
        rate=getattr(options, "rate", None),
        ttft_limit_ms=getattr(options, "ttft_limit", None),
        tpot_limit_ms=getattr(options, "tpot_limit", None),
    )
    given = {
        "api": options.api,
        "devices": options.devices,
        "cache_type": options.cache_type,
        "timeout_s": options.timeout,
    }
    return replace(chosen, **{name: value for name, value in given.items() if value is not None})


def _llama_cpp(options: argparse.Namespace) -> LlamaCppSettings:
    given = {
        "batch_tokens": options.batch_tokens,
        "micro_batch_tokens": options.micro_batch_tokens,
        "cache_k": options.cache_type_k,
        "cache_v": options.cache_type_v,
        "gpu_layers": options.gpu_layers,
        "program": options.llama_bench,
    }
    return LlamaCppSettings(**{name: value for name, value in given.items() if value is not None})
