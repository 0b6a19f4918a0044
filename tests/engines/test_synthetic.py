"""Synthetic weights: every value in memory of its own, none denormal, tied where the model ties."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engines.test_batches import MIXTURE as THREE_LAYERS
from workbench.engines.experts_touched import counted_experts
from workbench.engines.synthetic import fill
from workbench.engines.torch_engine import load
from workbench.experiments.plan import Plan, plan
from workbench.experiments.settings import SweepSettings
from workbench.runner import CancelToken

MIXTURE = {key: value for key, value in THREE_LAYERS.items() if key != "num_hidden_layers"}


def planned(dtype: str = "float32") -> Plan:
    return plan(SweepSettings(model="smollm2-135m", prompts=(4,), new_tokens=3, dtype=dtype, device="cpu"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_are_finite_distinct_and_never_denormal(dtype: str) -> None:
    model = load(planned(dtype), CancelToken())
    network = model._network
    smallest = torch.finfo(getattr(torch, dtype)).smallest_normal
    addresses: set[int] = set()
    parameters = 0
    for name, weight in network.named_parameters():
        assert weight.dtype == getattr(torch, dtype), name
        assert weight.isfinite().all(), name
        assert weight.abs().min() >= smallest, name
        addresses.add(weight.data_ptr())
        parameters += weight.numel()
    assert len(addresses) == sum(1 for _ in network.parameters())
    assert parameters == model.model.parameters == 134_515_008
    assert network.get_output_embeddings().weight is network.get_input_embeddings().weight
    with torch.inference_mode():
        logits = network(torch.arange(8)[None]).logits
    assert logits.isfinite().all()
    model.close()


def test_no_two_pages_of_a_weight_are_the_same() -> None:
    model = load(planned(), CancelToken())
    weight = model._network.get_input_embeddings().weight.view(-1)
    pages = weight[: weight.numel() // 1024 * 1024].view(-1, 1024)
    assert torch.unique(pages[:, :4], dim=0).shape[0] == pages.shape[0]


def test_the_cache_of_a_request_holds_the_bytes_the_arithmetic_says() -> None:
    model = load(planned(), CancelToken())
    with torch.inference_mode():
        out = model._network(torch.arange(10)[None], use_cache=True)
    cache = next(out[name] for name in ("cache", "past_key_values") if name in out)
    held = sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))
    assert held == model.model.kv_elements_read(10) * 4


def test_tokens_of_synthetic_weights_are_routed_to_all_experts_as_those_of_trained_ones_are() -> None:
    config = AutoConfig.for_model(**MIXTURE, num_hidden_layers=12)
    network = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    fill(network, 0.02)
    ids = torch.randint(0, 512, (1, 64), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode(), counted_experts(network, 32, 4) as touched:
        network(ids)
    assert len(touched) == 12
    assert min(touched) >= 30, touched


class Called(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what torch calls."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_the_head_of_a_prefills_last_position_is_one_product_without_a_copy_of_its_weights() -> None:
    network = load(planned("bfloat16"), CancelToken())._network
    rows = torch.ones(1, 256, network.config.hidden_size, dtype=torch.bfloat16)
    # Inference mode tells less of what it calls, and calls the same.
    with torch.no_grad(), Called() as called:
        network.get_output_embeddings()(rows[:, -1:])
    assert "mm" in called.names
    assert "bmm" not in called.names
