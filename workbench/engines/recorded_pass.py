"""A pass of a transformers model whose calls are recorded by part, to be replayed alone or left out of the pass."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch

from workbench.engines.experts_touched import routers
from workbench.experiments.gap.parts import Part

MOST_ELEMENTS_KEPT = 1 << 18
"""A larger tensor that is no cache stands in for all others of its shape: only its size matters to the time."""
INTERFACE = "ALL_ATTENTION_FUNCTIONS"
CALLED = "_compiled_call_impl"
"""What torch calls in the place of a module's hooks and forward, where it is set: meant for a compiled module."""


@dataclass(frozen=True)
class Call:
    """One call of a pass: what runs it again, and what it gave."""

    part: Part
    place: Any
    again: Callable[[], Any]
    gave: Any


class RecordedPass:
    """What a network and a cache call during one pass, by part.

    The parts are found by what a module holds: one with a matrix of its own is a weight kernel, any other without
    children is elementwise work. Attention is what transformers' attention interface is asked for, cache handling the
    cache's `update`. What a model computes outside of these stays in the pass when every part is left out.
    """

    def __init__(self, network: torch.nn.Module, cache: Any) -> None:
        self._cache = cache
        self._modules = modules_by_part(network)
        self._attention = _attention_interfaces(network)
        self.calls: list[Call] = []
        self._kept: dict[tuple[Any, ...], torch.Tensor] = {}
        self._cached: set[int] = set()

    def record(self, run: Callable[[], Any]) -> None:
        """Run the pass once and keep what it called."""

        def recording(place: Any, part: Part, called: Callable[..., Any]) -> Callable[..., Any]:
            def kept(*given: Any, **named: Any) -> Any:
                out = called(*given, **named)
                if part is Part.CACHE:
                    self._cached.update(id(tensor) for tensor in out if torch.is_tensor(tensor))
                held, held_named = self._held(given), self._held(named)
                self.calls.append(Call(part, place, lambda: called(*held, **held_named), self._held(out)))
                return out

            return kept

        with self._replaced(recording):
            run()

    def sampling(self, run: Callable[[], Any]) -> Any:
        """Run what chooses the next token and keep it as a call of its own."""
        gave = run()
        self.calls.append(Call(Part.SAMPLING, Part.SAMPLING, run, gave))
        return gave

    def without(self, parts: Sequence[Part]) -> AbstractContextManager[None]:
        """Have the calls of these parts give at once what they gave when they were recorded."""
        gave: dict[Any, list[Any]] = {}
        for call in self.calls:
            if call.part in parts:
                gave.setdefault(call.place, []).append(call.gave)
        giving = {place: _giving(results) for place, results in gave.items()}
        return self._replaced(lambda place, part, called: giving.get(place))

    @contextmanager
    def in_place(self, clock: Callable[[], float]) -> Iterator[dict[Part, float]]:
        """Read the clock before and after each call of a part inside the running pass; yields their seconds by part."""
        seconds = dict.fromkeys(Part, 0.0)

        def clocked(_place: Any, part: Part, called: Callable[..., Any]) -> Callable[..., Any]:
            def timing(*given: Any, **named: Any) -> Any:
                start = clock()
                out = called(*given, **named)
                seconds[part] += clock() - start
                return out

            return timing

        with self._replaced(clocked):
            yield seconds

    @contextmanager
    def _replaced(
        self, instead: Callable[[Any, Part, Callable[..., Any]], Callable[..., Any] | None]
    ) -> Iterator[None]:
        """Have each place call what `instead` gives for it, its part and what it called; None leaves it alone."""
        with ExitStack() as stack:
            for module, part in self._modules.items():
                if (other := instead(module, part, _called(module))) is not None:
                    stack.enter_context(_attribute_of(module, CALLED, other))
            for interface, key in self._attention:
                place, called = (id(interface), key), _attending(interface.get(key))
                if (other := instead(place, Part.ATTENTION, called)) is not None:
                    stack.enter_context(_entry_of(interface, key, other))
            if (other := instead(Part.CACHE, Part.CACHE, self._cache.update)) is not None:
                stack.enter_context(_attribute_of(self._cache, "update", other))
            yield

    def again(self, part: Part) -> None:
        """Run the calls of a part, in the pass's order."""
        for call in self.calls:
            if call.part is part:
                call.again()

    def _held(self, value: Any) -> Any:
        """The value with its large tensors replaced by one of each shape, unless they are of the cache."""
        match value:
            case torch.Tensor():
                if value.numel() <= MOST_ELEMENTS_KEPT or id(value) in self._cached or not value.is_floating_point():
                    return value
                return self._kept.setdefault((value.shape, value.stride(), value.dtype), value)
            case tuple() if type(value) is tuple:
                return tuple(self._held(item) for item in value)
            case list():
                return [self._held(item) for item in value]
            case dict():
                return {name: self._held(item) for name, item in value.items()}
            case _:
                return value


