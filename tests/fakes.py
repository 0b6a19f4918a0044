"""Stand-ins with known answers: a row, and an engine whose every timing is decided beforehand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from workbench.engines.engine import BatchTiming, BoxRates, EngineLabels, PointError, RequestTiming
from workbench.experiments.gap.floors import SlowMemory
from workbench.experiments.gap.parts import Dissection, InPlace, Part, Sample
from workbench.experiments.gap.variant import Agreement, Variant, VariantRun
from workbench.experiments.plan import LoadPlan
from workbench.models.model import Model
from workbench.quantity import Origin, Quantity, Unit
from workbench.runner import CancelToken
from workbench.runs.row import Row

READ_RATE = 20e9
PLAIN_STEP_S = 0.125
PRODUCT_RATE = 100e9


def a_row(**changed: Any) -> Row:
    values: dict[str, Any] = {
        "run_id": "20260101-000000-aaaa",
        "started_at": "2026-01-01T00:00:00Z",
        "kind": "prefill_decode",
        "machine": "a box · 2 cores · 24 GB",
        "track": "this machine",
        "engine": "transformers",
        "engine_version": "5.24.0",
        "model": "qwen3-0.6b",
        "architecture": "qwen3",
        "quantisation": "none",
        "dtype": "float32",
        "device": "cpu",
        "threads": 2,
        "weights": "synthetic",
        "prompt_tokens": 16,
        "context_tokens": 24,
        "batch": 1,
        "new_tokens": 17,
        "repeats": 3,
    }
    return Row(**{**values, **changed})


@dataclass
class FakePass:
    """A pass whose parts take as long as they are given, with `framework_s` between them and no noise at all.

    `waited_s` is what the whole pass waited for cores on top of that.
    """

    parts_s: Mapping[Part, float]
    framework_s: float
    waited_s: float = 0.0
    clocks_in_place: bool = True
    same: bool = True

    def whole(self) -> Sample:
        return self._sample(sum(self.parts_s.values()) + self.framework_s)

    def without(self, parts: Sequence[Part]) -> Sample:
        return self._sample(sum(s for part, s in self.parts_s.items() if part not in parts) + self.framework_s)

    def alone(self, part: Part) -> Sample:
        return self._sample(self.parts_s[part])

    def in_place(self) -> InPlace | None:
        return InPlace(Sample(self.whole().own_s), self.parts_s) if self.clocks_in_place else None

    def unchanged(self) -> bool:
        return self.same

    def _sample(self, own_s: float) -> Sample:
        return Sample(own_s + self.waited_s, self.waited_s, self.waited_s)


FAKE_PARTS_S: Mapping[Part, float] = {
    Part.WEIGHTS: 0.200,
    Part.HEAD: 0.040,
    Part.ATTENTION: 0.010,
    Part.CACHE: 0.008,
    Part.ELEMENTWISE: 0.006,
    Part.SAMPLING: 0.001,
}


@dataclass
class FakeModel:
    """A loaded model that sleeps for nobody: TTFT is 1 ms a token, TPOT 10 ms, unless told to fail.

    The steps of a batch take 10, 30, 20, 30, 20 … ms, and as much again for every 8 sequences.
    """

    model: Model
    labels: EngineLabels
    failing_prompts: frozenset[int] = frozenset()
    on_request: Callable[[int], None] = lambda prompt: None
    prepared: list[tuple[int, int]] = field(default_factory=list)
    batches: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    failing_batches: frozenset[int] = frozenset()
    free: int = 1 << 40
    closed: bool = False
    full: FakePass = field(default_factory=lambda: FakePass(FAKE_PARTS_S, 0.020))
    speeds: Mapping[Variant, float] = field(default_factory=dict)
    disagreeing: frozenset[Variant] = frozenset()
    refused: frozenset[Variant] = frozenset()
    calls: list[str] = field(default_factory=list)
    slow: SlowMemory | None = None
    now: float = 0.0

    def box_rates(self) -> BoxRates:
        return BoxRates(
            read=Quantity("read rate", READ_RATE, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B", source="a fake"),
            product=Quantity("product rate", PRODUCT_RATE, Unit.FLOP_PER_SECOND, Origin.MEASURED, "C"),
        )

    def slow_memory(self) -> SlowMemory | None:
        return self.slow

    def read_again(self) -> Quantity:
        return Quantity("read rate", READ_RATE, Unit.BYTES_PER_SECOND, Origin.MEASURED, "B", source="a fake, again")

    def prepare(self, prompt_tokens: int, seed: int) -> None:
        self.prepared.append((prompt_tokens, seed))

    def request(self, new_tokens: int, cancel: CancelToken) -> RequestTiming:
        prompt = self.prepared[-1][0]
        self.on_request(prompt)
        cancel.check()
        if prompt in self.failing_prompts:
            raise PointError("out of memory")
        repeats = sum(1 for p, _ in self.prepared if p == prompt)
        return RequestTiming(0.001 * prompt * repeats, 0.010 * (new_tokens - 1) * repeats, new_tokens - 1)

    def free_bytes(self) -> int:
        return self.free

    def batch(self, lengths: Sequence[int], steps: int, seed: int, cancel: CancelToken) -> BatchTiming:
        self.batches.append((tuple(lengths), seed))
        self.on_request(len(lengths))
        cancel.check()
        if len(lengths) in self.failing_batches:
            raise PointError("out of memory")
        slower = 1 + len(lengths) // 8
        step_s = tuple(slower * (0.010 if i == 0 else 0.030 if i % 2 else 0.020) for i in range(steps))
        touched = (self.model.experts_used, self.model.experts) if self.model.experts else ()
        return BatchTiming(0.001 * sum(lengths), step_s, touched)

    def dissect(self, tokens: int, batch: int, seed: int, *, prefill: bool, cancel: CancelToken) -> Dissection:
        self.on_request(tokens)
        cancel.check()
        if tokens in self.failing_prompts:
            raise PointError("out of memory")
        return Dissection(self.full, None, FakePass(dict.fromkeys(Part, 0.0), self.full.framework_s))

    def variant(
        self, variant: Variant, tokens: int, batch: int, prompt_tokens: int, cancel: CancelToken
    ) -> "FakeVariant":
        self.calls.append(f"ready: {variant}")
        cancel.check()
        if variant in self.refused:
            raise PointError("it needs 9.0 GB beside the loaded model, and 1.0 GB are free")
        return FakeVariant(self, variant, prompt_tokens, cancel)

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeVariant:
    """A variant whose step is the plain one's over the product of its changes' speeds, on a clock that it moves."""

    owner: FakeModel
    variant: Variant
    prompt_tokens: int
    cancel: CancelToken
    weight_bytes: int = 1_000_000

    def step(self) -> float:
        self.cancel.check()
        self.owner.calls.append(f"step: {self.variant}")
        return self._passed(PLAIN_STEP_S / self._speed())

    def prefill(self) -> float:
        self.owner.calls.append(f"prefill: {self.variant}")
        return self._passed(2 * PLAIN_STEP_S)

    def agreement(self, plain: VariantRun) -> Agreement:
        self.owner.calls.append(f"agreement: {self.variant}")
        off = any(self.variant.with_change(each) == self.variant for each in self.owner.disagreeing)
        return Agreement(1.0 if off else 0.01, 0.0, 0.5 if off else 1.0, 20)

    def close(self) -> None:
        self.owner.calls.append(f"closed: {self.variant}")

    def _speed(self) -> float:
        changes = [each for each in self.owner.speeds if self.variant.with_change(each) == self.variant]
        return prod(self.owner.speeds[each] for each in changes)

    def _passed(self, seconds: float) -> float:
        self.owner.now += seconds
        return seconds


def fake_load(
    failing_prompts: frozenset[int] = frozenset(), on_request: Callable[[int], None] = lambda prompt: None
) -> Callable[[LoadPlan, CancelToken], FakeModel]:
    def load(planned: LoadPlan, cancel: CancelToken) -> FakeModel:
        labels = EngineLabels("fake", "1", "none", planned.settings.dtype, "cpu", planned.settings.threads or 2)
        return FakeModel(planned.resident, labels, failing_prompts, on_request)

    return load
