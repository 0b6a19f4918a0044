"""Imported points as ordinary rows: a prefill and the steps that go on from it in one, under their ceiling."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import SettingsError
from workbench.experiments.judging import judged
from workbench.experiments.plan import middle_context
from workbench.runs.basis import Basis, ceiling_columns
from workbench.runs.importers.imported_point import ImportedPoint, Labels, Times
from workbench.runs.importers.standing import Floors, Standing, element_bytes, is_of, why_none
from workbench.runs.row import Row
from workbench.runs.samples import Samples

ENGINE = "llama.cpp"
NOT_TOLD = "not told"
DEFAULT_CACHE = "f16"
"""llama.cpp's own."""
REAL = "real"
"""llama.cpp's tools have no other weights than a file's."""
NOT_DATED = "the file tells no date, so started is when it was imported"
NO_CEILING = "no ceiling"
"""Before the reason, among a row's flags."""

SampledRow = tuple[Row, Samples]


@dataclass(frozen=True)
class RowLabels:
    """What every row of one run has in common: its labels, its standing and, where it has one, its arithmetic."""

    run_id: str
    kind: str
    columns: dict[str, Any]
    under: Standing
    floors: Floors | None
    no_ceiling: str
    remarks: tuple[str, ...] = ()


def row_labels(run_id: str, kind: str, labels: Labels, under: Standing) -> RowLabels:
    """The labels of a run's rows: the model's own where the person named it and the file can be of it."""
    model = under.model if is_of(under.model, labels) else None
    no_ceiling = why_none(under, labels)
    columns = {
        "machine": under.this_machine or labels.machine or (under.device and under.device.title) or NOT_TOLD,
        "track": under.track,
        "engine": ENGINE,
        "engine_version": labels.version or "version not told",
        "model": model.name if model else labels.model or NOT_TOLD,
        "architecture": model.architecture if model else labels.architecture or NOT_TOLD,
        "quantisation": model.quantisation if model else labels.quantisation or NOT_TOLD,
        "dtype": cache_label(labels),
        "device": labels.device or NOT_TOLD,
        "threads": labels.threads or 0,
        "weights": REAL,
    }
    floors = None if model is None else _floors(under, labels)
    return RowLabels(run_id, kind, columns, under, floors, no_ceiling, tuple(_remarks(labels, under)))


def _remarks(labels: Labels, under: Standing) -> Iterator[str]:
    yield from labels.remarks
    processor = labels.machine.partition(" · ")[0]
    if under.this_machine and processor and processor not in under.this_machine:
        yield f"the file names another machine: {labels.machine}"
    if labels.cache_types is None:
        yield f"the cache is taken for {DEFAULT_CACHE}, as the file doesn't tell it"


def cache_label(labels: Labels) -> str:
    """The element types of the cache; those of the weights are the quantisation."""
    keys, values = labels.cache_types or (DEFAULT_CACHE, DEFAULT_CACHE)
    return f"{keys} cache" if keys == values else f"{keys}/{values} cache"


def _floors(under: Standing, labels: Labels) -> Floors | None:
    """None for a cache of a type that isn't known."""
    try:
        return under.floors(element_bytes(labels))
    except SettingsError:
        return None


def folded(points: Sequence[ImportedPoint]) -> list[tuple[ImportedPoint, ImportedPoint | None]]:
    """Each point alone, but a prefill of n tokens with the steps after n tokens in the cache: that is one request.

    Both must be the only ones of their kind; other steps go on from another cache than that prefill leaves.
    """
    prefills = _only(p for p in points if p.prefill and not p.step and not p.depth)
    steps = _only(p for p in points if p.step and not p.prefill and p.depth)
    pairs = {id(prefills[n]): step for n, step in steps.items() if n in prefills}
    taken = {id(step) for step in pairs.values()}
    return [(point, pairs.get(id(point))) for point in points if id(point) not in taken]


def _only(points: Iterable[ImportedPoint]) -> dict[int, ImportedPoint]:
    """The points by the tokens before their end, without those that share that with another."""
    found: dict[int, ImportedPoint | None] = {}
    for point in points:
        place = point.prompt_tokens or point.depth
        found[place] = None if place in found else point
    return {place: point for place, point in found.items() if point is not None}


