"""Weights on a second memory: offloaded layers are found, their share and rate told, and the ladder has their rung."""

from collections.abc import Iterator

import pytest
import torch
from accelerate import cpu_offload
from transformers import LlamaConfig, LlamaForCausalLM

from workbench.engines.second_memory import copy_rate, shares_elsewhere, slow_memory
from workbench.experiments.gap.parts import Part

CPU = torch.device("cpu")
LAYERS = 4


def ticking(step_s: float) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step_s


@pytest.fixture
def network() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).eval()


def test_a_model_on_one_device_has_no_second_memory(network: LlamaForCausalLM) -> None:
    assert shares_elsewhere(network, CPU) == {}
    assert slow_memory(network, CPU, lambda: None) is None


def test_offloaded_layers_are_a_share_of_the_weights_and_come_at_the_rate_of_the_copy(
    network: LlamaForCausalLM,
) -> None:
    ids = torch.arange(5)[None]
    with torch.inference_mode():
        before = network(input_ids=ids).logits
    cpu_offload(network.model.layers[-1], CPU)
    clock = ticking(0.5)
    found = slow_memory(network, CPU, lambda: None, lambda: next(clock))
    assert found is not None
    assert found.shares == {Part.WEIGHTS: pytest.approx(1 / LAYERS)}
    layer_bytes = 4 * sum(weight.numel() for weight in network.model.layers[-1].parameters())
    assert found.rate.value == pytest.approx(layer_bytes / 0.5)
    assert "copied" in found.source
    with torch.inference_mode():
        assert torch.equal(network(input_ids=ids).logits, before)


def test_a_head_on_another_device_is_the_head_s_share(network: LlamaForCausalLM) -> None:
    network.lm_head.to("meta")
    assert shares_elsewhere(network, CPU) == {Part.HEAD: 1.0}


def test_a_copy_waits_for_the_device() -> None:
    waited: list[None] = []
    clock = ticking(2.0)
    rate = copy_rate([torch.zeros(1000)], CPU, lambda: waited.append(None), lambda: next(clock))
    assert rate.value == pytest.approx(2000.0)
    assert len(waited) == 5
