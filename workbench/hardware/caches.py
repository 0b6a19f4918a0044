"""The processor's last-level cache, what lives in it, and the instructions the processor has for small types."""

import platform
import subprocess
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

CPU_FOLDERS = Path("/sys/devices/system/cpu")
CPU_INFORMATION = Path("/proc/cpuinfo")
ROOF_CACHES = 2
"""From this many last-level caches on, what is read over and over comes from memory."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX VNNI",
    "amx_bf16": "AMX BF16",
    "amx_int8": "AMX INT8",
    "amx_fp16": "AMX FP16",
    "asimd": "NEON",
    "asimdhp": "NEON FP16",
    "asimddp": "NEON dot product",
    "bf16": "BF16",
    "i8mm": "INT8 matrix",
    "sve": "SVE",
    "sve2": "SVE2",
    "sme": "SME",
}
"""What Linux calls the instructions that matter for matrix products, and what people do."""


class Residence(StrEnum):
    """Where bytes that are read over and over come from."""

    CACHE = "lives in the last-level cache"
    PARTLY = "lives partly in the last-level cache"
    MEMORY = "lives in memory"


def residence(count: float, cache_bytes: int | None) -> Residence | None:
    """Where so many bytes live, read in turn by all threads; None where the cache is not known."""
    if cache_bytes is None:
        return None
    if count <= cache_bytes:
        return Residence.CACHE
    return Residence.PARTLY if count < ROOF_CACHES * cache_bytes else Residence.MEMORY


def last_level_cache_bytes() -> int | None:
    """Bytes of the last-level cache, all slices that the processors share among them summed; None where unknown."""
    slices: dict[str, tuple[int, int]] = {}
    for index in CPU_FOLDERS.glob("cpu[0-9]*/cache/index[0-9]*"):
        level, size = _text(index / "level"), _text(index / "size")
        shared, kind = _text(index / "shared_cpu_list"), _text(index / "type")
        if level.isdigit() and kind != "Instruction" and size[:-1].isdigit() and size[-1:] in _UNITS:
            slices[f"{level}:{shared}"] = (int(level), int(size[:-1]) * _UNITS[size[-1]])
    if slices:
        last = max(level for level, _ in slices.values())
        return sum(size for level, size in slices.values() if level == last)
    return _macos_cache_bytes() if sys.platform == "darwin" else None


def instructions() -> tuple[str, ...]:
    """The instruction sets for matrix products that the processor names; none where the system doesn't say."""
    for line in _text(CPU_INFORMATION).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            present = set(value.split())
            return tuple(name for flag, name in _INSTRUCTIONS.items() if flag in present)
    return ("NEON",) if sys.platform == "darwin" and platform.machine() == "arm64" else ()


def _macos_cache_bytes() -> int | None:
    with suppress(OSError, subprocess.SubprocessError):
        for name in ("hw.perflevel0.l2cachesize", "hw.l3cachesize", "hw.l2cachesize"):
            found = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=5)
            if found.stdout.strip().isdigit() and int(found.stdout) > 0:
                return int(found.stdout)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
