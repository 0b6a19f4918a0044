"""Every figure of every record is finite, says where it comes from, and is what its formula makes of its inputs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings

from tests.ceilings.figures import (
    DENSE,
    FP16,
    MIXTURE,
    MODELS,
    arithmetic_rate,
    bandwidth,
    exact,
    memory,
    small,
)
from tests.ceilings.random_models import batches, boxes, contexts, element_bytes, models
from workbench.ceilings import experts, memory_fit, roofline
from workbench.ceilings.batch import ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.latency import Stopwatch, changes, latency
from workbench.ceilings.levers import levers
from workbench.ceilings.prefill import prefill_ceiling
from workbench.ceilings.split import split
from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit, arithmetic

B, C, M = bandwidth(273), arithmetic_rate(100), memory(128)
FAST, SLOW = replace(B, symbol="B_fast"), replace(bandwidth(27), symbol="B_slow")
READ = Stopwatch(8_000, 400, ttft_s=12.0, end_s=30.0, waited_s=1.0)
TWO_BYTES = Quantity("bytes a parameter", 2, Unit.BYTES, Origin.ASSUMED, "bytes_per_parameter", source="given")

ASKED_FOR = frozenset({"t", "b", "n", "f", "d", "tokens", "faster", "n_prompt", "n_output"})
"""Symbols of what the person asked for, which needs no source."""


def of_model(model: Model, t: int, b: int, size: float, box: Box) -> list[Any]:
    """Every record there is of a model."""
    found: list[Any] = [
        ceiling(model, t, b, size, box),
        prefill_ceiling(model, b, size, box),
        split(model, t, size, FAST, SLOW, 0.25),
        memory_fit.fit(model, t, b, size, M),
        experts.shortcut(model),
        levers(model, t, b, size, box),
    ]
    if box.C is not None:
        found.append(roofline.roofline(model, box.C, box.B, batches=[b], prompts=[b], t=t, element_bytes=size, M=box.M))
    return found


RECORDS: dict[str, Callable[[], Any]] = {
    **{name: partial(of_model, exact(name), 4_096, 4, FP16, Box(B, C, M)) for name in MODELS},
    "counts of no card": lambda: experts.shortcut(replace(exact(MIXTURE), published=None)),
    "the small model": lambda: of_model(small(), 256, 32, FP16, Box(B, C, M)),
    "no C and no M": lambda: of_model(exact(DENSE), 4_096, 1, FP16, Box(B)),
    "a request": lambda: [latency(READ), changes(READ, prompt=2_000, faster=1.5, cached=7_500)],
    "a roofline of weights": lambda: [
        roofline.roofline(None, C, B, batches=[1, 333], prompts=[2_000], bytes_per_parameter=TWO_BYTES),
    ],
}


def figures(record: Any) -> Iterator[Quantity]:
    """Every figure of a record, and of its inputs in turn."""
    if isinstance(record, Quantity):
        yield record
        yield from figures(record.inputs)
    elif isinstance(record, list | tuple):
        for item in record:
            yield from figures(item)
    elif is_dataclass(record):
        for field in fields(record):
            yield from figures(getattr(record, field.name))


def in_seconds(figure: Quantity) -> float:
    return figure.value / 1e3 if figure.unit is Unit.MILLISECONDS else figure.value


def symbols(figure: Quantity) -> dict[str, float]:
    """Values of a figure's inputs by symbol, and of theirs; the nearest of a symbol counts."""
    found: dict[str, float] = {}
    level = list(figure.inputs)
    while level:
        for item in level:
            if item.symbol:
                found.setdefault(item.symbol, in_seconds(item))
        level = [further for item in level for further in item.inputs]
    return found


def evaluated(figure: Quantity) -> float:
    """What a figure's formula makes of its inputs. Raises AssertionError for a symbol that no input has."""
    values = symbols(figure)
    written, names = figure.formula, sorted(values, key=len, reverse=True)
    for i, name in enumerate(names):
        written = re.sub(
            rf"(?<![\w·]){re.escape(name)}(?!\w)" if "·" in name else rf"(?<!\w){re.escape(name)}(?!\w)",
            f"v{i}",
            written,
        )
    unknown = set(re.findall(r"[^\W\d]\w*", written)) - {"max", "min"} - {f"v{i}" for i in range(len(names))}
    assert not unknown, f"{figure.name}: {figure.formula} names {unknown}, which are not among {names}"
    for sign, python in (("·", "*"), ("−", "-"), ("^", "**")):
        written = written.replace(sign, python)
    namespace = {f"v{i}": values[name] for i, name in enumerate(names)} | {"max": max, "min": min}
    return float(eval(written, {"__builtins__": {}}, namespace))


def check(record: Any) -> None:
    for figure in figures(record):
        assert isfinite(figure.value), figure.name
        assert figure.name
        assert figure.formula or figure.source or figure.symbol in ASKED_FOR, f"{figure.name} comes from nowhere"
        if figure.formula:
            # Bytes of experts are whole, so a figure may be off by half a byte.
            slack = 1.0 if figure.unit is Unit.BYTES else 0.0
            assert in_seconds(figure) == pytest.approx(evaluated(figure), rel=1e-6, abs=slack), figure.name


@pytest.mark.parametrize("name", RECORDS)
def test_every_figure_is_what_its_formula_makes_of_its_inputs(name: str) -> None:
    check(RECORDS[name]())


@settings(derandomize=True, deadline=None, max_examples=25)
@given(models(), contexts, batches, element_bytes, boxes)
def test_of_every_model_and_box(model: Model, t: int, b: int, size: float, box: Box) -> None:
    check(of_model(model, t, b, size, box))


def test_a_formula_that_does_not_match_its_inputs_is_seen() -> None:
    wrong = arithmetic("ridge", 1.0, Unit.FLOP_PER_BYTE, formula="C / B", inputs=(C, B))
    with pytest.raises(AssertionError):
        check(wrong)
    with pytest.raises(AssertionError, match=r"names \{'W'\}"):
        check(replace(wrong, formula="W / B"))
    with pytest.raises(AssertionError, match="comes from nowhere"):
        check(arithmetic("figure", 1.0, Unit.BYTES))
