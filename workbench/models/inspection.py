"""What a model is and what one token reads, in the keys that `workbench inspect` prints."""

from typing import Any

from workbench.models.cache_types import CACHE_TYPE_BYTES, STATE_BYTES, cache_type
from workbench.models.model import KvKind, Model


def inspection(model: Model, kv_dtype: str = "float16") -> dict[str, Any]:
    """The figures of a model, cache bytes in elements of `kv_dtype`; all sizes in bytes.

    `bytes_per_token` of the cache is full plus windowed, as at the start of a context; `constant_bytes` is the
    fixed state of recurrent layers. Raises SettingsError for an unknown dtype.
    """
    kv_dtype = cache_type(kv_dtype)
    element = CACHE_TYPE_BYTES[kv_dtype]
    windowed = [layer for layer in model.kv_layers if layer.window is not None]
    full = [layer for layer in model.kv_layers if layer.window is None]
    full_bytes = round(sum(layer.elements_per_token for layer in full) * element)
    windowed_bytes = round(sum(layer.elements_per_token for layer in windowed) * element)
    return {
        "model": model.name,
        "source": model.source,
        "architecture": model.architecture,
        "quantisation": model.quantisation,
        "parameters": model.parameters,
        "read_parameters": model.read_parameters,
        "file_bytes": model.file_bytes,
        "resident_bytes": model.resident_bytes,
        "read_bytes_per_token": model.read_bytes_per_token,
        "shared_read_bytes": model.shared_read_bytes,
        "routed_expert_bytes": model.routed_expert_bytes,
        "experts": model.experts,
        "experts_used": model.experts_used,
        "tied_embeddings": model.tied_embeddings,
        "context_limit": model.context_limit,
        "kv": {
            "dtype": kv_dtype,
            "bytes_per_token": full_bytes + windowed_bytes,
            "full_bytes_per_token": full_bytes,
            "windowed_bytes_per_token": windowed_bytes,
            "window": max((layer.window or 0 for layer in windowed), default=None),
            "constant_bytes": round(model.kv_elements_read(0) * max(element, STATE_BYTES)),
            "layers": {
                str(kind): count
                for kind in KvKind
                if (count := sum(1 for layer in model.kv_layers if layer.kind is kind))
            },
        },
        "groups": [
            {
                "name": group.name,
                "types": list(group.types),
                "parameters": group.parameters,
                "bytes": group.bytes,
                "read": str(group.read),
            }
            for group in model.groups
        ],
        "notes": list(model.notes),
    }
