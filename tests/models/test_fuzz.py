"""Damaged files: a correct answer or one ModelError, never a crash, a hang, or a large allocation."""

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.damage import everything, miswritten, mutated, write_split
from tests.models.files import LLAMA_TENSORS, TINY_LLAMA, bfloat16, gguf_bytes, safetensors_bytes, smollm2
from workbench.errors import ModelError
from workbench.models.safetensors_header import read_safetensors
from workbench.models.shape import tensor_shapes


def outcome(read: Callable[[Path], object], path: Path) -> str | None:
    """The sentence a file is refused with, or None when it is read; anything else ends the test."""
    try:
        read(path)
    except ModelError as error:
        return str(error)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_damaged_gguf_headers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole = gguf_bytes()
    header = len(whole) - sum(stored for *_, stored in LLAMA_TENSORS)
    path = tmp_path / "m.gguf"
    refused = 0
    for _ in range(250):
        path.write_bytes(mutated(whole, header, chance))
        message = outcome(everything, path)
        refused += message is not None
        assert message is None or message.endswith((".", "?"))
    assert refused > 100


@pytest.mark.parametrize("seed", range(4))
def test_gguf_files_that_are_whole_and_say_what_cannot_be(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "m.gguf"
    messages = []
    for _ in range(250):
        path.write_bytes(miswritten(chance))
        messages.append(outcome(everything, path))
    refused = [message for message in messages if message is not None]
    assert all(message.endswith((".", "?")) and len(message) < 1000 for message in refused)
    assert 20 < len(refused) < 230


def test_damaged_parts_of_a_split_file(tmp_path: Path) -> None:
    chance = random.Random(3)
    messages = [outcome(everything, write_split(tmp_path, chance)) for _ in range(200)]
    assert all(message.endswith((".", "?")) for message in messages if message is not None)
    assert 100 < sum(message is not None for message in messages) < 200


def test_damaged_starts_of_a_real_file_allocate_no_more_than_they_hold(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = smollm2().read_bytes()[:4_000_000]
    path = tmp_path / "m.gguf"
    for _ in range(60):
        path.write_bytes(mutated(whole, 3_000, chance))
        tracemalloc.start()
        outcome(everything, path)
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
