"""The compiled product beside that of the matrix it stands for, in graphs, and what takes its place without it."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.engines.test_batches import tiny
from tests.models_on_disk import TINY_CONFIG
from workbench.engines import int8_product as module
from workbench.engines.int8_linear import Int8Linear
from workbench.engines.int8_product import has_int8_product, int8_product
from workbench.engines.variant_network import variant_network
from workbench.experiments.gap.variant import Stored, Variant

compiled = pytest.mark.skipif(not has_int8_product(torch.device("cpu")), reason="needs Linux and a C compiler")


def _weights(outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(outputs + inputs)
    packed = torch.randint(-127, 128, (outputs, inputs), generator=generator, dtype=torch.int8)
    return packed, (torch.rand(outputs, generator=generator) + 0.1).to(torch.bfloat16)


def _inputs(rows: int, inputs: int) -> torch.Tensor:
    return torch.randn(rows, inputs, generator=torch.Generator().manual_seed(rows))


def _expected(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x.double() @ packed.double().T * scale.double()).float()


@compiled
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (3, 7), (130, 33), (5, 1000), (96, 64), (7, 30000)])
@pytest.mark.parametrize("rows", [1, 3])
def test_it_is_the_product_of_the_matrix(rows: int, outputs: int, inputs: int) -> None:
    x, (packed, scale) = _inputs(rows, inputs), _weights(outputs, inputs)
    found, expected = int8_product(x, packed, scale), _expected(x, packed, scale)
    assert found.dtype == torch.float32
    assert found.shape == (rows, outputs)
    assert ((found - expected).norm() / expected.norm()).item() < 5e-3


@compiled
@pytest.mark.parametrize("inputs", [64, 4096, 30000])
def test_the_largest_sum_there_can_be_does_not_overflow(inputs: int) -> None:
    packed = torch.full((2, inputs), 127, dtype=torch.int8)
    packed[1] = -127
    found = int8_product(torch.full((1, inputs), 3.0), packed, torch.ones(2, dtype=torch.bfloat16))
    assert found[0].tolist() == pytest.approx([381.0 * inputs, -381.0 * inputs], rel=1e-2)


@compiled
def test_a_row_depends_on_no_other() -> None:
    x, (packed, scale) = _inputs(2, 64), _weights(96, 64)
    alone = int8_product(x[:1], packed, scale)
    x[1] *= 1e6
    assert torch.equal(int8_product(x, packed, scale)[:1], alone)


@compiled
def test_nothing_gives_nothing_and_what_is_no_number_stays_none() -> None:
    packed, scale = _weights(96, 64)
    x = torch.zeros(2, 64)
    x[1, 5] = float("nan")
    zero, nan = int8_product(x, packed, scale)
    assert zero.count_nonzero() == 0
    assert nan.isnan().all()
    x[1, 5] = float("inf")
    assert not int8_product(x, packed, scale)[1].isfinite().any()


@compiled
def test_inputs_may_be_strided() -> None:
    packed, scale = _weights(32, 40)
    x = _inputs(40, 2).T
    assert torch.equal(int8_product(x, packed, scale), int8_product(x.contiguous(), packed, scale))


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_graph_holds_it_whole(dtype: torch.dtype) -> None:
    layer = Int8Linear(torch.nn.Linear(64, 96, dtype=dtype))
    x = _inputs(1, 64)[None].to(dtype)
    with torch.inference_mode():
        graph = torch.compile(layer, fullgraph=True, backend="aot_eager")
        assert torch.equal(graph(x), layer(x))
    torch._dynamo.reset()


def test_without_it_torchs_own_kernel_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kernel", lambda: None)
    linear = torch.nn.Linear(64, 96)
    layer = Int8Linear(linear)
    assert not layer.has_product
    x = _inputs(1, 64)
    with torch.inference_mode():
        expected, found = linear(x), layer(x)
    assert ((found - expected).norm() / expected.norm()).item() < 0.02


def test_there_is_none_without_a_compiler_or_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("this is no C")
    with monkeypatch.context() as patched:
        patched.setattr(module, "SOURCE", broken)
        assert module._kernel.__wrapped__() is None
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert module._kernel.__wrapped__() is None


def test_a_packed_head_leaves_the_table_it_was_tied_to_as_it_was(tmp_path: Path) -> None:
    network = tiny(tmp_path, {**TINY_CONFIG, "tie_word_embeddings": True})._network
    packed = variant_network(network, Variant(stored=Stored.INT8))
    assert isinstance(packed.lm_head, Int8Linear)
    assert packed.get_input_embeddings().weight is network.get_input_embeddings().weight
    assert network.lm_head.weight is network.get_input_embeddings().weight
