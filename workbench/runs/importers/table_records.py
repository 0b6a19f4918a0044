"""Results written as a table for people: llama-bench's Markdown, and what llama-batched-bench prints."""

import re
from collections.abc import Sequence
from typing import Any

from workbench.runs.importers.record import Found, Record, left_out, word

_TEST = re.compile(r"(?:pp\s*([0-9]+))?\s*\+?\s*(?:tg\s*([0-9]+))?\s*(?:@\s*d\s*([0-9]+))?", re.IGNORECASE)
_BUILD = re.compile(r"build:\s*(\S+)\s*\(([0-9]+)\)")
_SETTING = re.compile(r"(\w+) = (-?[0-9]+)")
_RULE = re.compile(r"[|\s:-]+")
_SIZE = re.compile(r"([0-9.]+)\s*([KMGT])iB")
_PARAMETERS = re.compile(r"([0-9.]+)\s*([KMBT])?")
_SHORT_NAMES = {
    "model": "model_type",
    "backend": "backends",
    "ngl": "n_gpu_layers",
    "threads": "n_threads",
    "sm": "split_mode",
    "nkvo": "no_kv_offload",
    "fa": "flash_attn",
    "mmap": "use_mmap",
    "dio": "use_direct_io",
    "mmq": "mul_mat_q",
    "lm": "load_mode",
    "embd": "embeddings",
    "nopo": "no_op_offload",
    "noh": "no_host",
    "dev": "devices",
    "ts": "tensor_split",
    "ot": "tensor_buft_overrides",
    "fitt": "fit_target",
    "fitc": "fit_min_ctx",
}
"""Headings of llama-bench's Markdown and the columns they stand for, of this year's version and earlier ones."""

_BATCHED_NAMES = {
    "pp": "pp",
    "tg": "tg",
    "b": "pl",
    "n_kv": "n_kv",
    "t_pp s": "t_pp",
    "s_pp t/s": "speed_pp",
    "t_tg s": "t_tg",
    "s_tg t/s": "speed_tg",
    "t s": "t",
    "s t/s": "speed",
}
"""Headings of llama-batched-bench's table and the names its JSON lines have for them."""


def table_records(text: str) -> Found:
    """Every line under a heading of either tool, with the settings or the build that are told once beside a table."""
    found = Found("a table")
    names: list[str] | None = None
    settings: dict[str, Any] = {}
    unbuilt, stray, cut, example = 0, 0, 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if found.is_full:
            break
        bare = line.strip()
        if not bare or _RULE.fullmatch(bare):
            continue
        if "n_kv_max = " in bare:
            settings = dict(_SETTING.findall(bare))
        elif (build := _BUILD.match(bare)) is not None:
            for record in found.records[unbuilt:]:
                assert isinstance(record.values, dict)
                record.values.update(build_commit=build[1], build_number=build[2])
            unbuilt = len(found.records)
        elif bare.startswith("|") and (heading := _heading(_cells(bare))) is not None:
            names = heading
        elif names is None or not bare.startswith("|"):
            stray, example = stray + 1, example or word(bare)[:60]
        elif not bare.endswith("|") or len(_cells(bare)) < len(names):
            cut += 1
        else:
            found.records.append(Record(number, settings | _values(names, _cells(bare))))
    if cut:
        found.notes.append(left_out(cut, "line", "cut short"))
    if stray and found.records:
        found.notes.append(left_out(stray, "line", f"no result, as in {example!r}"))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _heading(cells: Sequence[str]) -> list[str] | None:
    """The columns that a heading's cells stand for; None for cells that are no heading."""
    lowered = [cell.lower() for cell in cells]
    if {"pp", "tg", "b"} <= set(lowered):
        return [_BATCHED_NAMES.get(name, name) for name in lowered]
    if {"test", "t/s"} <= set(lowered):
        return [_SHORT_NAMES.get(name, name) for name in lowered]
    return None


def _values(names: Sequence[str], cells: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(names, cells, strict=False))
    if "test" in values:
        test = _TEST.fullmatch(values.pop("test"))
        if test is not None:
            values |= {"n_prompt": test[1] or "0", "n_gen": test[2] or "0", "n_depth": test[3] or "0"}
    if "t/s" in values:
        mean, _, spread = values.pop("t/s").replace("+/-", "±").partition("±")
        values |= {"avg_ts": mean.rstrip("\xc2 ").strip(), "stddev_ts": spread.strip()}
    if (size := _SIZE.fullmatch(values.pop("size", ""))) is not None:
        values["model_size"] = _times(size[1], 1024 ** (1 + "KMGT".index(size[2])))
    if (parameters := _PARAMETERS.fullmatch(values.pop("params", ""))) is not None:
        values["model_n_params"] = _times(parameters[1], 1000 ** (" KMBT".index(parameters[2] or " ")))
    return {name: value for name, value in values.items() if value is not None}


def _times(number: str, unit: int) -> int | None:
    try:
        return round(float(number[:12]) * unit)
    except ValueError:
        return None
