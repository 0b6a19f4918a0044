"""Models and boxes at the edge of sense: every answer is finite, or a sentence says why there is none."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import pytest

from tests.ceilings.figures import DENSE, MIXTURE, arithmetic_rate, bandwidth, exact, memory
from tests.ceilings.test_explained import figures
from workbench.ceilings import decode, experts, memory_fit, prefill, roofline
from workbench.ceilings.batch import ceiling
from workbench.ceilings.box import Box
from workbench.ceilings.levers import levers
from workbench.ceilings.split import split
from workbench.errors import ModelError, SettingsError
from workbench.models.model import AttentionLayer, KvKind, KvLayer, Model, ModelKind, Read, TensorGroup
from workbench.quantity import Quantity

SIZE = 2.0
BARE = Model(
    name="bare",
    source="nowhere",
    kind=ModelKind.PRESET,
    architecture="bare",
    quantisation="F16",
    groups=(),
    kv_layers=(),
    attention_layers=(),
    vocabulary=100,
    hidden=10,
    context_limit=None,
    tied_embeddings=False,
    file_bytes=None,
)
READ = TensorGroup("read", ("F16",), 5_000, 10_000, Read.ALL)
UNREAD = TensorGroup("unread", ("F16",), 5_000, 10_000, Read.NONE)
EMPTY = TensorGroup("empty", ("F16",), 0, 0, Read.ALL)
TABLE = TensorGroup("table", ("F16",), 1_000, 2_000, Read.ONE_ROW, rows=100)
ROUTED = TensorGroup("routed", ("Q4_K",), 12_800, 7_200, Read.ROUTED)
FULL, SLIDING = KvLayer(KvKind.FULL, 32), KvLayer(KvKind.SLIDING, 32, window=8)
STATE = KvLayer(KvKind.RECURRENT, 0, constant_elements=64)
ATTENTION = AttentionLayer(heads=2, head_dim=4)

MODELS = {
    "weights alone": replace(BARE, groups=(READ,)),
    "a cache and no attention": replace(BARE, groups=(READ, TABLE), kv_layers=(FULL, SLIDING, STATE)),
    "attention and no cache": replace(BARE, groups=(READ,), attention_layers=(ATTENTION,)),
    "a fixed state alone": replace(BARE, groups=(READ,), kv_layers=(STATE,)),
    "experts alone": replace(BARE, groups=(ROUTED,), experts=128, experts_used=8),
    "every expert used": replace(BARE, groups=(READ, ROUTED), experts=8, experts_used=8),
    "one expert": replace(BARE, groups=(READ, ROUTED), experts=1, experts_used=1),
    "weights fewer than a head": replace(BARE, groups=(READ,), vocabulary=10_000),
    "no vocabulary": replace(BARE, groups=(READ,), vocabulary=0, hidden=0),
    "a limit": replace(BARE, groups=(READ,), kv_layers=(FULL,), context_limit=100),
    "a mixture": exact(MIXTURE),
}
NOTHING_READ = {
    "no tensors": BARE,
    "empty tensors": replace(BARE, groups=(EMPTY,)),
    "unread tensors": replace(BARE, groups=(UNREAD,), kv_layers=(FULL,)),
    "a table alone": replace(BARE, groups=(TABLE,)),
}
BOXES = {
    "B alone": Box(bandwidth(100)),
    "B and C": Box(bandwidth(100), arithmetic_rate(10)),
    "B and M": Box(bandwidth(100), M=memory(16)),
    "a tiny one": Box(bandwidth(1e-12), arithmetic_rate(1e-15), memory(1e-9)),
    "a vast one": Box(bandwidth(1e9), arithmetic_rate(1e9), memory(1e12)),
}


def answers(model: Model, t: int, b: int, box: Box) -> list[Callable[[], Any]]:
    """Every question there is of a model on a box."""
    C = box.C or arithmetic_rate(10)
    return [
        lambda: ceiling(model, t, b, SIZE, box),
        lambda: prefill.prefill_ceiling(model, max(t, 1), SIZE, box),
        lambda: prefill.binding_clock(model, max(t, 1), box.B.value, C.value),
        lambda: prefill.crossover(model, box.B, C),
        lambda: split(model, t, SIZE, box.B, bandwidth(1), 0.5),
        lambda: levers(model, t, b, SIZE, box),
        lambda: roofline.roofline(model, C, box.B, batches=[b], prompts=[max(t, 1)], t=t, M=box.M),
        lambda: decode.step_seconds(model, t, SIZE, box.B, box.C, b),
    ]


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_answer_is_finite(model: Model, box: Box) -> None:
    for t in (0, 1, 10**9):
        for b in (1, 10**6):
            asked = [answer() for answer in answers(model, t, b, box)]
            asked.append(memory_fit.fit(model, t, b, SIZE, box.M or memory(16)))
            asked.append(experts.shortcut(model))
            assert [f.name for f in figures(asked) if not isfinite(f.value)] == []
            step = asked[0]
            assert step.seconds_per_step.value > 0
            assert step.tokens_per_second_total.value > 0
            assert all(figure.value >= 0 for figure in figures(asked[:2]))


@pytest.mark.parametrize("model", NOTHING_READ.values(), ids=NOTHING_READ)
def test_a_model_of_which_nothing_is_read_has_no_ceiling(model: Model) -> None:
    for answer in answers(model, 0, 1, BOXES["B and C"]):
        with pytest.raises(ModelError, match="bare has no weights that a token reads, so there is no ceiling"):
            answer()


@pytest.mark.parametrize("name", ["no tensors", "empty tensors"])
def test_a_model_without_parameters_has_no_shortcut(name: str) -> None:
    with pytest.raises(ModelError, match="bare holds no parameters"):
        experts.shortcut(NOTHING_READ[name])


@pytest.mark.parametrize(("used", "of"), [(0, 0), (0, 8), (9, 8), (-1, 8), (1, 0)])
def test_routed_experts_of_which_none_or_too_many_are_used_are_refused(used: int, of: int) -> None:
    with pytest.raises(ModelError, match=f"a token uses {used} of {of}; it must use at least 1"):
        replace(BARE, groups=(READ, ROUTED), experts=of, experts_used=used)


@pytest.mark.parametrize("value", [0.0, -1.0, inf, nan])
@pytest.mark.parametrize("which", ["B", "C", "M"])
def test_a_box_that_offers_nothing_is_refused(which: str, value: float) -> None:
    given: dict[str, Quantity] = {"B": bandwidth(100), "C": arithmetic_rate(10), "M": memory(16)}
    given[which] = replace(given[which], value=value)
    with pytest.raises(SettingsError, match=f"The {given[which].name} is .*; it must be above 0, and finite"):
        Box(**given)


def test_a_batch_past_all_experts_reads_each_once() -> None:
    model = exact(MIXTURE)
    assert decode.weights_read(model, 10**6).value == (
        model.shared_read_bytes + model.routed_expert_bytes + 10**6 * model.embedding_row_bytes
    )


def test_embedding_rows_that_take_longer_to_read_than_a_token_to_compute_leave_no_crossover() -> None:
    assert prefill.crossover(exact(DENSE), bandwidth(0.001), arithmetic_rate(1_000)) is None


def test_a_roofline_of_neither_a_model_nor_a_width_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="that of a model, or of weights"):
        roofline.roofline(None, arithmetic_rate(1), bandwidth(1), batches=[1], prompts=[1])
