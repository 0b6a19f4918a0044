"""On a device that works through a queue, the clock is read only when everything queued has finished."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workbench.engines.engine import EngineLabels, PointError
from workbench.engines.torch_engine import TorchModel
from workbench.hardware.probe.model_rates import WeightReader, matrix_rate
from workbench.models.resolve import resolve
from workbench.runner import Cancelled, CancelToken

LABELS = EngineLabels("transformers", "0", "none", "float32", "fake", 1)
PASS_S = 1.0


class FakeDevice:
    """Work is queued at once and takes time only when it is waited for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queued = 0.0
        self.clock_read_while_queued = False

    def synchronise(self) -> None:
        self.now += self.queued
        self.queued = 0.0

    def clock(self) -> float:
        self.clock_read_while_queued |= self.queued > 0
        return self.now


class FakeCache:
    def __init__(self, extra: int = 0) -> None:
        self.length = extra

    def get_seq_length(self) -> int:
        return self.length


class FakeNetwork(torch.nn.Module):
    """Speaks like transformers, whichever name it has for the cache, and queues a second for each pass."""

    def __init__(self, device: FakeDevice, name: str, extra: int = 0) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()])
        self.device, self.name, self.extra = device, name, extra
        self.calls: list[dict[str, Any]] = []
        if name == "cache":
            self.forward = self._forward_new
        else:
            self.forward = self._forward_old

    def _forward_new(self, input_ids: Any, cache: Any = None, use_cache: bool = False, logits_to_keep: int = 0) -> Any:
        return self._pass(input_ids, cache, logits_to_keep)

    def _forward_old(
        self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False, logits_to_keep: int = 0
    ) -> Any:
        return self._pass(input_ids, past_key_values, logits_to_keep)

    def _pass(self, ids: torch.Tensor, cache: FakeCache | None, kept: int) -> Any:
        self.calls.append({"tokens": ids.shape[1], "cache": cache, "kept": kept})
        self.device.queued += PASS_S
        cache = cache or FakeCache(self.extra)
        cache.length += ids.shape[1]
        for layer in self.layers:
            layer(ids)
        return Output({"logits": torch.zeros(1, 1, 8), self.name: cache})


class Output(dict[str, Any]):
    @property
    def logits(self) -> torch.Tensor:
        logits: torch.Tensor = self["logits"]
        return logits


def loaded(device: FakeDevice, network: FakeNetwork) -> TorchModel:
    return TorchModel(network, resolve("smollm2-135m"), LABELS, torch.device("cpu"), device.synchronise, device.clock)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_each_phase_is_timed_to_its_end_and_decode_goes_on_from_the_prefills_cache(name: str) -> None:
    device = FakeDevice()
    network = FakeNetwork(device, name)
    model = loaded(device, network)
    model.prepare(7, seed=1)
    timing = model.request(5, CancelToken())
    assert not device.clock_read_while_queued
    assert (timing.ttft_s, timing.decode_s, timing.steps) == (PASS_S, 4 * PASS_S, 4)
    assert [call["tokens"] for call in network.calls] == [7, 1, 1, 1, 1]
    assert network.calls[0]["kept"] == 1
    assert network.calls[0]["cache"] is None
    assert len({id(call["cache"]) for call in network.calls[1:]}) == 1


def test_a_cache_that_did_not_begin_empty_voids_the_timing() -> None:
    device = FakeDevice()
    model = loaded(device, FakeNetwork(device, "cache", extra=3))
    model.prepare(7, seed=1)
    with pytest.raises(PointError, match="holds 14 tokens where the request had 11"):
        model.request(5, CancelToken())


def test_cancelling_stops_at_the_next_layer() -> None:
    device = FakeDevice()
    network = FakeNetwork(device, "cache")
    cancel = CancelToken()
    passed: list[int] = []
    network.layers[0].register_forward_hook(lambda *_: cancel.cancel())
    network.layers[1].register_forward_hook(lambda *_: passed.append(1))
    model = loaded(device, network)
    model.prepare(7, seed=1)
    with pytest.raises(Cancelled):
        model.request(5, cancel)
    assert passed == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "out of memory"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory"),
        (MemoryError(), "out of memory"),
        (RuntimeError("shapes differ\nmore"), "shapes differ"),
    ],
)
def test_a_pass_that_fails_is_the_points_failure(error: Exception, reason: str) -> None:
    device = FakeDevice()
    network = FakeNetwork(device, "cache")

    def fail(*_: Any) -> None:
        raise error

    network.layers[0].register_forward_hook(fail)
    model = loaded(device, network)
    model.prepare(7, seed=1)
    with pytest.raises(PointError, match=reason):
        model.request(5, CancelToken())


def test_the_probe_reads_no_clock_while_work_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    weight = torch.ones(4, 8)

    def queue(*_: Any) -> torch.Tensor:
        device.queued += 2.0
        return torch.zeros(1)

    monkeypatch.setattr(torch, "sum", queue)
    monkeypatch.setattr(torch, "amax", queue)
    monkeypatch.setattr(torch, "dot", queue)
    monkeypatch.setattr(torch.nn, "functional", SimpleNamespace(linear=queue))
    assert WeightReader([weight], device.synchronise, device.clock).rate().value == 4 * 8 * 4 / 2.0
    assert matrix_rate(weight, device.synchronise, device.clock).value == 2 * 1024 * 8 * 4 / 2.0
    assert not device.clock_read_while_queued
