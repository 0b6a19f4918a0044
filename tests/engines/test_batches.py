"""Batches on torch: what is inside a timed step, what the cache holds, padding, and experts counted at the router."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engines.test_ordering import LABELS, PASS_S, FakeDevice, FakeNetwork, loaded
from tests.models_on_disk import TINY_CONFIG
from workbench.ceilings.experts import touched
from workbench.engines.engine import PointError
from workbench.engines.experts_touched import counted_experts
from workbench.engines.torch_engine import TorchModel
from workbench.models.resolve import resolve
from workbench.runner import Cancelled, CancelToken

MIXTURE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
}


def tiny(folder: Path, config: dict[str, Any] = TINY_CONFIG) -> TorchModel:
    folder.mkdir(exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    torch.manual_seed(1)
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32).eval()
    return TorchModel(network, resolve(str(path)), LABELS, torch.device("cpu"), lambda: None)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_each_step_is_timed_alone_and_to_its_end_after_a_prefill_in_passes(name: str) -> None:
    device = FakeDevice()
    network = FakeNetwork(device, name)
    timing = loaded(device, network).batch((500,) * 8, 3, seed=1, cancel=CancelToken())
    assert not device.clock_read_while_queued
    assert (timing.prefill_s, timing.step_s, timing.experts_touched) == (2 * PASS_S, (PASS_S,) * 3, ())
    assert [call["tokens"] for call in network.calls] == [256, 244, 1, 1, 1]
    assert [call["kept"] for call in network.calls] == [torch.tensor([-1])] * 2 + [0] * 3
    assert [call["cache"] is None for call in network.calls] == [True, False, False, False, False]


def test_a_cache_that_did_not_begin_empty_voids_the_batch() -> None:
    device = FakeDevice()
    with pytest.raises(PointError, match="holds 13 tokens where the request had 10"):
        loaded(device, FakeNetwork(device, "cache", extra=3)).batch((7, 7), 3, seed=1, cancel=CancelToken())


def test_a_batch_without_memory_fails_and_cancelling_stops_at_the_next_layer() -> None:
    device = FakeDevice()
    network = FakeNetwork(device, "cache")
    model, cancel = loaded(device, network), CancelToken()

    def fail(*_: Any) -> None:
        raise MemoryError

    failing = network.layers[0].register_forward_hook(fail)
    with pytest.raises(PointError, match="out of memory"):
        model.batch((7,), 3, seed=1, cancel=cancel)
    failing.remove()
    network.layers[0].register_forward_hook(lambda *_: cancel.cancel())
    with pytest.raises(Cancelled):
        model.batch((7,), 3, seed=1, cancel=cancel)


def test_prefill_in_passes_and_padding_change_no_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sequence of a padded batch, prefilled in passes of two columns, gives what it gives alone in one pass."""
    model = tiny(tmp_path)
    lengths, steps = (3, 5, 9), 2
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    forward = model._network.forward

    def record(*args: Any, **named: Any) -> Any:
        out = forward(*args, **named)
        seen.append((named["input_ids"], out.logits[:, -1]))
        return out

    monkeypatch.setattr("workbench.engines.timed_passes.pass_columns", lambda *_: 2)
    monkeypatch.setattr(model._network, "forward", record)
    model.batch(lengths, steps, seed=1, cancel=CancelToken())
    ids = torch.cat([given for given, _ in seen], dim=1)
    assert ids.shape == (3, max(lengths) + steps)
    with torch.inference_mode():
        for i, length in enumerate(lengths):
            alone = forward(input_ids=ids[i : i + 1, max(lengths) - length :]).logits[0, -1]
            torch.testing.assert_close(seen[-1][1][i], alone, rtol=1e-4, atol=1e-5)


def test_the_head_runs_over_rows_that_lie_together(tmp_path: Path) -> None:
    """Over a slice of several sequences torch would copy a half-width head for each of them."""
    model = tiny(tmp_path)
    heads: list[tuple[tuple[int, ...], bool]] = []
    model._network.lm_head.register_forward_pre_hook(
        lambda _, given: heads.append((tuple(given[0].shape), given[0].is_contiguous()))
    )
    model.batch((8,) * 3, 2, seed=1, cancel=CancelToken())
    assert heads == [((3, 1, 64), True)] * 3


def test_experts_are_counted_at_the_router_of_each_layer(tmp_path: Path) -> None:
    model = tiny(tmp_path, MIXTURE)
    one = model.batch((8,), 1, seed=1, cancel=CancelToken()).experts_touched
    assert one == (4, 4, 4)
    many = model.batch((8,) * 8, 1, seed=2, cancel=CancelToken()).experts_touched
    expected = touched(model.model, 8)
    assert expected is not None
    assert all(4 <= count <= 32 for count in many)
    assert sum(many) / len(many) == pytest.approx(expected.value, rel=0.25)


class Scores(torch.nn.Module):
    """A layer whose gate gives scores, as before transformers 5, beside gates that choose no experts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(4, 6, bias=False)
        self.shared = torch.nn.ModuleDict({"gate": torch.nn.Linear(4, 1)})

    def forward(self, rows: torch.Tensor) -> None:
        self.gate(rows)
        self.shared["gate"](rows)


def test_a_gate_that_gives_scores_is_counted_by_the_largest() -> None:
    layer = Scores()
    layer.gate.weight.data = torch.eye(6, 4)
    with counted_experts(layer, experts=6, used=1) as counts:
        layer(torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 3.0, 0, 0]]))
    layer(torch.ones(1, 4))
    assert counts == [2]


@pytest.mark.parametrize("drawn", [False, True])
def test_steps_of_a_synthetic_mixture_are_given_tokens_of_their_own(tmp_path: Path, drawn: bool) -> None:
    """One that chooses the same token over and over would find that token's experts in a cache."""
    model = tiny(tmp_path, MIXTURE)
    model._passes._drawn = drawn
    given: list[list[int]] = []
    model._network.register_forward_pre_hook(
        lambda _, __, named: given.append(named["input_ids"].flatten().tolist()), with_kwargs=True
    )
    with torch.no_grad():
        model._network.lm_head.weight.zero_()
    model.prepare(4, seed=1)
    model.request(5, CancelToken())
    model.batch((4, 4), 4, seed=1, cancel=CancelToken())
    prefills = [tokens for tokens in given if len(tokens) > 2]
    steps = [tokens for tokens in given if len(tokens) <= 2]
    assert len(prefills) == 2
    # The last pass of a batch counts experts and is not timed.
    assert len(steps) == 4 + 4 + 1
    assert len({tuple(tokens) for tokens in steps}) == (9 if drawn else 2)
