"""A Model from settings in config.json's spelling and a tensor table, wherever the table came from."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.models.config.layout import config_layout
from workbench.models.config.text_config import text_config
from workbench.models.layout import unique
from workbench.models.model import Model, ModelKind
from workbench.models.tensors import ROUTED, Tensor, group_tensors


def described_model(
    config: Mapping[str, Any],
    tensors: Sequence[Tensor],
    *,
    name: str,
    source: str,
    kind: ModelKind,
    quantisation: str,
    in_full: Mapping[str, Any] | None = None,
    file_bytes: int | None = None,
    path: Path | None = None,
    notes: Iterable[str] = (),
) -> Model:
    """The model whose tensors are `tensors` and whose layers `config` describes.

    `in_full` are the settings with their class's defaults where those are known. Raises ModelError for settings
    that can't be right.
    """
    settings = in_full or config
    inner = text_config(settings)
    layout = config_layout(settings, source)
    tied = inner.get("tie_word_embeddings", settings.get("tie_word_embeddings"))
    grouped = group_tensors(
        tensors,
        layers=layout.layers,
        tied=tied if isinstance(tied, bool) else None,
        experts=layout.experts,
        experts_used=layout.experts_used,
    )
    vocabulary = inner.get("vocab_size")
    # A class may state experts that none of the model's layers have.
    routed = any(group.name == ROUTED for group in grouped.groups)
    return Model(
        name=name,
        source=source,
        kind=kind,
        architecture=str(inner.get("model_type") or config.get("model_type") or "unknown"),
        quantisation=quantisation,
        groups=grouped.groups,
        kv_layers=layout.kv_layers,
        attention_layers=layout.attention_layers,
        vocabulary=grouped.vocabulary or (vocabulary if isinstance(vocabulary, int) else 0),
        hidden=layout.hidden,
        context_limit=layout.context_limit,
        tied_embeddings=grouped.tied,
        file_bytes=file_bytes,
        path=path,
        experts=layout.experts if routed else 0,
        experts_used=layout.experts_used if routed else 0,
        config=config,
        notes=unique([*layout.notes, *grouped.notes, *notes]),
    )
