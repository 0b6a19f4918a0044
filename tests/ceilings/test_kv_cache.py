"""What a step reads of each kind of layer's cache, in elements of each width."""

from dataclasses import replace

import pytest

from tests.ceilings.figures import DENSE, GPT_OSS, exact
from workbench.ceilings.kv_cache import cache_bytes, cache_read
from workbench.models.cache_types import CACHE_TYPE_BYTES
from workbench.models.model import KvKind, KvLayer

FULL = KvLayer(KvKind.FULL, 64)
SLIDING = KvLayer(KvKind.SLIDING, 64, window=8)
LATENT = KvLayer(KvKind.LATENT, 32)
STATE = KvLayer(KvKind.RECURRENT, 0, constant_elements=1_024)


@pytest.mark.parametrize(
    ("layer", "t", "size", "read"),
    [
        (FULL, 0, 2.0, 0),
        (FULL, 100, 2.0, 64 * 100 * 2),
        (FULL, 100, CACHE_TYPE_BYTES["q8_0"], 64 * 100 * 34 // 32),
        (FULL, 100, CACHE_TYPE_BYTES["q4_0"], 64 * 100 * 18 // 32),
        (SLIDING, 7, 2.0, 64 * 7 * 2),
        (SLIDING, 8, 2.0, 64 * 8 * 2),
        (SLIDING, 100, 2.0, 64 * 8 * 2),
        (LATENT, 100, 2.0, 32 * 100 * 2),
        (STATE, 0, 2.0, 1_024 * 2),
        (STATE, 100, 2.0, 1_024 * 2),
        (STATE, 100, 4.0, 1_024 * 4),
        # Engines keep a fixed state in half precision where they quantise the cache.
        (STATE, 100, CACHE_TYPE_BYTES["q4_0"], 1_024 * 2),
    ],
)
def test_each_kind_of_layer(layer: KvLayer, t: int, size: float, read: int) -> None:
    model = replace(exact(DENSE), kv_layers=(layer,))
    assert cache_bytes(model, t, size) == read
    assert cache_bytes(model, t, size, 3) == 3 * read


def test_layers_of_every_kind_add_up() -> None:
    model = replace(exact(DENSE), kv_layers=(FULL, SLIDING, LATENT, STATE))
    assert cache_bytes(model, 10, 2.0) == 2 * (64 * 10 + 64 * 8 + 32 * 10 + 1_024)


def test_a_read_says_which_windows_limit_it() -> None:
    within, beyond = (cache_read(exact(GPT_OSS), t, 2.0) for t in (128, 4_096))
    assert "sliding" not in within.name
    assert "sliding layers 128 at most" in beyond.name