def _giving(gave: Sequence[Any]) -> Callable[..., Any]:
    again = cycle(gave)
    return lambda *_given, **_named: next(again)


def modules_by_part(network: torch.nn.Module) -> dict[torch.nn.Module, Part]:
    """The modules whose calls are timed, none of them inside another."""
    head, table = network.get_output_embeddings(), network.get_input_embeddings()  # type: ignore[operator]
    choosing = set(routers(network))
    found: dict[torch.nn.Module, Part] = {}
    inside: set[torch.nn.Module] = set()
    for module in network.modules():
        if module in inside:
            continue
        part = None
        if module is head:
            part = Part.HEAD
        elif module in choosing or module is table:
            part = Part.ELEMENTWISE
        elif max((p.ndim for p in module.parameters(recurse=False)), default=0) >= (3 if _has_children(module) else 2):
            part = Part.WEIGHTS
        elif not _has_children(module) and type(module) is not torch.nn.ModuleList:
            part = Part.ELEMENTWISE
        if part is not None:
            found[module] = part
            inside.update(module.modules())
    return found


def _has_children(module: torch.nn.Module) -> bool:
    return next(module.children(), None) is not None


def _attention_interfaces(network: torch.nn.Module) -> list[tuple[Any, str]]:
    """Each attention interface that the network's own code asks, by the implementation asked for."""
    found: dict[tuple[int, str], tuple[Any, str]] = {}
    for module in network.modules():
        interface = getattr(sys.modules.get(type(module).__module__), INTERFACE, None)
        key = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if interface is not None and key is not None:
            found[id(interface), key] = (interface, key)
    return list(found.values())


def _called(module: torch.nn.Module) -> Callable[..., Any]:
    """What a call of the module runs, its hooks as well as its forward."""
    called: Callable[..., Any] = module.__dict__.get(CALLED) or module._call_impl
    return called


def _attending(function: Callable[..., Any] | None) -> Callable[..., Any]:
    """The attention an interface gives; where it knows none, the plain one of the asking module's own code."""

    def plain(module: Any, *given: Any, **named: Any) -> Any:
        return sys.modules[type(module).__module__].eager_attention_forward(module, *given, **named)

    return function or plain


@contextmanager
def _attribute_of(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give one object an attribute of its own for a while."""
    missing = object()
    before = owner.__dict__.get(name, missing)
    owner.__dict__[name] = value
    try:
        yield
    finally:
        if before is missing:
            del owner.__dict__[name]
        else:
            owner.__dict__[name] = before


@contextmanager
def _entry_of(interface: Any, key: str, function: Callable[..., Any]) -> Iterator[None]:
    """Have an interface give this function for a while."""
    own = interface._local_mapping
    before = own.get(key)
    own[key] = function
    try:
        yield
    finally:
        if before is None:
            del own[key]
        else:
            own[key] = before
