"""The element types a KV cache may have, and their bytes an element."""

from collections.abc import Mapping

from workbench.errors import SettingsError, unknown_name
from workbench.models.model import DTYPE_BYTES

DEFAULT_CACHE_TYPE = "float16"

STATE_BYTES = 2.0
"""Least bytes of an element of a recurrent layer's fixed state: engines don't quantise it with the cache."""

# Block types hold 32 elements and their scales. Source: ggml's block structures; fp8 as vLLM's cache has it.
CACHE_TYPE_BYTES: Mapping[str, float] = {
    **DTYPE_BYTES,
    "fp8": 1.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
_ALSO_CALLED: Mapping[str, str] = {
    "f32": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}


def cache_type(name: str) -> str:
    """The type's name as CACHE_TYPE_BYTES has it; raises SettingsError with the nearest known name."""
    plain = name.strip().lower()
    plain = _ALSO_CALLED.get(plain, plain)
    if plain not in CACHE_TYPE_BYTES:
        raise SettingsError(unknown_name("cache type", name, CACHE_TYPE_BYTES))
    return plain
