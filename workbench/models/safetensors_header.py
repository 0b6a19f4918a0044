"""Tensor tables from safetensors headers: of one file, or of a folder's index and shards.

Layout of the format: eight bytes with the header's length, the header in JSON, the tensors' data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import ModelError
from workbench.models.tensors import Tensor

# The format's own limit on a header.
MOST_HEADER_BYTES = 100_000_000
INDEX_NAMES = ("model.safetensors.index.json", "pytorch_model.safetensors.index.json")

# Bits an element takes, and the element type's name as torch has it.
_TYPES = {
    "BOOL": (8, "bool"), "U8": (8, "uint8"), "I8": (8, "int8"), "U16": (16, "uint16"), "I16": (16, "int16"),
    "U32": (32, "uint32"), "I32": (32, "int32"), "U64": (64, "uint64"), "I64": (64, "int64"),
    "F16": (16, "float16"), "BF16": (16, "bfloat16"), "F32": (32, "float32"), "F64": (64, "float64"),
    "F8_E4M3": (8, "float8_e4m3fn"), "F8_E5M2": (8, "float8_e5m2"), "F8_E8M0": (8, "float8_e8m0fnu"),
    "F4": (4, "float4_e2m1fn"), "F6_E2M3": (6, "float6_e2m3"), "F6_E3M2": (6, "float6_e3m2"), "C64": (64, "complex64"),
}  # fmt: skip


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]


@dataclass(frozen=True)
class SafetensorsTable:
    """The tensors of one file or of all shards, the bytes of those files, and what had to be assumed."""

    tensors: tuple[Tensor, ...]
    file_bytes: int
    notes: tuple[str, ...] = ()


def read_safetensors(path: Path) -> SafetensorsTable:
    """The tensor table of one safetensors file, from its header.

    Raises ModelError for a file that is missing, truncated, or no safetensors file.
    """
    size, raw = _header_bytes(path)
    try:
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        members.pop("__metadata__", None)
        entries = {name: msgspec.json.decode(member, type=_Entry) for name, member in members.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(
            f"The header of {path} is not the JSON that a safetensors file starts with ({error}). "
            "Download the file again."
        ) from error
    start = 8 + len(raw)
    tensors: list[Tensor] = []
    unknown: dict[str, None] = {}
    for name, entry in entries.items():
        begin, end = entry.data_offsets
        if not 0 <= begin <= end or any(dimension < 0 for dimension in entry.shape):
            raise ModelError(
                f"The header of {path} is damaged: the tensor {name[:80]!r} lies from {begin:,} to {end:,} with "
                f"shape {entry.shape[:8]}. Download the file again."
            )
        if start + end > size:
            raise ModelError(
                f"{path} is {size:,} bytes, but its tensor {name[:80]!r} ends at byte {start + end:,}: the "
                "download is incomplete. Download it again."
            )
        elements = 1
        for dimension in entry.shape:
            elements *= dimension
        bits, type_name = _TYPES.get(entry.dtype, (None, entry.dtype))
        if bits is None:
            unknown[entry.dtype] = None
        elif (elements * bits + 7) // 8 != end - begin:
            raise ModelError(
                f"The header of {path} is damaged: the tensor {name[:80]!r} of type {entry.dtype} and shape "
                f"{entry.shape[:8]} can't take {end - begin:,} bytes. Download the file again."
            )
        tensors.append(Tensor(name, tuple(entry.shape), type_name, elements, end - begin))
    notes = (
        (f"Element types not known to this workbench ({', '.join(unknown)}) are sized from the file's offsets.",)
        if unknown
        else ()
    )
    return SafetensorsTable(tuple(tensors), size, notes)


def read_shards(folder: Path, index: Path) -> SafetensorsTable:
    """The tensor table of a folder whose index file names its shards.

    Raises ModelError for an index that can't be read, a shard that is missing (named), or a tensor that is
    in none of the shards.
    """
    try:
        listed = msgspec.json.decode(index.read_bytes(), type=_Index).weight_map
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{index} can't be read as the list of a model's shards ({error}). Download it again."
        ) from error
    shards = sorted(set(listed.values()))
    outside = [shard for shard in shards if Path(shard).name != shard]
    if outside:
        raise ModelError(f"{index} names {outside[0]!r}, which is not a file beside it. Download it again.")
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise ModelError(
            f"{folder} lacks {len(missing)} of the {len(shards)} shards its index names: {names}. "
            "Download the rest of the model."
        )
    table = read_files([folder / shard for shard in shards])
    absent = set(listed) - {tensor.name for tensor in table.tensors}
    if absent:
        raise ModelError(
            f"{index} places the tensor {min(absent)!r} in {listed[min(absent)]}, which does not hold it. "
            "Index and shards are of different downloads; download the model again."
        )
    return table


def read_files(paths: Sequence[Path]) -> SafetensorsTable:
    """The tensor tables of several files as one; a tensor that stands in two of them is refused."""
    tables = [read_safetensors(path) for path in paths]
    tensors = tuple(tensor for table in tables for tensor in table.tensors)
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise ModelError(
                f"The tensor {tensor.name!r} stands in more than one safetensors file of {paths[0].parent}, and "
                "there is no index to say which counts. Keep the files of one model only."
            )
        seen.add(tensor.name)
    return SafetensorsTable(
        tensors=tensors,
        file_bytes=sum(table.file_bytes for table in tables),
        notes=tuple(dict.fromkeys(note for table in tables for note in table.notes)),
    )


def _header_bytes(path: Path) -> tuple[int, bytes]:
    """The file's size and its header; never more than the file holds is asked for."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                raise ModelError(f"{path} is empty where a safetensors file was expected. Download it again.")
            start = file.read(8)
            if start.startswith(b"version "):
                raise ModelError(f"{path} is a Git LFS pointer, not the file itself. Run git lfs pull in its folder.")
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length < 2 or length > MOST_HEADER_BYTES:
                raise ModelError(
                    f"{path} is not a safetensors file: its first eight bytes give a header of {length:,} bytes "
                    f"where 2 to {MOST_HEADER_BYTES:,} were expected. Download it again."
                )
            if length > size - 8:
                raise ModelError(
                    f"{path} is {size:,} bytes, less than its header of {length:,}: the download is incomplete. "
                    "Download it again."
                )
            return size, file.read(length)
    except FileNotFoundError:
        raise ModelError(f"There is no file {path}.") from None
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error}.") from error


