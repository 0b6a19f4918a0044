"""A pass taken apart on torch, on a clock that only planted delays move: each is found where it was planted."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, cache_utils

from tests.engines.test_batches import MIXTURE, tiny
from tests.models_on_disk import TINY_CONFIG
from workbench.engines import dissection
from workbench.engines.narrow import narrow_network
from workbench.engines.torch_engine import TorchModel
from workbench.experiments.gap.parts import Dissection, Part, Sample
from workbench.runner import Cancelled, CancelToken

WIDTHS: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
}
FAMILIES: Mapping[str, dict[str, Any]] = {
    "plain": TINY_CONFIG,
    "mixture": MIXTURE,
    "sliding": {
        **WIDTHS,
        "model_type": "gemma3_text",
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "sinks": {
        **WIDTHS,
        "model_type": "gpt_oss",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "latent": {
        **WIDTHS,
        "model_type": "deepseek_v3",
        "moe_intermediate_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "head_dim": 8,
        "num_key_value_heads": 4,
    },
}
DELAYS_S = {Part.WEIGHTS: 1.0, Part.HEAD: 30.0, Part.ATTENTION: 5.0, Part.CACHE: 0.25, Part.ELEMENTWISE: 0.0}
FRAMEWORK_S = 700.0


class PlantedClock:
    """Seconds that pass only where something was planted."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float) -> Any:
        def passed(*_: Any) -> None:
            self.now += seconds

        return passed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PlantedClock:
    monkeypatch.setattr(dissection, "waited_s", dict)
    planted = PlantedClock()
    update = cache_utils.DynamicLayer.update

    def slow_update(*given: Any, **named: Any) -> Any:
        planted.now += DELAYS_S[Part.CACHE]
        return update(*given, **named)

    monkeypatch.setattr(cache_utils.DynamicLayer, "update", slow_update)
    return planted


def planted(network: torch.nn.Module, clock: PlantedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delays in every linear layer, the head, attention and the model's own forward."""
    head = network.get_output_embeddings()  # type: ignore[operator]
    for module in network.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(clock.after(DELAYS_S[Part.HEAD if module is head else Part.WEIGHTS]))
    network.register_forward_pre_hook(clock.after(FRAMEWORK_S))
    interface = sys.modules[type(network).__module__].ALL_ATTENTION_FUNCTIONS
    attend = interface["sdpa"]

    def slow(*given: Any, **named: Any) -> Any:
        clock.now += DELAYS_S[Part.ATTENTION]
        return attend(*given, **named)

    monkeypatch.setitem(interface._local_mapping, "sdpa", slow)


def taken_apart(model: TorchModel, *, prefill: bool = False, tokens: int = 20, batch: int = 1) -> Dissection:
    return model.dissect(tokens, batch, 3, prefill=prefill, cancel=CancelToken())


@pytest.mark.parametrize("prefill", [False, True])
def test_each_planted_delay_is_found_in_its_part_every_way(
    tmp_path: Path, clock: PlantedClock, monkeypatch: pytest.MonkeyPatch, prefill: bool
) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    planted(model._network, clock, monkeypatch)
    model._clock = clock
    full = taken_apart(model, prefill=prefill).full
    layers = TINY_CONFIG["num_hidden_layers"]
    expected = {
        Part.WEIGHTS: layers * 7 * DELAYS_S[Part.WEIGHTS],
        Part.HEAD: DELAYS_S[Part.HEAD],
        Part.ATTENTION: layers * DELAYS_S[Part.ATTENTION],
        Part.CACHE: layers * DELAYS_S[Part.CACHE],
        Part.ELEMENTWISE: 0.0,
        Part.SAMPLING: 0.0,
    }
    whole = full.whole()
    assert whole == Sample(sum(expected.values()) + FRAMEWORK_S)
    assert {part: full.alone(part).wall_s for part in Part} == expected
    assert {part: whole.wall_s - full.without([part]).wall_s for part in Part} == expected
    clocked = full.in_place()
    assert clocked is not None
    assert clocked.parts_s == expected
    assert clocked.between_s == FRAMEWORK_S
    assert full.without(tuple(Part)).wall_s == FRAMEWORK_S
    assert full.unchanged()
    assert full.whole() == whole


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("prefill", "batch"), [(False, 1), (False, 3), (True, 2)])
def test_every_family_can_be_taken_apart_and_is_unchanged_by_it(
    tmp_path: Path, family: str, prefill: bool, batch: int
) -> None:
    model = tiny(tmp_path, FAMILIES[family])
    parts = taken_apart(model, prefill=prefill, batch=batch)
    assert parts.narrow is not None
    assert (parts.short is None) == (batch == 1)
    for each in filter(None, (parts.full, parts.short, parts.narrow)):
        each.whole()
        for part in Part:
            each.alone(part)
            each.without([part])
        each.without(tuple(Part))
        clocked = each.in_place()
        assert clocked is not None
        assert all(seconds > 0 for seconds in clocked.parts_s.values())
        assert each.unchanged()


