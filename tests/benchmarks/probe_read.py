"""B of the probe's best kernel against a native read loop over the same array, alternating."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from tests.benchmarks.report import print_bar, spread
from workbench.experiments.probe import thread_counts
from workbench.hardware.caches import last_level_cache_bytes
from workbench.hardware.machine import available_bytes, usable_cores
from workbench.hardware.probe.arrays import array_bytes, filled
from workbench.hardware.probe.grid import PASSES
from workbench.hardware.probe.kernels import read_kernels
from workbench.hardware.probe.timers import HostTimer

PAIRS = 11
BAR = 0.95
MOST_NATIVE_THREADS = 256
SOURCE = Path(__file__).with_name("read_loop.c")
FLAGS = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",), ())
"""Tried in turn: a compiler refuses what its processor doesn't have."""


@dataclass(frozen=True)
class Reader:
    """Something that reads the whole array, at a count of threads."""

    name: str
    threads: int
    run: Callable[[], object]


def compiled() -> ctypes.CDLL | None:
    """The native loop; None where there is no compiler."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp()) / "read_loop.so"
    for flags in FLAGS:
        built = subprocess.run(
            [compiler, "-O3", *flags, "-shared", "-fPIC", "-pthread", str(SOURCE), "-o", str(library)],
            capture_output=True,
        )
        if built.returncode == 0:
            print(f"{Path(compiler).name} -O3 {' '.join(flags)}")
            loaded = ctypes.CDLL(str(library))
            loaded.read_all.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            loaded.read_all.restype = ctypes.c_uint64
            return loaded
    return None


def best_of(readers: list[Reader], timer: HostTimer) -> Reader:
    """The reader whose shortest of a few passes is the shortest."""

    def shortest(reader: Reader) -> float:
        torch.set_num_threads(reader.threads)
        return min(timer.seconds(reader.run, 4, 4, 0.0))

    return min(readers, key=shortest)


def main() -> None:
    native = compiled()
    if native is None:
        print("There is no C compiler here: nothing to compare with.")
        return
    cores = usable_cores()
    size = array_bytes(last_level_cache_bytes(), available_bytes(), quick=False)
    array = filled(size // 4, torch.float32, torch.device("cpu"), cores)
    address, words = array.data_ptr(), array.numel() // 2
    timer = HostTimer(lambda: None)
    loops = [
        Reader("native loop", threads, lambda threads=threads: native.read_all(address, words, threads))  # type: ignore[misc]
        for threads in thread_counts(min(cores, MOST_NATIVE_THREADS))
    ]
    kernels = [
        Reader(kernel.name, threads, kernel.run)
        for threads in thread_counts(cores)
        for kernel in read_kernels(array, threads)
    ]
    ours, theirs = best_of(kernels, timer), best_of(loops, timer)
    print(f"{size / 1e9:.1f} GB, best of {PASSES} on each side of a pair")
    print(f"{ours.name}, threads {ours.threads}, against the native loop, threads {theirs.threads}")

    def rate(reader: Reader) -> float:
        torch.set_num_threads(reader.threads)
        return size / 1e9 / min(timer.seconds(reader.run, PASSES, PASSES, 0.0))

    pairs = []
    for pair in range(PAIRS):
        first = rate(ours) if pair % 2 else None
        loop = rate(theirs)
        pairs.append((first or rate(ours), loop))
    print(f"probe GB/s: {spread([probe for probe, _ in pairs])}")
    print(f"native GB/s: {spread([loop for _, loop in pairs])}")
    print(f"ratio of pairs: {spread([probe / loop for probe, loop in pairs])}")
    ratio = median(probe / loop for probe, loop in pairs)
    print_bar("B of the probe over the native loop", ratio, f"at least {BAR}", ratio >= BAR)


if __name__ == "__main__":
    main()
