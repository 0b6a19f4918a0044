"""Operations timed one by one: each by its own clock, over the next weights, and with caches that don't grow."""

from itertools import count

import torch

from workbench.hardware.probe.operations import OperationBench
from workbench.hardware.timings import Operation, Task
from workbench.models.resolve import resolve
from workbench.predictions.passes import decode_step, prefill

BYTES = 4 * 64 * 64 * 5


def a_bench(working_bytes: int = BYTES) -> OperationBench:
    ticks = count()
    return OperationBench(
        torch.device("cpu"),
        torch.float32,
        working_bytes,
        torch.get_num_threads(),
        lambda: None,
        clock=lambda: next(ticks),
    )


def test_every_operation_of_a_pass_is_timed_but_the_framework() -> None:
    model = resolve("smollm2-135m")
    for each in (decode_step(model, 8, 2), prefill(model, 4)):
        layer = each.layers[0]
        found = a_bench().seconds(layer)
        assert set(found) == {op for op in layer if op.task is not Task.LAYER}
        # Two readings of the clock around each call, and none between them.
        assert set(found.values()) == {1.0}


def test_products_take_the_next_weights_and_begin_again_at_the_end() -> None:
    product = Operation(Task.PRODUCT, 1, (64, 64))
    bench = a_bench()
    places = [bench._next(*product.shape).data_ptr() for _ in range(6)]
    assert len(set(places)) == 5
    assert places[5] == places[0]


def test_each_call_of_a_pass_has_its_own_cache_which_holds_as_many_tokens_in_every_pass() -> None:
    attend = Operation(Task.ATTEND, 1, (2, 16, 4, 2, 8))
    bench = a_bench()
    for _ in range(3):
        bench.seconds((attend, attend, attend))
    caches = bench._caches[attend]
    assert len(caches) == 3
    assert {cache.keys.shape for cache in caches if cache.keys is not None} == {torch.Size((2, 2, 16, 8))}


def test_a_matrix_larger_than_all_weights_is_still_multiplied() -> None:
    found = a_bench().seconds((Operation(Task.PRODUCT, 1, (512, 64)),))
    assert len(found) == 1
