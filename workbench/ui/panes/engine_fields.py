"""The fields of Setup that belong to one engine: shown while it is chosen, and read into its settings."""

from collections.abc import Iterable, Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from workbench.experiments.engine_settings import (
    APIS,
    ENDPOINT,
    ENGINES,
    LLAMA_BENCH,
    LLAMA_CPP,
    LLAMA_CPP_CACHES,
    TRANSFORMERS,
    EndpointSettings,
    LlamaCppSettings,
)
from workbench.experiments.gap.named_variants import names_of, variant_named
from workbench.experiments.settings import DEVICES, SweepSettings, Weights
from workbench.hardware.machine import this_machine
from workbench.models.cache_types import CACHE_TYPE_BYTES
from workbench.models.model import DTYPE_BYTES
from workbench.tracks import hardware_named
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry
from workbench.ui.widgets.field import field, number, whole_number

AUTO = "auto"
LLAMA = (LLAMA_CPP, LLAMA_BENCH)
HERE = (TRANSFORMERS, *LLAMA)


class EngineFields(Vertical):
    """The choice of an engine, and what can be set for the one chosen."""

    def __init__(self, first: SweepSettings, *, id: str) -> None:
        super().__init__(id=id)
        self._first = first

    def compose(self) -> ComposeResult:
        """Every field of every engine; those of others than the chosen one are not shown."""
        first, server, llama = self._first, self._first.endpoint, self._first.llama_cpp
        yield from field("engine", Choice(ENGINES, first.engine, id="engine"))
        yield from _of((TRANSFORMERS,), "weights", Choice((AUTO, *Weights), first.weights or AUTO, id="weights"))
        yield from _of((TRANSFORMERS,), "dtype", Choice(tuple(DTYPE_BYTES), first.dtype, id="dtype"))
        yield from _of((TRANSFORMERS,), "device", Choice(DEVICES, first.device, id="device"))
        all_cores = f"all {this_machine().cores}"
        yield from _of(HERE, "threads", Entry(_text(first.threads), all_cores, id="threads"))
        levers = ",".join(names_of(first.variant))
        yield from _of((TRANSFORMERS,), "levers", Entry(levers, "none: as loaded", id="levers"))
        yield from _of((LLAMA_BENCH,), "llama-bench", Entry(llama.program, "as on the PATH", id="program"))
        yield from _of(LLAMA, "batch tokens", Entry(str(llama.batch_tokens), id="batch-tokens"))
        yield from _of(LLAMA, "micro-batch", Entry(str(llama.micro_batch_tokens), id="micro-batch-tokens"))
        yield from _of(LLAMA, "cache keys", Choice(LLAMA_CPP_CACHES, llama.cache_k, id="cache-k"))
        yield from _of(LLAMA, "cache values", Choice(LLAMA_CPP_CACHES, llama.cache_v, id="cache-v"))
        layers = Entry(_text(llama.gpu_layers), "llama.cpp chooses", id="gpu-layers")
        yield from _of(LLAMA, "GPU layers", layers)
        server_fields: Iterable[tuple[str, Widget]] = (
            ("endpoint", Entry(server.url, "http://host:port", id="endpoint")),
            ("its model", Entry(server.served_model, "its first", id="served-model")),
            ("API", Choice(APIS, server.api, id="api")),
            ("runs on", Entry(server.hardware, "a preset device", id="hardware")),
            ("devices", Entry(str(server.devices), id="devices")),
            ("cache type", Choice(tuple(CACHE_TYPE_BYTES), server.cache_type, id="cache-type")),
            ("time-out s", Entry(_text(server.timeout_s), id="timeout")),
            ("arrivals/s", Entry(_text(server.rate), "all at once", id="rate")),
            ("TTFT limit ms", Entry(_text(server.ttft_limit_ms), "none", id="ttft-limit")),
            ("TPOT limit ms", Entry(_text(server.tpot_limit_ms), "none", id="tpot-limit")),
        )
        for label, widget in server_fields:
            yield from _of((ENDPOINT,), label, widget)

    def on_mount(self) -> None:
        """Hide what belongs to other engines before the first picture."""
        self._show_chosen()

    @property
    def engine(self) -> str:
        """The engine chosen."""
        return self.query_one("#engine", Choice).value

    @on(Choice.Changed, "#engine")
    def _show_chosen(self) -> None:
        chosen = _class_of(self.engine)
        for row in self.query(".of-engine"):
            row.display = row.has_class(chosen)

    def settings(self) -> dict[str, Any]:
        """The engine and what its fields say, as fields of run settings; those of other engines are left as they are.

        Raises SettingsError where one holds no number, or a name that isn't known.
        """
        match self.engine:
            case "transformers":
                return self._transformers()
            case "endpoint":
                return {"engine": ENDPOINT, "endpoint": self._endpoint()}
            case engine:
                return {"engine": engine, "threads": self._whole("threads", "threads"), "llama_cpp": self._llama_cpp()}

    def _transformers(self) -> dict[str, Any]:
        weights = self.query_one("#weights", Choice).value
        return {
            "engine": TRANSFORMERS,
            "weights": None if weights == AUTO else Weights(weights),
            "dtype": self.query_one("#dtype", Choice).value,
            "device": self.query_one("#device", Choice).value,
            "threads": self._whole("threads", "threads"),
            "variant": variant_named([name.strip() for name in self._text("levers").split(",") if name.strip()]),
        }

    def _llama_cpp(self) -> LlamaCppSettings:
        return LlamaCppSettings(
            batch_tokens=whole_number(self._text("batch-tokens"), "batch tokens"),
            micro_batch_tokens=whole_number(self._text("micro-batch-tokens"), "micro-batch"),
            cache_k=self.query_one("#cache-k", Choice).value,
            cache_v=self.query_one("#cache-v", Choice).value,
            gpu_layers=self._whole("gpu-layers", "GPU layers"),
            program=self._text("program") if self.engine == LLAMA_BENCH else "",
        )

    def _endpoint(self) -> EndpointSettings:
        if hardware := self._text("hardware"):
            hardware_named(hardware)
        return EndpointSettings(
            url=self._text("endpoint"),
            served_model=self._text("served-model"),
            api=self.query_one("#api", Choice).value,
            hardware=hardware,
            devices=whole_number(self._text("devices"), "devices"),
            cache_type=self.query_one("#cache-type", Choice).value,
            timeout_s=number(self._text("timeout"), "time-out s"),
            rate=self._number("rate", "arrivals/s"),
            ttft_limit_ms=self._number("ttft-limit", "TTFT limit ms"),
            tpot_limit_ms=self._number("tpot-limit", "TPOT limit ms"),
        )

    def _whole(self, name: str, label: str) -> int | None:
        """The whole number of a field that may be empty."""
        return whole_number(text, label) if (text := self._text(name)) else None

    def _number(self, name: str, label: str) -> float | None:
        """The number of a field that may be empty."""
        return number(text, label) if (text := self._text(name)) else None

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Entry).value.strip()


def _of(engines: Sequence[str], label: str, widget: Widget) -> ComposeResult:
    yield from field(label, widget, " ".join(("of-engine", *map(_class_of, engines))))


def _class_of(engine: str) -> str:
    """The class of a field's line that belongs to an engine, whose name may hold a dot."""
    return f"of-{engine.replace('.', '-')}"


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
