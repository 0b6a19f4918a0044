"""What llama-bench measured: prefill of a prompt (pp) or decode steps (tg), after `n_depth` tokens in the cache.

Columns are taken by name, of this year's version and of those since 2023. Source: llama.cpp, tools/llama-bench.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from workbench.runs.importers.imported_point import MOST_RATE, MOST_SECONDS, ImportedPoint, Labels, Times, differs
from workbench.runs.importers.record import NotAFigure, Record, above_zero, amount, count, known_count, word

TOOL = "llama-bench"
MEASURED = frozenset(
    "n_prompt n_gen n_depth test_time avg_ns stddev_ns avg_ts stddev_ts samples_ns samples_ts".split()  # noqa: SIM905
)
"""Columns that tell one point of a run from another; all others are what it was run with."""

LABELLED = frozenset(
    "build_commit build_number cpu_info gpu_info model_filename model_type model_size model_n_params".split()  # noqa: SIM905
)
_OLD_BACKENDS = ("cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "directml", "gpu_blas", "blas")
"""Columns of their own until 2024; `backends` since."""
_DESCRIBED = re.compile(r"(?P<architecture>\S+) (?P<size>\S+) (?:mostly |all )?(?P<quantisation>.+)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
LONGEST_MOMENT = 24
ALL_LAYERS = 99
MEAN_SHARE, RATE_SHARE = 0.01, 0.5
"""How far a file's own mean may lie from that of its samples, and its rate from its time, before it is told."""


def is_llama_bench(values: Mapping[str, Any]) -> bool:
    """Whether a record is one of llama-bench."""
    return "pl" not in values


def llama_bench_point(record: Record, labels: Labels) -> ImportedPoint | None:
    """The point of one record; None where it doesn't say what was measured."""
    values = record.values
    try:
        n, k, d = (count(values, name) for name in ("n_prompt", "n_gen", "n_depth"))
    except NotAFigure as error:
        n, k, d = (known_count(values, name) for name in ("n_prompt", "n_gen", "n_depth"))
        problem = f"failed: {error}"
        return ImportedPoint(record.line, labels, prompt_tokens=n, depth=d, steps=k, problem=problem)
    if n is None and k is None:
        return None
    moment = str(values.get("test_time", ""))[:LONGEST_MOMENT]
    lacking = "n_prompt" if n is None else "n_gen" if k is None else ""
    remarks = (f"taken for 0: {lacking}, which the file lacks",) if lacking else ()
    n, k = n or 0, k or 0
    point = partial(
        ImportedPoint,
        record.line,
        labels,
        prompt_tokens=n,
        depth=d or 0,
        steps=k,
        started_at=moment if _MOMENT.fullmatch(moment) else "",
    )
    if not n and not k:
        return point(problem="failed: no prompt and no steps, so nothing was measured", remarks=remarks)
    try:
        times, more = _times(values, n + k)
    except NotAFigure as error:
        return point(problem=f"failed: {error}", remarks=remarks)
    remarks = (*remarks, *more)
    if n and k:
        total = f"{times.best_s * 1e3:,.1f} ms in all"
        return point(problem=f"not told apart: prefill and {k:,} steps were timed as one, {total}", remarks=remarks)
    if n:
        return point(prefill=times, remarks=remarks)
    return point(step=times.each(k), remarks=remarks)


def _times(values: Mapping[str, Any], tokens: int) -> tuple[Times, list[str]]:
    """The times of a test of so many tokens, its spread never from the file; raises NotAFigure for what can't be."""
    by_time = [above_zero(ns, "a sample in samples_ns") / 1e9 for ns in _list(values.get("samples_ns"))]
    by_rate = [tokens / above_zero(rate, "a sample in samples_ts") for rate in _list(values.get("samples_ts"))]
    samples = by_time or by_rate
    told, doubts = _means(values, tokens, samples)
    if not samples and not told:
        raise NotAFigure("the file has neither its time nor its rate: avg_ns, avg_ts and samples_ns are missing")
    for seconds in (*samples, *told):
        if seconds > MOST_SECONDS or tokens / seconds > MOST_RATE:
            raise NotAFigure(f"{tokens:,} tokens in {seconds:.3g} s can't be")
    if len(told) == 2 and differs(told[0], told[1], RATE_SHARE):
        raise NotAFigure(f"its time says {told[0]:.4g} s and its rate {told[1]:.4g} s")
    if not samples:
        return Times(mean_s=told[0]), ["a mean, as the file has no samples: its spread isn't known"]
    if by_time and by_rate and _differ(by_time, by_rate):
        doubts.append("samples_ts are not the rates of samples_ns, which are taken")
    return Times(tuple(samples)), doubts