def prefill_decode_row(
    about: RowLabels, point: ImportedPoint, decoded: ImportedPoint | None, moment: str
) -> SampledRow:
    """A prefill, steps, or with `decoded` a prefill and the steps that go on from it.

    Steps alone have the tokens they began with as their prompt; on an empty cache the first token is one. Without a
    figure the prompt is what was asked for, 0 where that is none or not told.
    """
    steps = decoded or point
    n, d, k = point.prompt_tokens, point.depth, steps.steps
    n = n or (d if point.problem else max(d, 1))
    new_tokens = k + 1 if steps.depth or point.prompt_tokens else max(k, 1)
    t = middle_context(n if not point.prompt_tokens else d + n, new_tokens)
    ttft, tpot = point.prefill or Times(), steps.step or Times()
    remarks = dict.fromkeys((*point.remarks, *steps.remarks))
    if point.prefill and d:
        remarks.setdefault(f"prefilled after {d:,} tokens already in the cache")
    if tpot.best_s and not steps.depth:
        remarks.setdefault("decoded from an empty cache")
    columns: dict[str, Any] = {
        "prompt_tokens": n,
        "context_tokens": max(t, 1),
        "batch": 1,
        # Steps without a figure have what lay before them as their prompt.
        "depth_tokens": None if point.problem and not point.prompt_tokens else d,
        "new_tokens": new_tokens,
        "repeats": max(len(ttft.samples_s), len(tpot.samples_s), 1),
    }
    if ttft.best_s:
        columns |= {
            "ttft_ms": ttft.best_s * 1e3,
            "ttft_median_ms": _ms(ttft.median_s),
            "prompt_tokens_per_s": n / ttft.best_s,
        }
    if tpot.best_s:
        columns |= {
            "tpot_ms": tpot.best_s * 1e3,
            "tpot_median_ms": _ms(tpot.median_s),
            "decode_tokens_per_s": 1 / tpot.best_s,
            "total_tokens_per_s": 1 / tpot.best_s,
        }
    if about.floors is not None and not point.problem:
        columns |= _request_floors(about.floors, n, d if point.prefill else 0, t, ttft, tpot)
    return _row(about, point, columns, remarks, Samples(ttft.samples_s, tpot.samples_s), moment)


def _request_floors(floors: Floors, n: int, d: int, t: int, ttft: Times, tpot: Times) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    least, step = floors.prefill(n, d), floors.step(t, 1, t, 0)
    columns |= {"weight_bytes": step.weight_bytes, "prefill_parameters": least.parameters}
    if ttft.best_s:
        columns |= {
            "prefill_flop": least.flop,
            "prefill_gflop_per_s": least.flop / ttft.best_s / 1e9,
            "attention_flop": least.attention_flop,
            "head_flop": least.head_flop,
            "ttft_floor_ms": _ms(least.seconds),
            "bound_by": least.bound and str(least.bound),
        }
    if tpot.best_s:
        columns |= {"bytes_per_step": step.weight_bytes + step.cache_bytes, "cache_bytes": step.cache_bytes}
    return columns


def batch_row(about: RowLabels, point: ImportedPoint, moment: str) -> SampledRow:
    """The steps of several sequences together, and their prefill."""
    n, k, b = point.prompt_tokens, point.steps, point.batch
    t = middle_context(n, k + 1)
    step = point.step.best_s if point.step else 0.0
    columns: dict[str, Any] = {
        "prompt_tokens": n,
        "context_tokens": max(t, 1),
        "batch": b,
        "new_tokens": k + 1,
        "repeats": max(k, 1),
    }
    if step:
        columns |= {
            "tpot_ms": step * 1e3,
            "step_ms": step * 1e3,
            "decode_tokens_per_s": 1 / step,
            "total_tokens_per_s": b / step,
            "prefill_ms": _ms(point.prefill.best_s if point.prefill else None),
        }
    if about.floors is not None and not point.problem:
        least = about.floors.step(max(t, 1), b, n + k, n if point.is_shared else 0)
        columns |= {
            "bytes_per_step": least.weight_bytes + least.cache_bytes,
            "weight_bytes": least.weight_bytes,
            "cache_bytes": least.cache_bytes,
            "step_flop": least.flop,
            "bound_by": least.limit and str(least.limit),
            "experts_expected": least.experts,
            "memory_needed_bytes": least.memory_bytes,
        }
    return _row(about, point, columns, dict.fromkeys(point.remarks), Samples(), moment)


def _row(
    about: RowLabels,
    point: ImportedPoint,
    columns: dict[str, Any],
    remarks: Iterable[str],
    samples: Samples,
    moment: str,
) -> SampledRow:
    said = [f"imported from {point.labels.tool}", *remarks, *about.remarks]
    if about.no_ceiling and not point.problem:
        said.append(f"{NO_CEILING}: {about.no_ceiling}")
    if not point.started_at:
        said.append(NOT_DATED)
    if columns.get("bytes_per_step") and not about.no_ceiling:
        basis = Basis.CALIBRATION if about.under.vendor_gb_per_s is None else Basis.VENDOR
        B, rate = about.under.read_gb_per_s, columns.get("decode_tokens_per_s")
        columns |= ceiling_columns(basis, B, columns["bytes_per_step"], rate)
    elif about.no_ceiling:
        columns["ceiling_basis"] = f"none: {about.no_ceiling}"
    row = Row(
        run_id=about.run_id,
        kind=about.kind,
        started_at=point.started_at or moment,
        status=point.problem or "ok",
        flags="; ".join(said),
        calibrated_gb_per_s=about.under.calibrated_gb_per_s if about.floors is not None else None,
        vendor_gb_per_s=about.under.vendor_gb_per_s if about.floors is not None else None,
        **about.columns,
        **columns,
    )
    return (row if point.problem else judged(row, samples)), samples


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
