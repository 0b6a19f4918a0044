"""What a plan rests on where another engine than transformers runs the model: its tensors as stored, and its need."""

from dataclasses import replace

from workbench.ceilings.kv_cache import cache_bytes
from workbench.ceilings.memory_fit import MemoryNeed, memory_need
from workbench.errors import SettingsError
from workbench.experiments.engine_settings import ENDPOINT, TRANSFORMERS
from workbench.experiments.gap.variant import Stored
from workbench.experiments.settings import RunSettings
from workbench.models.int8 import UNPACKED_BYTES, unpacked_beside
from workbench.models.model import DTYPE_BYTES, Model, ModelKind, Read, TensorGroup
from workbench.models.resolve import resolve

LLAMA_CPP_BYTES = 150_000_000
"""What llama.cpp's server takes besides weights, caches and a pass (measured, xllamacpp 2026.10 on a CPU)."""
COMPILER_BYTES = 620_000_000
"""What compiling a decode step leaves in memory (measured on the SmolLM2-135M shape with torch 2.13 on a CPU)."""
UNTOLD = "not told"
STAND_IN_PARAMETERS = 1_000_000_000


def run_model(settings: RunSettings) -> Model:
    """The model of a run; behind an endpoint of which nobody says what it serves, one that no figure is shown of.

    Raises ModelError for a model that can't be read, and SettingsError for one that llama.cpp can't load.
    """
    if settings.engine == ENDPOINT and not settings.model:
        return _untold(settings.endpoint.served_model or settings.endpoint.url)
    model = resolve(settings.model)
    if settings.engine not in (TRANSFORMERS, ENDPOINT) and model.kind is not ModelKind.GGUF:
        raise SettingsError(
            f"{model.name} is no GGUF file, and {settings.engine} runs nothing else. Name a .gguf file."
        )
    return model


def _untold(name: str) -> Model:
    """A stand-in of a thousand million parameters, by which an endpoint's progress is guessed and nothing else."""
    group = TensorGroup("weights", ("float16",), STAND_IN_PARAMETERS, 2 * STAND_IN_PARAMETERS, Read.ALL)
    return Model(
        name=name,
        source="an endpoint",
        kind=ModelKind.PRESET,
        architecture=UNTOLD,
        quantisation=UNTOLD,
        groups=(group,),
        kv_layers=(),
        attention_layers=(),
        vocabulary=0,
        hidden=0,
        context_limit=None,
        tied_embeddings=False,
        file_bytes=None,
    )


def run_need(
    settings: RunSettings,
    resident: Model,
    prompt: int,
    new_tokens: int,
    batch: int = 1,
    pass_tokens: int | None = None,
) -> MemoryNeed:
    """The memory of a point on this machine: none where the model runs elsewhere.

    llama.cpp holds the file, every sequence's cache, and float32 rows of the micro-batch it computes at once.
    """
    if settings.engine == TRANSFORMERS:
        size = DTYPE_BYTES[resident.held_in or settings.dtype]
        need = memory_need(resident, prompt, new_tokens, size, batch, pass_tokens)
        if settings.variant.compiled:
            need = replace(need, engine=need.engine + COMPILER_BYTES)
        return need if settings.variant.stored is Stored.AS_LOADED else _packing(need, resident, size)
    if settings.engine == ENDPOINT:
        return MemoryNeed(weights=0, cache=0, activations=0, appended=0, loading=0, engine=0)
    rows = min(batch * prompt, settings.llama_cpp.micro_batch_tokens)
    return MemoryNeed(
        weights=resident.held_bytes,
        cache=cache_bytes(resident, prompt + new_tokens, settings.element_bytes, batch),
        activations=4 * (8 * rows * resident.hidden + batch * resident.vocabulary),
        appended=0,
        loading=0,
        engine=LLAMA_CPP_BYTES,
    )


def _packing(need: MemoryNeed, resident: Model, element_bytes: int) -> MemoryNeed:
    """The need where linear layers are packed once they are loaded: the head is unpacked for a product of many rows."""
    loading = need.loading + unpacked_beside(resident, element_bytes)
    return replace(need, loading=loading, unpacked=UNPACKED_BYTES * resident.head_parameters)