def _means(values: Mapping[str, Any], tokens: int, samples: Sequence[float]) -> tuple[list[float], list[str]]:
    """The file's own mean times, and why they are doubted; one that is no figure matters only without samples."""
    told, doubts = [], []
    for name in ("avg_ns", "avg_ts"):
        try:
            mean = amount(values, name)
        except NotAFigure as error:
            if not samples:
                raise
            doubts.append(f"{error}; the samples are taken")
            continue
        if mean is None:
            continue
        is_time = name == "avg_ns"
        told.append(mean / 1e9 if is_time else tokens / mean)
        # A mean of rates is not the rate of a mean.
        own = [s * 1e9 for s in samples] if is_time else [tokens / s for s in samples]
        if own and differs(fmean(own), mean, MEAN_SHARE):
            doubts.append(f"{name} is not the mean of the file's samples, which are taken")
    return told, doubts


def _differ(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) != len(other) or any(differs(a, b, MEAN_SHARE) for a, b in zip(one, other, strict=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def llama_bench_labels(values: Mapping[str, Any]) -> Labels:
    """The labels of one record."""
    described = _DESCRIBED.fullmatch(word(values.get("model_type")))
    file_name = re.split(r"[\\/]", word(values.get("model_filename")))[-1].removesuffix(".gguf")
    machine = [word(values.get(name)) for name in ("cpu_info", "gpu_info")]
    build = word(values.get("build_number"))
    commit = word(values.get("build_commit"))
    device = _device(values)
    return Labels(
        tool=TOOL,
        version=f"b{build} ({commit})" if build not in ("", "0") else "" if commit == "unknown" else commit,
        model=file_name or word(values.get("model_type")),
        architecture=described["architecture"] if described else "",
        quantisation=described["quantisation"] if described else "",
        cache_types=_cache_types(values),
        device=device,
        threads=_whole(values, "n_threads", 1 << 20),
        machine=" · ".join(filter(None, machine)),
        parameters=_whole(values, "model_n_params", 1 << 62),
        weight_bytes=_whole(values, "model_size", 1 << 62),
        settings=tuple(sorted((name, word(value)) for name, value in values.items() if _is_setting(name))),
        remarks=tuple(_remarks(values, device)),
    )


def _is_setting(name: str) -> bool:
    return name not in MEASURED and name not in LABELLED


def _whole(values: Mapping[str, Any], name: str, most: int) -> int | None:
    try:
        return count(values, name, most) or None
    except NotAFigure:
        return None


def _cache_types(values: Mapping[str, Any]) -> tuple[str, str]:
    if "f16_kv" in values:
        # Until late 2023 the cache had two types to choose from.
        kind = "f16" if word(values["f16_kv"]) in ("1", "True") else "f32"
        return kind, kind
    # The Markdown leaves out what has its default, f16.
    return word(values.get("type_k")) or "f16", word(values.get("type_v")) or "f16"


def _device(values: Mapping[str, Any]) -> str:
    backends = word(values.get("backends"))
    old = (name for name in _OLD_BACKENDS if word(values.get(name)) in ("1", "True"))
    return (backends or next(old, "")).lower()


def _remarks(values: Mapping[str, Any], device: str) -> list[str]:
    """What of its settings a reader must know before the rate is compared."""
    remarks = []
    layers = word(values.get("n_gpu_layers"))
    on_host = _whole(values, "n_cpu_moe", 1 << 20)
    if device not in ("", "cpu", "blas") and layers.isdecimal() and len(layers) < 3 and int(layers) < ALL_LAYERS:
        remarks.append(f"{layers} layers offloaded to {device}")
    if on_host:
        remarks.append(f"experts of {on_host} layers held on the host")
    if word(values.get("embeddings")) in ("1", "True"):
        remarks.append("run for embeddings")
    return remarks
