"""The operations of a pass: as many products as the model has matrices, and as many multiply-adds as its arithmetic."""

from dataclasses import replace

import pytest

from tests.engines.test_families import read, settings_of
from workbench.ceilings import decode
from workbench.ceilings import prefill as prefill_ceiling
from workbench.hardware.timings import Operation, Task
from workbench.models.model import KvKind, KvLayer
from workbench.models.resolve import resolve
from workbench.predictions.passes import can_be_predicted, decode_step, prefill

DENSE = ("smollm2-135m", "qwen3-0.6b", "llama-3.2-1b", "mistral-7b-v0.3", "qwen3-8b")
MULTIPLIED = (Task.PRODUCT, Task.EXPERTS)


def multiply_adds(counts: dict[Operation, int]) -> float:
    return sum(count * operation.amount for operation, count in counts.items() if operation.task in MULTIPLIED)


@pytest.mark.parametrize("name", [*DENSE, "qwen3-30b-a3b"])
@pytest.mark.parametrize("b", [1, 4])
def test_a_step_multiplies_by_every_parameter_that_a_token_does(name: str, b: int) -> None:
    model = resolve(name).in_dtype("float32")
    step = decode_step(model, 100, b)
    flop = decode.step_flop(model, 100, b).value - b * decode.attention_flop(model, 100)
    # Norm scales and biases are parameters, and no products.
    assert 2 * multiply_adds(dict(step.counts)) == pytest.approx(flop, rel=2e-3)


@pytest.mark.parametrize("name", DENSE)
def test_a_prefill_runs_the_head_once(name: str) -> None:
    model = resolve(name).in_dtype("float32")
    flop = prefill_ceiling.flop(model, 64).value - prefill_ceiling.attention_flop(model, 64)
    assert 2 * multiply_adds(dict(prefill(model, 64).counts)) == pytest.approx(flop, rel=2e-3)


def test_attention_reads_the_whole_cache_and_a_sliding_layer_its_window() -> None:
    model = resolve("smollm2-135m")
    window = 32
    sliding = replace(model.kv_layers[0], kind=KvKind.SLIDING, window=window)
    mixed = replace(model, kv_layers=(sliding, *model.kv_layers[1:]))
    held = [op.shape[1] for layer in decode_step(mixed, 100).layers for op in layer if op.task is Task.ATTEND]
    assert held == [window] + [100] * (len(model.kv_layers) - 1)


def test_heads_are_normalised_where_the_family_does() -> None:
    d = 128
    norms = {op.rows for op in decode_step(resolve("qwen3-0.6b"), 8).counts if op.shape == (d,)}
    assert norms == {16, 8}
    assert not [op for op in decode_step(resolve("llama-3.2-1b"), 8).counts if op.task is Task.NORM and op.rows > 1]


def test_layers_that_keep_a_state_are_not_predicted() -> None:
    model = resolve("smollm2-135m")
    assert can_be_predicted(model)
    state = KvLayer(KvKind.RECURRENT, 0, None, 1000)
    assert not can_be_predicted(replace(model, kv_layers=(state, *model.kv_layers[1:])))


@pytest.mark.parametrize("family", ["qwen2_moe", "glm4_moe", "ernie4_5_moe", "mixtral", "qwen3_moe", "olmoe", "llama"])
def test_products_are_of_all_the_parameters_there_are(family: str) -> None:
    """Shared experts, and the dense layers of a mixture, among them."""
    model = read(settings_of(family, {"num_hidden_layers": 6}))
    step = decode_step(model, 16)
    counted = 0
    for operation, calls in step.counts.items():
        if operation.task is Task.PRODUCT:
            counted += calls * operation.shape[0] * operation.shape[1]
        elif operation.task is Task.EXPERTS:
            experts, _, f, h = operation.shape
            counted += calls * 3 * experts * f * h
    table = 0 if model.tied_embeddings else model.vocabulary * model.hidden
    assert counted == pytest.approx(model.parameters - table, rel=0.005)
