"""The text in a file's bytes, however they were packed, encoded and coloured on their way into it."""

import re
import zlib

from workbench.errors import ImportRefused

MOST_BYTES = 64 << 20
PACKED = b"\x1f\x8b"
"""How gzip begins."""
PIECE_BYTES = 1 << 10
"""Unpacked at a time: of a damaged one nothing comes."""
WITH_GZIP_HEAD = 16 + zlib.MAX_WBITS
_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
LOOKED_AT_BYTES, LEAST_ZEROS = 1 << 10, 8
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and movements of a terminal."""


def plain_text(data: bytes, name: str, expected: str) -> tuple[str, list[str]]:
    """The text with plain line ends, and in words what of it is missing; raises ImportRefused where there is none."""
    notes: list[str] = []
    if data.startswith(PACKED):
        data, is_whole = _unpacked(data)
        if len(data) > MOST_BYTES:
            data = data[:MOST_BYTES]
            notes.append(
                f"only the first {MOST_BYTES >> 20} MiB of what it packs are read: split the file for the rest"
            )
        elif not is_whole:
            notes.append("the packed file is cut short or damaged: what could be unpacked is taken")
    encoding = _encoding(data)
    if encoding == "utf-8-sig" and b"\0" in data[: 1 << 16]:
        raise ImportRefused(f"{name} is binary, no text. Expected is {expected}.")
    text = data.decode(encoding, "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if not text.strip("\ufeff \t\n"):
        why = f" ({notes[0]})" if notes else ""
        raise ImportRefused(f"{name} is empty{why}. Expected is {expected}.")
    return text, notes


def _unpacked(data: bytes) -> tuple[bytes, bool]:
    """What gzip packed, one part after another, and whether it is whole; no more than just beyond MOST_BYTES."""
    parts: list[bytes] = []
    size = 0
    unpacking = zlib.decompressobj(WITH_GZIP_HEAD)
    for begun in range(0, len(data), PIECE_BYTES):
        rest = data[begun : begun + PIECE_BYTES]
        while rest:
            try:
                parts.append(unpacking.decompress(rest, MOST_BYTES + 1 - size))
            except zlib.error:
                return b"".join(parts), False
            size += len(parts[-1])
            if size > MOST_BYTES:
                return b"".join(parts), False
            rest = unpacking.unused_data
            if unpacking.eof and rest:
                unpacking = zlib.decompressobj(WITH_GZIP_HEAD)
    return b"".join(parts), unpacking.eof


def _encoding(data: bytes) -> str:
    """By its first bytes, or by where an alphabet of one byte leaves zeros in one of two: PowerShell writes UTF-16."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    looked_at = data[:LOOKED_AT_BYTES]
    even, odd = looked_at[::2].count(0), looked_at[1::2].count(0)
    least = max(len(looked_at) // 3, LEAST_ZEROS)
    if odd > least and not even:
        return "utf-16-le"
    return "utf-16-be" if even > least and not odd else "utf-8-sig"