def unpacked(table: SafetensorsTable, quantisation: Any) -> tuple[Tensor, ...]:
    """The tensors with the parameters that packed integers hold, as a quantised folder's settings have them.

    Several weights share one stored integer; scales, zero points and the like are bytes without parameters
    of their own.
    """
    if not isinstance(quantisation, dict):
        return table.tensors
    bits = _bits(quantisation)
    return tuple(_unpack(tensor, bits) for tensor in table.tensors)


def _bits(quantisation: dict[str, Any]) -> int | None:
    method = quantisation.get("quant_method")
    if method in ("mxfp4", "fp4") or quantisation.get("load_in_4bit"):
        return 4
    for settings in (quantisation, *_weights_of_groups(quantisation)):
        bits = settings.get("bits", settings.get("num_bits"))
        if isinstance(bits, int) and 0 < bits <= 8:
            return bits
    return None


def _weights_of_groups(quantisation: dict[str, Any]) -> list[dict[str, Any]]:
    groups = quantisation.get("config_groups")
    if not isinstance(groups, dict):
        return []
    return [g["weights"] for g in groups.values() if isinstance(g, dict) and isinstance(g.get("weights"), dict)]


_COMPANIONS = (
    "scales", "biases", "qzeros", "g_idx", "absmax", "quant_map", "nested_absmax", "nested_quant_map", "weight_scale",
    "weight_scale_inv", "weight_scale_2", "input_scale", "weight_shape", "weight_zero_point", "weight_g_idx", "SCB",
)  # fmt: skip
_STORED_BITS = {"uint8": 8, "int8": 8, "int32": 32, "uint32": 32}


def _unpack(tensor: Tensor, bits: int | None) -> Tensor:
    last = tensor.name.rsplit(".", 1)[-1]
    if last in _COMPANIONS or last.endswith(("_scales", "_scale_inv")) or ".quant_state." in tensor.name:
        return Tensor(tensor.name, tensor.shape, tensor.type, 0, tensor.bytes)
    stored = _STORED_BITS.get(tensor.type)
    if stored is None or bits is None:
        return tensor
    return Tensor(tensor.name, tensor.shape, tensor.type, tensor.parameters * stored // bits, tensor.bytes)