@pytest.mark.parametrize("family", ["plain", "sliding"])
def test_the_cache_of_a_step_holds_the_context_whatever_was_run(tmp_path: Path, family: str) -> None:
    model = tiny(tmp_path, FAMILIES[family])
    full = taken_apart(model, tokens=100).full
    assert isinstance(full, dissection.PassDissection)
    cache = full._kept.cache
    for run in (full.whole, lambda: full.alone(Part.CACHE), lambda: full.without([Part.CACHE])):
        run()
        assert cache.get_seq_length() == 100
    windows = [layer.keys.shape[-2] for layer in cache.layers]
    assert windows == ([100] * len(windows) if family == "plain" else [7, 100])


def test_a_filled_cache_gives_the_logits_of_one_that_was_prefilled(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    full = taken_apart(model, tokens=6).full
    assert isinstance(full, dissection.PassDissection)
    ids = full._run.ids[:, :1]
    with torch.inference_mode():
        again = model._network(input_ids=ids.expand(-1, 7), use_cache=True).logits[:, -1:]
    assert torch.allclose(full._logits, again, atol=1e-5)


def test_a_changed_network_is_noticed(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    full = taken_apart(model).full
    with torch.no_grad():
        model._network.get_output_embeddings().weight.mul_(2)
    assert not full.unchanged()


def test_cancelling_stops_a_pass_at_its_next_layer_and_leaves_the_network_as_it_was(tmp_path: Path) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    cancel = CancelToken()
    full = model.dissect(20, 1, 3, prefill=False, cancel=cancel).full
    cancel.cancel()
    for run in (full.whole, full.in_place, lambda: full.without([Part.WEIGHTS])):
        with pytest.raises(Cancelled):
            run()
    assert not any("_compiled_call_impl" in module.__dict__ for module in model._network.modules())


def test_a_narrow_model_has_as_many_layers_heads_and_experts() -> None:
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**MIXTURE), dtype=torch.float32).eval()
    narrow = narrow_network(network)
    assert narrow is not None
    assert [type(module) for module in narrow.modules()] == [type(module) for module in network.modules()]
    assert sum(p.numel() for p in narrow.parameters()) < sum(p.numel() for p in network.parameters()) / 2
    assert network.config.hidden_size == MIXTURE["hidden_size"]


def test_a_model_that_can_not_be_narrowed_is_taken_apart_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(tmp_path, TINY_CONFIG)

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("hidden_size must be a power of two")

    monkeypatch.setattr(type(model._network), "_from_config", refuse)
    assert taken_apart(model).narrow is None


def test_a_narrow_model_that_does_not_run_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(tmp_path, TINY_CONFIG)
    monkeypatch.setattr("workbench.engines.narrow.narrow_network", lambda _: torch.nn.Identity())
    assert taken_apart(model).narrow is None
