"""The header of a GGUF file: metadata and tensor table, read without building the token arrays.

Layout of the format: the GGUF specification in ggml's docs (versions 2 and 3). Type names and block sizes
are those of the gguf package.
"""

import mmap
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from pathlib import Path

from workbench.errors import ModelError
from workbench.models.ggml_types import ggml_types
from workbench.models.tensors import Tensor

MAGIC = b"GGUF"
DEFAULT_ALIGNMENT = 32
MOST_DIMENSIONS = 4
# Far above any real file (a header has some 100 keys, a vocabulary some 300,000 tokens and 500,000 merges, a model
# whose experts lie apart some 14,000 tensors), and low enough that one that fills them is read within a second.
MOST_KEYS = 1 << 13
MOST_TENSORS = 1 << 15
MOST_STRINGS = 1 << 21
MOST_NESTED = 4
KEPT_ELEMENTS = 4096
# Strings stepped over, at least, between two looks at how much more is sure to follow.
STRINGS_AT_ONCE = 4096
# The specification's limit on keys, and twice its limit on the names of tensors.
MOST_KEY_BYTES = (1 << 16) - 1
MOST_NAME_BYTES = 128
# Chat templates are the longest text that is of use here.
KEPT_TEXT_BYTES = 1 << 20

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class SkippedArray:
    """An array, or the bytes of a very long text, that was stepped over: only its length was read."""

    length: int


Value = int | float | bool | str | tuple[int | float | bool, ...] | SkippedArray


@dataclass(frozen=True)
class GgufHeader:
    """What the header of one file, or of all parts of a split file, says.

    `file_bytes` sums the parts; `unknown_types` lists element types the gguf package does not know, whose
    tensors are sized from the offsets.
    """

    path: Path
    parts: tuple[Path, ...]
    version: int
    big_endian: bool
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int
    unknown_types: tuple[str, ...] = ()


def read_gguf(path: Path) -> GgufHeader:
    """The header of a GGUF file; of a split file, that of all its parts, whichever is named.

    Raises ModelError for a file that is missing, empty, truncated, no GGUF, inconsistent, or a part of a
    split file whose other parts are not beside it.
    """
    header = _read_file(path)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    return _read_parts(header, count)


def part_names(path: Path) -> list[Path] | None:
    """The paths of all parts of a split file, from the name of one; None if the name is not a part's."""
    match = _PART.match(path.name)
    if match is None or not 0 < int(match["number"]) <= int(match["count"]):
        return None
    count = int(match["count"])
    return [path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]


def _read_parts(named: GgufHeader, count: int) -> GgufHeader:
    paths = part_names(named.path)
    if paths is None or len(paths) != count:
        raise ModelError(
            f"{named.path} is one of {count:,} parts of a split model, but its name does not end in "
            f"-00001-of-{count:05}.gguf, so the others can't be found. Give all parts their original names."
        )
    missing = [part for part in paths if not part.is_file()]
    if missing:
        raise ModelError(
            f"{named.path.name} is one of {count} parts of a split model, and {_listed(missing)} not in "
            f"{named.path.parent}. Put all {count} parts in one folder."
        )
    headers = [named if part == named.path else _read_file(part) for part in paths]
    for index, header in enumerate(headers):
        number, of = header.metadata.get("split.no"), header.metadata.get("split.count")
        if of != count or number != index:
            raise ModelError(
                f"{header.path} is named part {index + 1} of {count}, but its header says part "
                f"{_or_unknown(number, 1)} of {_or_unknown(of)}. "
                "The parts are of different models or were renamed; download them again."
            )
    tensors = tuple(t for header in headers for t in header.tensors)
    _refuse_duplicates(named.path, [t.name for t in tensors])
    expected = headers[0].metadata.get("split.tensors.count")
    if isinstance(expected, int) and expected != len(tensors):
        raise ModelError(
            f"The {count} parts of {named.path.name} hold {len(tensors):,} tensors where their header says "
            f"{expected:,}. The parts are of different models; download them again."
        )
    return replace(
        headers[0],
        parts=tuple(paths),
        tensors=tensors,
        file_bytes=sum(h.file_bytes for h in headers),
        unknown_types=tuple(dict.fromkeys(kind for h in headers for kind in h.unknown_types)),
    )


def shown(value: Value | None) -> str:
    """A metadata value as a message shows it: no longer than a line."""
    text = f"an array or text of {value.length:,}" if isinstance(value, SkippedArray) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _listed(missing: list[Path]) -> str:
    names = ", ".join(p.name for p in missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return f"{names} {'is' if len(missing) == 1 else 'are'}"


def _or_unknown(value: Value | None, add: int = 0) -> str:
    return str(value + add) if isinstance(value, int) else "unknown"


def _read_file(path: Path) -> GgufHeader:
    try:
        # Unbuffered: a buffer's first read would set the kernel reading ahead into the tensors.
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ModelError(f"{path} is empty where a GGUF file was expected. Download it again.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                _read_only_what_is_asked(data)
                _check_start(path, data[:8])
                return _Reader(path, data).header()
    except FileNotFoundError:
        raise ModelError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise ModelError(f"{path} is a folder where a GGUF file was expected.") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} can't be read: {error}.") from error


def _read_only_what_is_asked(data: mmap.mmap) -> None:
    """Turn the kernel's reading ahead off: on a fast disk it fetches megabytes of tensors for a header."""
    if hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_RANDOM)


