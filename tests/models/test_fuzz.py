"""Damaged files: a correct answer or one ModelError, never a crash, a hang, or a large allocation."""

import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.files import LLAMA_TENSORS, TINY_LLAMA, bfloat16, gguf_bytes, safetensors_bytes, smollm2
from workbench.errors import ModelError
from workbench.models.gguf_model import read_gguf_model
from workbench.models.inspection import inspection
from workbench.models.safetensors_header import read_safetensors
from workbench.models.shape import tensor_shapes


def outcome(read: Callable[[Path], object], path: Path) -> str | None:
    """The sentence a file is refused with, or None when it is read; anything else ends the test."""
    try:
        read(path)
    except ModelError as error:
        return str(error)
    return None


def inspected(path: Path) -> object:
    return inspection(read_gguf_model(path))


def mutated(whole: bytes, header: int, chance: random.Random) -> bytes:
    """The bytes with one to four wounds in the header, or cut short."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(4, header)
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at : at + 8] = chance.choice([0, 1, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1]).to_bytes(
                    8, "little"
                )
            case 2:
                data[at : at + 4] = chance.randrange(1 << 32).to_bytes(4, "little")
            case 3:
                del data[at : at + chance.randint(1, 32)]
            case 4:
                data = data[: chance.randrange(4, len(data))]
        if len(data) <= header:
            break
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_gguf_headers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = gguf_bytes()
    header = len(whole) - sum(stored for *_, stored in LLAMA_TENSORS)
    path = tmp_path / "m.gguf"
    refused = 0
    for _ in range(250):
        path.write_bytes(mutated(whole, header, chance))
        start = time.perf_counter()
        message = outcome(inspected, path)
        refused += message is not None
        assert message is None or message.endswith((".", "?"))
        assert time.perf_counter() - start < 1
    assert refused > 100


def test_damaged_starts_of_a_real_file_allocate_no_more_than_they_hold(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = smollm2().read_bytes()[:4_000_000]
    path = tmp_path / "m.gguf"
    for _ in range(60):
        path.write_bytes(mutated(whole, 3_000, chance))
        tracemalloc.start()
        outcome(inspected, path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * len(whole)


def test_damaged_safetensors_headers(tmp_path: Path) -> None:
    chance = random.Random(11)
    whole = safetensors_bytes(bfloat16(dict(tensor_shapes(TINY_LLAMA, "tiny"))))
    header = int.from_bytes(whole[:8], "little")
    path = tmp_path / "model.safetensors"
    for _ in range(300):
        path.write_bytes(mutated(whole, header, chance))
        message = outcome(read_safetensors, path)
        assert message is None or message.endswith((".", "?"))
