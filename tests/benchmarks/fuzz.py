"""20,000 and more damaged GGUF headers: each must give one clear error or an answer, in a second and in little memory.

Runs in a child process whose address space is held to what it starts with, the file, and an allowance. Paths of
other .gguf files may be given; their headers are damaged too.
"""

import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.report import print_bar
from tests.models.damage import everything, miswritten, mutated, write_split
from tests.models.files import LLAMA_METADATA, LLAMA_TENSORS, gguf_bytes, smollm2
from workbench.errors import ModelError
from workbench.models.ggml_types import ggml_types
from workbench.models.gguf import read_gguf

BYTES, CONTENTS, BOTH, PARTS, REAL = 6000, 7000, 3000, 3000, 3000
ALLOWANCE = 64 << 20
HANG_SECONDS = 10.0
CHILD = "child"
_DETAIL = re.compile(r"'[^']*'|\S*\.gguf\b|[\d,]+")


def cases(folder: Path, real: list[Path]) -> Iterator[Path]:
    """Damaged files, one at a time, each gone when the next one comes."""
    chance = random.Random(2024)
    path = folder / "m.gguf"
    for _ in range(BYTES):
        whole = gguf_bytes(LLAMA_METADATA, version=chance.choice((2, 3)), order=chance.choice("<<>"))
        path.write_bytes(mutated(whole, len(whole) - sum(stored for *_, stored in LLAMA_TENSORS), chance))
        yield path
    for _ in range(CONTENTS):
        path.write_bytes(miswritten(chance))
        yield path
    for _ in range(BOTH):
        whole = miswritten(chance)
        path.write_bytes(mutated(whole, min(len(whole), 2000), chance))
        yield path
    for _ in range(PARTS):
        yield write_split(folder, chance)
    for source in real:
        yield from damaged_headers(source, path, chance)


def damaged_headers(source: Path, path: Path, chance: random.Random) -> Iterator[Path]:
    """A real file's header, hurt among its settings, in its tensor table, or anywhere; its tensors are holes."""
    size = source.stat().st_size
    header = size - sum(-(-tensor.bytes // 32) * 32 for tensor in read_gguf(source).tensors)
    with source.open("rb") as file:
        whole = file.read(header)
    for _ in range(REAL):
        start, end = chance.choice(((4, 3000), (4, 100), (header - 20_000, header), (4, header)))
        damaged = mutated(whole, end, chance, max(start, 4))
        with path.open("wb") as file:
            file.write(damaged)
            if len(damaged) > header - 200:
                file.truncate(size)
        yield path


def stopped(*_: object) -> None:
    raise TimeoutError(f"more than {HANG_SECONDS} seconds")


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run(real: list[Path]) -> None:
    """Read every case in this process, and print what came of them."""
    ggml_types()
    signal.signal(signal.SIGALRM, stopped)
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everything(smollm2())
        before, base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, address_space()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        for path in cases(folder, real):
            most = base + ALLOWANCE + (path.stat().st_size if path.exists() else 0)
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
            signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
            started = time.perf_counter()
            said = outcome(path)
            took = time.perf_counter() - started
            signal.setitimer(signal.ITIMER_REAL, 0)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            slowest = max(slowest, took)
            counts[said] += 1
            if said.startswith("FAILURE") or took > 1:
                failures[said] += 1
                (Path(tempfile.gettempdir()) / f"failing-{len(failures)}.gguf").write_bytes(path.read_bytes())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    for said, count in counts.most_common():
        print(f"{count:7,}  {said}")
    print_bar("mutations", sum(counts.values()), "at least 20,000", sum(counts.values()) >= 20_000)
    print_bar("failures", sum(failures.values()), "none", not failures)
    print_bar("slowest in seconds", slowest, "at most 1", slowest <= 1)
    print_bar("growth of resident memory in MiB", grown, f"at most {ALLOWANCE >> 20}", grown <= ALLOWANCE >> 20)


def outcome(path: Path) -> str:
    """What reading a file came to, in words without its figures and names."""
    try:
        everything(path)
    except ModelError as error:
        message = str(error)
        if not message.endswith((".", "?")) or len(message) > 1000 or not message.isprintable():
            return f"FAILURE unclear: {message[:200]!r}"
        return _DETAIL.sub("…", message).split(". ")[0][:110]
    except BaseException as error:
        return f"FAILURE {type(error).__name__}: {str(error)[:150]}"
    return "read"


def main() -> None:
    if CHILD in sys.argv[1:2]:
        run([smollm2(), *(Path(given) for given in sys.argv[2:])])
        return
    code = subprocess.run([sys.executable, "-m", "tests.benchmarks.fuzz", CHILD, *sys.argv[1:]]).returncode
    print_bar("exit code of the child", code, "0", code == 0)


if __name__ == "__main__":
    main()