def _check_start(path: Path, start: bytes) -> None:
    if not start.startswith(MAGIC):
        if MAGIC.startswith(start):
            raise _truncated(path, len(start))
        hint = ""
        if start.startswith(b"version"):
            hint = " It looks like a Git LFS pointer: fetch the file itself with git lfs pull."
        elif start.lstrip().startswith((b"<", b"{")):
            hint = " It looks like a web page or JSON saved under this name: download the file again."
        raise ModelError(f"{path} is not a GGUF file: it starts with {start[:4]!r} where {MAGIC!r} was expected.{hint}")
    if len(start) < 8:
        raise _truncated(path, len(start))


def _truncated(path: Path, size: int) -> ModelError:
    return ModelError(
        f"{path} ends after {size:,} bytes, in the middle of its GGUF header: the download is incomplete. "
        "Download it again."
    )


def _refuse_duplicates(path: Path, names: list[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    name = next(n for n in names if n in seen or seen.add(n))  # type: ignore[func-returns-value]
    raise ModelError(f"{path} lists the tensor {name[:80]!r} twice: the file is damaged. Download it again.")


class _Reader:
    """Steps through one mapped file; every read is checked against its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.position = 4
        self.strings = 0
        self.nested = 0
        version = int.from_bytes(data[4:8], "little")
        self.big_endian = version & 0xFFFF == 0
        self.order = ">" if self.big_endian else "<"
        self.version = self.number("I")
        if self.version not in (2, 3):
            raise ModelError(
                f"{path} is GGUF version {self.version:,}; versions 2 and 3 are read. "
                "Convert it again with a current llama.cpp."
            )

    def header(self) -> GgufHeader:
        tensor_count = self.count("tensors", MOST_TENSORS, least_bytes=24)
        key_count = self.count("metadata keys", MOST_KEYS, least_bytes=13)
        metadata: dict[str, Value] = {}
        for _ in range(key_count):
            key = self.name(MOST_KEY_BYTES)
            if key in metadata:
                raise self.damaged(f"the metadata key {key[:80]!r} stands twice")
            metadata[key] = self.value(self.number("I"), key)
        entries = [self.tensor_entry() for _ in range(tensor_count)]
        _refuse_duplicates(self.path, [name for name, _, _, _ in entries])
        tensors, unknown = self.sized(entries, self.alignment(metadata))
        return GgufHeader(
            path=self.path,
            parts=(self.path,),
            version=self.version,
            big_endian=self.big_endian,
            metadata=metadata,
            tensors=tensors,
            file_bytes=self.size,
            unknown_types=unknown,
        )

    def damaged(self, what: str) -> ModelError:
        return ModelError(f"The header of {self.path} is damaged: {what}. Download the file again.")

    def advance(self, length: int) -> int:
        """The position before `length` bytes that must be there; the reader moves past them."""
        start = self.position
        if length > self.size - start:
            raise _truncated(self.path, self.size)
        self.position = start + length
        return start

    def scalar(self, code: str) -> int | float | bool:
        reader = struct.Struct(self.order + code)
        value: int | float | bool = reader.unpack_from(self.data, self.advance(reader.size))[0]
        return value

    def number(self, code: str) -> int:
        return int(self.scalar(code))

    def count(self, what: str, most: int, *, least_bytes: int) -> int:
        count = self.number("Q")
        if count > most:
            raise self.damaged(f"it claims {count:,} {what}, and no model has more than {most:,}")
        if count * least_bytes > self.size - self.position:
            raise _truncated(self.path, self.size)
        return count

    def name(self, most_bytes: int) -> str:
        """The text of a key or a tensor's name, which must be fit to print."""
        at = self.position
        text = self.text()
        if isinstance(text, SkippedArray) or len(text) > most_bytes:
            raise self.damaged(f"the name at byte {at:,} is longer than GGUF allows")
        if not text.isprintable():
            raise self.damaged(f"the name at byte {at:,} holds characters that no name has: {text[:40]!r}")
        return text

    def text(self) -> str | SkippedArray:
        length = self.number("Q")
        if length > self.size - self.position:
            raise self.damaged(
                f"a string at byte {self.position:,} claims {length:,} bytes of the "
                f"{self.size - self.position:,} that are left"
            )
        start = self.advance(length)
        if length > KEPT_TEXT_BYTES:
            return SkippedArray(length)
        return self.data[start : start + length].decode("utf-8", errors="replace")

    def value(self, kind: int, key: str) -> Value:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.array(key, 1)
        if kind not in _SCALARS:
            raise self.damaged(f"the metadata key {key[:80]!r} has type {kind}, which GGUF does not define")
        return self.scalar(_SCALARS[kind])

    def array(self, key: str, depth: int) -> Value:
        kind = self.number("I")
        length = self.number("Q")
        if kind == _STRING:
            self.skip_strings(length)
            return SkippedArray(length)
        if kind == _ARRAY:
            self.nested += length
            if depth >= MOST_NESTED or self.nested > MOST_KEYS:
                raise self.damaged(f"the metadata key {key[:80]!r} claims {length:,} arrays within arrays")
            for _ in range(length):
                self.array(key, depth + 1)
            return SkippedArray(length)
        if kind not in _SCALARS:
            raise self.damaged(f"the array {key[:80]!r} has type {kind}, which GGUF does not define")
        code = _SCALARS[kind]
        start = self.advance(length * struct.calcsize(self.order + code))
        if length > KEPT_ELEMENTS:
            return SkippedArray(length)
        return struct.unpack_from(f"{self.order}{length}{code}", self.data, start)

    def skip_strings(self, length: int) -> None:
        self.strings += length
        if self.strings > MOST_STRINGS:
            raise self.damaged(f"its arrays claim {self.strings:,} strings, and no vocabulary is that large")
        if length * 8 > self.size - self.position:
            raise _truncated(self.path, self.size)
        position = self.position
        unpack = struct.Struct(self.order + "Q").unpack_from
        data = self.data
        while length:
            self.fetch(position, 8 * length)
            steps = min(length, max(STRINGS_AT_ONCE, length // 4))
            try:
                for _ in repeat(None, steps):
                    (size,) = unpack(data, position)
                    position += size + 8
            except (struct.error, OverflowError, IndexError):
                raise _truncated(self.path, self.size) from None
            if position > self.size:
                raise _truncated(self.path, self.size)
            length -= steps
        self.position = position

    def fetch(self, start: int, length: int) -> None:
        """Ask the kernel for bytes that are sure to be read, in one go rather than page by page."""
        page = mmap.PAGESIZE
        first = start // page * page
        if hasattr(mmap, "MADV_WILLNEED") and length > page and first < self.size:
            self.data.madvise(mmap.MADV_WILLNEED, first, min(start + length, self.size) - first)

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape (rows first), type number and offset of one tensor."""
        name = self.name(MOST_NAME_BYTES)
        dimensions = self.number("I")
        if dimensions > MOST_DIMENSIONS:
            raise self.damaged(
                f"the tensor {name[:80]!r} claims {dimensions:,} dimensions, and GGUF has at most {MOST_DIMENSIONS}"
            )
        sizes = struct.unpack_from(f"{self.order}{dimensions}Q", self.data, self.advance(8 * dimensions))
        return name, tuple(reversed(sizes)), self.number("I"), self.number("Q")

    def alignment(self, metadata: Mapping[str, Value]) -> int:
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 30 or alignment & (alignment - 1):
            raise self.damaged(f"general.alignment is {shown(alignment)} where a power of two was expected")
        return alignment

    def sized(
        self, entries: list[tuple[str, tuple[int, ...], int, int]], alignment: int
    ) -> tuple[tuple[Tensor, ...], tuple[str, ...]]:
        """The tensors with their bytes, and the unknown types among them.

        Each must lie within the file and clear of the others.
        """
        start = -(-self.position // alignment) * alignment
        room = self.size - start
        in_order = sorted(range(len(entries)), key=lambda i: entries[i][3])
        ends = dict(pairwise(in_order))
        known = ggml_types()
        tensors: dict[int, Tensor] = {}
        unknown: dict[str, None] = {}
        reached, before = 0, ""
        for index in in_order:
            name, shape, number, offset = entries[index]
            parameters = 1
            for size in shape:
                parameters *= size
            following = entries[ends[index]][3] if index in ends else max(room, 0)
            if number in known:
                kind = known[number]
                width = shape[-1] if shape else 1
                if width % kind.block_elements:
                    raise self.damaged(
                        f"the rows of tensor {name[:80]!r} have {width:,} values, "
                        f"not a multiple of {kind.name}'s {kind.block_elements}"
                    )
                type_name, stored = kind.name, parameters // kind.block_elements * kind.block_bytes
            else:
                type_name, stored = f"type {number}", max(following - offset, 0)
                unknown[type_name] = None
            if offset > room or stored > room - offset:
                raise ModelError(
                    f"{self.path} is {self.size:,} bytes, but its tensor {name[:80]!r} ends at byte "
                    f"{start + offset + stored:,}: the download is incomplete. Download it again."
                )
            if type_name in unknown and parameters > stored * 64:
                raise self.damaged(f"the tensor {name[:80]!r} claims {parameters:,} values in {stored:,} bytes")
            if offset % alignment:
                raise self.damaged(
                    f"the tensor {name[:80]!r} starts at offset {offset:,}, not a multiple of {alignment}"
                )
            if offset < reached:
                raise self.damaged(f"the tensors {before[:80]!r} and {name[:80]!r} overlap")
            if stored:
                reached, before = offset + stored, name
            tensors[index] = Tensor(name, shape, type_name, parameters, stored)
        return tuple(tensors[i] for i in range(len(entries))), tuple(unknown)
