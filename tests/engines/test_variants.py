"""Real variants of tiny models: outputs beside the plain network's, what is shared and freed, memory, and cancel."""

import sys
from pathlib import Path

import pytest
import torch

from tests.engines.test_batches import tiny
from tests.engines.test_dissection import FAMILIES
from tests.models_on_disk import TINY_CONFIG
from workbench.engines.engine import PointError
from workbench.engines.int8_linear import Int8Linear
from workbench.engines.variant_network import variant_network
from workbench.engines.variant_run import TorchVariant
from workbench.experiments.gap.levers import VARIANTS
from workbench.experiments.gap.variant import AS_LOADED, RMS_BOUND, Agreement, Cache, Stored, Variant
from workbench.runner import Cancelled, CancelToken

EXACT = 1e-4
WITHIN = {
    "static": (Variant(cache=Cache.PREALLOCATED), EXACT),
    "eager": (Variant(attention="eager"), EXACT),
    "one thread": (Variant(threads=1), EXACT),
    "bfloat16": (Variant(dtype="bfloat16"), 0.03),
    "int8": (Variant(stored=Stored.INT8), RMS_BOUND),
    "all": (Variant(1, "bfloat16", Cache.PREALLOCATED, "eager", False, Stored.INT8), RMS_BOUND),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", WITHIN)
def test_a_variant_gives_the_plain_networks_logits_within_its_bound(tmp_path: Path, family: str, name: str) -> None:
    model = tiny(tmp_path, FAMILIES[family])
    variant, bound = WITHIN[name]
    plain = model.variant(AS_LOADED, 40, 2, 20, CancelToken())
    run = model.variant(variant, 40, 2, 20, CancelToken())
    first = run.agreement(plain)
    assert first.positions == 20
    assert first.rms <= bound
    assert first.holds
    assert run.step() > 0
    assert run.prefill() > 0
    assert run.agreement(plain) == first
    run.close()


def test_a_changed_variant_does_not_agree(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    plain, run = (model.variant(each, 8, 1, 8, CancelToken()) for each in (AS_LOADED, VARIANTS["bfloat16"]))
    assert isinstance(run, TorchVariant)
    with torch.inference_mode():
        next(run._network.parameters()).mul_(-1.5)
    assert not run.agreement(plain).holds


def test_logits_that_are_no_numbers_do_not_agree(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    plain, run = (model.variant(each, 8, 1, 8, CancelToken()) for each in (AS_LOADED, VARIANTS["bfloat16"]))
    assert isinstance(run, TorchVariant)
    with torch.inference_mode():
        next(run._network.parameters()).fill_(float("nan"))
    assert not run.agreement(plain).holds


def test_a_choice_among_equals_is_no_change_but_another_choice_is() -> None:
    assert Agreement(rms=0.02, choice=0.05, same=0.9, positions=20).holds
    assert not Agreement(rms=0.02, choice=0.6, same=0.9, positions=20).holds
    assert not Agreement(rms=0.2, choice=0.0, same=1.0, positions=20).holds


def test_what_is_unchanged_is_shared_and_the_loaded_network_stays_as_it_was(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    network = model._network
    before = {name: (id(p), p.dtype) for name, p in network.named_parameters()}
    ids = {id(p) for p in network.parameters()}
    assert {id(p) for p in variant_network(network, Variant(attention="eager")).parameters()} == ids
    half = variant_network(network, Variant(dtype="bfloat16", stored=Stored.INT8))
    assert not {id(p) for p in half.parameters()} & ids
    assert any(isinstance(module, Int8Linear) for module in half.modules())
    assert {name: (id(p), p.dtype) for name, p in network.named_parameters()} == before
    assert network.config._attn_implementation == "sdpa"
    assert network.config.dtype == torch.float32


@pytest.mark.parametrize("rows", [1, 4, 5, 40])
def test_int8_products_are_near_those_of_the_matrix(rows: int) -> None:
    generator = torch.Generator().manual_seed(3)
    linear = torch.nn.Linear(64, 96)
    torch.nn.init.normal_(linear.weight, generator=generator)
    x = torch.randn(2, rows, 64, generator=generator)
    with torch.inference_mode():
        expected, found = linear(x), Int8Linear(linear)(x)
    assert found.shape == expected.shape
    assert ((found - expected).pow(2).mean().sqrt() / expected.std()).item() < 0.02


def test_a_timed_variant_runs_on_its_threads_and_leaves_the_others(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    torch.set_num_threads(model.labels.threads)
    run = model.variant(Variant(threads=1), 8, 1, 8, CancelToken())
    assert isinstance(run, TorchVariant)
    seen: list[int] = []
    run._network.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
    run.step()
    assert seen == [1]
    assert torch.get_num_threads() == model.labels.threads


def test_a_variant_there_is_no_memory_for_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    monkeypatch.setattr(model, "free_bytes", lambda: 1000)
    monkeypatch.setattr("workbench.engines.variant_run.variant_network", None)
    with pytest.raises(PointError, match="GB beside the loaded model"):
        model.variant(VARIANTS["bfloat16"], 8, 1, 8, CancelToken())


def test_cancelling_stops_a_variant_at_its_next_pass(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    cancel = CancelToken()
    plain = model.variant(AS_LOADED, 8, 1, 8, cancel)
    run = model.variant(VARIANTS["preallocated-cache"], 8, 1, 8, cancel)
    cancel.cancel()
    for act in (run.step, run.prefill, lambda: run.agreement(plain)):
        with pytest.raises(Cancelled):
            act()


def test_a_variant_that_fails_says_why(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    with pytest.raises(PointError):
        model.variant(Variant(attention="no such kernel"), 8, 1, 8, CancelToken())


@pytest.mark.skipif(sys.platform == "win32", reason="torch.compile needs a compiler set up there")
def test_a_compiled_variant_takes_each_step_through_its_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def traced(network: torch.nn.Module, **named: object) -> object:
        def kept(graph: torch.fx.GraphModule, _example: object) -> object:
            graphs.append(graph)
            return graph.forward

        return compiled(network, backend=kept, dynamic=False)

    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", traced)
    model = tiny(tmp_path, TINY_CONFIG)
    plain = model.variant(AS_LOADED, 8, 1, 8, CancelToken())
    run = model.variant(VARIANTS["compiled"], 8, 1, 8, CancelToken())
    assert run.agreement(plain).rms < EXACT
    traced_once = len(graphs)
    run.step()
    run.step()
    assert len(graphs) == traced_once > 0
    run.close()
