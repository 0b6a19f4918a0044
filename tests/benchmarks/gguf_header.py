"""The header reader on a vocabulary of 262,144: against the gguf package's, its time, the bytes it touches, inspect."""

import ctypes
import mmap
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from tests.benchmarks.report import print_bar, spread
from tests.models.files import smollm2
from workbench.models.ggml_types import ggml_types
from workbench.models.gguf import read_gguf

VOCABULARY, MERGES = 262_144, 514_906
ROUNDS, READS, RUNS = 3, 7, 11
SPARSE_TENSORS, SPARSE_BYTES = 64, 320_000_000
WHOLE_PROCESS = """
import sys
from workbench.cli import main
code = main(["inspect", sys.argv[1], "--format", "json"])
raise SystemExit(code or ("torch" in sys.modules and "torch was imported"))
"""


def gemma_like(path: Path, *, merges: int = 0, sparse: bool = False) -> Path:
    """A file with Gemma's vocabulary by the gguf package's writer; `sparse`: of 20 GB, its tensors all holes."""
    from gguf import GGUFWriter

    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    writer = GGUFWriter(path, "gemma3")
    for key, value in (
        ("block_count", 21),
        ("embedding_length", 640),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 256),
        ("attention.value_length", 256),
        ("attention.sliding_window", 512),
    ):
        writer.add_uint32(f"gemma3.{key}", value)
    writer.add_tokenizer_model("llama")
    words = [f"▁{''.join(chance.choices(letters, k=chance.randint(1, 10)))}{i:x}" for i in range(VOCABULARY)]
    writer.add_token_list([word.encode() for word in words])
    writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
    writer.add_token_types([1] * VOCABULARY)
    if merges:
        writer.add_token_merges([f"{chance.choice(words)[:4]} {chance.choice(letters)}{i:x}" for i in range(merges)])
    writer.add_tensor("token_embd.weight", np.zeros((64, 640), np.float16))
    for layer in range(21):
        for part in "qkv":
            writer.add_tensor(f"blk.{layer}.attn_{part}.weight", np.zeros((64, 640), np.float16))
    if sparse:
        for i in range(SPARSE_TENSORS):
            shape = (SPARSE_BYTES // 2 // 640, 640)
            writer.add_tensor_info(f"blk.{i % 21}.ffn_{i}.weight", shape, np.dtype(np.float16), SPARSE_BYTES)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if sparse:
        writer.write_ti_data_to_file()
    else:
        writer.write_tensors_to_file()
    writer.close()
    if sparse:
        os.truncate(path, path.stat().st_size + 32 + 64 * 64 * 640 * 2 + SPARSE_TENSORS * SPARSE_BYTES)
    return path


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def package_reader(path: Path) -> int:
    """Read a file with the gguf package; where its tensor data starts."""
    from gguf import GGUFReader

    return int(GGUFReader(path).data_offset)


def cached_bytes(path: Path) -> int:
    """Bytes of a file that the kernel has in memory."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as data:
        pages = (ctypes.c_ubyte * -(-len(data) // mmap.PAGESIZE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(data))
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(data)), pages):
            raise OSError("mincore failed")
        return sum(page & 1 for page in bytes(pages)) * mmap.PAGESIZE


def touched_bytes(path: Path) -> int:
    """Bytes of a file that reading its header brings into memory, from none."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if left := cached_bytes(path):
        raise OSError(f"{left:,} bytes of {path} stay in memory: is it on a file system that lives there?")
    read_gguf(path)
    return cached_bytes(path)


def print_touched(what: str, path: Path, header: int) -> None:
    touched = touched_bytes(path)
    print(f"{what}: {path.stat().st_size:,} bytes, header {header:,}, touched {touched:,}")
    print_bar(f"{what}, touched over header", touched / header, "under 1.05", touched / header < 1.05)


def main() -> None:
    ggml_types()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = gemma_like(folder / "gemma.gguf")
        merged = gemma_like(folder / "merged.gguf", merges=MERGES)
        sparse = gemma_like(folder / "sparse.gguf", sparse=True)
        header = package_reader(path)
        pairs = [
            (
                seconds_of(lambda: package_reader(path)),
                median(seconds_of(lambda: read_gguf(path)) for _ in range(READS)),
            )
            for _ in range(ROUNDS)
        ]
        print(f"gguf package s: {spread([theirs for theirs, _ in pairs])}")
        print(f"header reader ms: {spread([1e3 * ours for _, ours in pairs])}")
        ratio = median(theirs / ours for theirs, ours in pairs)
        print_bar("the package's time over ours", ratio, "at least 100", ratio >= 100)
        for what, file in (("vocabulary", path), ("vocabulary and merges", merged), ("SmolLM2", smollm2())):
            took = 1e3 * median(seconds_of(lambda file=file: read_gguf(file)) for _ in range(READS))  # type: ignore[misc]
            print_bar(f"header of {what} in ms", took, "at most 50", took <= 50)
        print_touched("vocabulary", path, header)
        print_touched("sparse file", sparse, package_reader(sparse))
        real = folder / "real.gguf"
        real.write_bytes(smollm2().read_bytes())
        print_touched("SmolLM2", real, package_reader(real))
        runs = [
            seconds_of(
                lambda: subprocess.run(
                    [sys.executable, "-c", WHOLE_PROCESS, path], check=True, stdout=subprocess.DEVNULL
                )
            )
            for _ in range(RUNS)
        ]
        print(f"workbench inspect s: {spread(runs)}")
        print_bar("workbench inspect in seconds, no torch", median(runs), "at most 0.4", median(runs) <= 0.4)


if __name__ == "__main__":
    main()
