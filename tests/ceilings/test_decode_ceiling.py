"""Decode ceilings at batch 1: the calculator's first block, the four tracks, the cache's share, the tensor table."""

import pytest

from tests.ceilings.figures import (
    DENSE,
    FP16,
    FP32,
    GB,
    GPT_OSS,
    MIXTURE,
    Figures,
    box,
    cells,
    digits_of,
    exact,
    rounded,
    small,
)
from workbench.ceilings import decode, kv_cache, memory_fit
from workbench.ceilings.batch import Ceiling, ceiling
from workbench.models.model import Model, Read

SPARK = 273.0

# Tokens in context: Qwen3-8B, Qwen3-30B-A3B, gpt-oss-120b. The rows at 16,384 stand in the table of the cache.
RATES = {
    0: ("58.4", "142.2", "75.9"),
    4_096: ("51.7", "117.5", "72.8"),
    16_384: ("38.5", "77.3", ""),
    32_768: ("28.7", "53.1", "56.8"),
}
GB_READ = {0: ("4.7", "1.9", "3.6"), 4_096: ("5.3", "2.3", "3.8"), 32_768: ("9.5", "5.1", "4.8")}

# GB/s of the four tracks, all at 4,096 tokens.
TRACKS = {
    273: ("51.7", "117.5", "72.8"),
    256: ("48.5", "110.2", "68.3"),
    546: ("103.5", "235.1", "145.6"),
    1_792: ("339.7", "771.5", ""),
}

# Where the files' exact bytes come out another last digit than the calculator's, which are rounded to a MB.
EXACT_RATES = {(MIXTURE, 4_096): "117.6", (GPT_OSS, 0): "76.0"}
EXACT_GB_READ = {(GPT_OSS, 4_096): "3.7"}
EXACT_TRACKS = {(MIXTURE, 273): "117.6", (MIXTURE, 1_792): "771.7"}


def at(model: Model, t: int, gb_per_second: float = SPARK) -> Ceiling:
    return ceiling(model, t, 1, FP16, box(gb_per_second))


def rate(model: Model, t: int, gb_per_second: float = SPARK) -> float:
    return at(model, t, gb_per_second).tokens_per_second_each.value


@pytest.mark.parametrize(("name", "t", "printed"), cells(RATES))
def test_rates_from_the_calculators_own_inputs(name: str, t: int, printed: str) -> None:
    assert digits_of(printed, rate(rounded(name), t)) == printed


@pytest.mark.parametrize(("name", "t", "printed"), cells(RATES))
def test_rates_from_the_files_bytes(name: str, t: int, printed: str) -> None:
    assert digits_of(printed, rate(exact(name), t)) == EXACT_RATES.get((name, t), printed)


@pytest.mark.parametrize(("name", "t", "printed"), cells(GB_READ))
def test_bytes_read_from_the_calculators_own_inputs(name: str, t: int, printed: str) -> None:
    assert digits_of(printed, at(rounded(name), t).bytes_per_step.value / GB) == printed


@pytest.mark.parametrize(("name", "t", "printed"), cells(GB_READ))
def test_bytes_read_from_the_files_bytes(name: str, t: int, printed: str) -> None:
    read = at(exact(name), t).bytes_per_step.value / GB
    assert digits_of(printed, read) == EXACT_GB_READ.get((name, t), printed)


@pytest.mark.parametrize(("name", "gb_per_second", "printed"), cells(TRACKS))
def test_tracks_from_the_calculators_own_inputs(name: str, gb_per_second: int, printed: str) -> None:
    assert digits_of(printed, rate(rounded(name), 4_096, gb_per_second)) == printed


@pytest.mark.parametrize(("name", "gb_per_second", "printed"), cells(TRACKS))
def test_tracks_from_the_files_bytes(name: str, gb_per_second: int, printed: str) -> None:
    found = rate(exact(name), 4_096, gb_per_second)
    assert digits_of(printed, found) == EXACT_TRACKS.get((name, gb_per_second), printed)


@pytest.mark.parametrize(("name", "printed"), [(DENSE, "5.28"), (MIXTURE, "2.32"), (GPT_OSS, "3.75")])
def test_headings_of_the_track_table(name: str, printed: str) -> None:
    for model in (rounded(name), exact(name)):
        assert digits_of(printed, at(model, 4_096).bytes_per_step.value / GB) == printed


@pytest.mark.parametrize(("gb", "fits"), [(32, False), (128, True)])
def test_the_largest_file_of_the_track_table_needs_a_machine_of_128_gb(gb: int, fits: bool) -> None:
    assert (memory_fit.needed(exact(GPT_OSS), 4_096, FP16).value <= gb * GB) is fits


CACHE_READ = {0: ("0", "0"), 4_096: ("0.60", "0.40"), 16_384: ("2.42", "1.61"), 32_768: ("4.83", "3.22")}
CACHE_PER_CENT = {0: ("0", "0"), 4_096: ("11", "17"), 16_384: ("34", "46"), 32_768: ("51", "63")}


@pytest.mark.parametrize(("name", "t", "printed"), cells(CACHE_READ, (DENSE, MIXTURE)))
def test_cache_read_per_token(name: str, t: int, printed: str) -> None:
    assert digits_of(printed, at(exact(name), t).kv_bytes.value / GB) == printed


@pytest.mark.parametrize(("name", "t", "printed"), cells(CACHE_PER_CENT, (DENSE, MIXTURE)))
def test_share_of_the_bytes_that_is_cache(name: str, t: int, printed: str) -> None:
    assert digits_of(printed, 100 * at(exact(name), t).kv_share.value) == printed


@pytest.mark.parametrize(
    ("name", "k"), [(DENSE, 147_456), (MIXTURE, 98_304), (GPT_OSS, 36_864 + 36_864)], ids=["8B", "30B", "120B"]
)
def test_cache_of_one_token(name: str, k: int) -> None:
    assert kv_cache.cache_bytes(exact(name), 1, FP16) == kv_cache.cache_bytes(rounded(name), 1, FP16) == k


def test_sliding_layers_stop_at_their_window() -> None:
    for model in (exact(GPT_OSS), rounded(GPT_OSS)):
        assert kv_cache.cache_bytes(model, 4_096, FP16) == 36_864 * 4_096 + 36_864 * 128


TENSORS = {
    # group: parameters, bytes in the file, bytes read for a token
    "attention projections": (1_509_949_440, 868_810_752, 868_810_752),
    "feed-forward": (5_435_817_984, 3_291_217_920, 3_291_217_920),
    "output head": (622_329_856, 510_504_960, 510_504_960),
    "norms": (308_224, 1_232_896, 1_232_896),
    "token embedding": (622_329_856, 350_060_544, 2_304),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_groups_of_the_dense_file(name: str) -> None:
    model = exact(DENSE)
    group = next(g for g in model.groups if g.name == name)
    assert (group.parameters, group.bytes, model.read_of(group, group.bytes)) == TENSORS[name]


def test_totals_of_the_dense_file() -> None:
    model = exact(DENSE)
    assert {g.name for g in model.groups} == set(TENSORS)
    assert model.parameters == 8_190_735_360
    assert model.file_bytes == 5_027_784_512
    assert model.file_bytes - model.resident_bytes == 5_957_440, "header"
    assert decode.weights_read(model).value == model.read_bytes_per_token == 4_671_768_832
    assert digits_of("93", 100 * model.read_bytes_per_token / model.file_bytes) == "93"
    assert next(g for g in model.groups if g.read is Read.ONE_ROW).bytes // 151_936 == 2_304


def lead(t: int) -> float:
    return rate(exact(MIXTURE), t) / rate(exact(DENSE), t)


PROSE: Figures = {
    "the dense ceiling after the context alone has grown to 32,768, per cent": (
        "49",
        lambda: 100 * rate(exact(DENSE), 32_768) / rate(exact(DENSE), 0),
    ),
    "16,384 to 32,768 costs the dense model a quarter, per cent left": (
        "75",
        lambda: 100 * rate(exact(DENSE), 32_768) / rate(exact(DENSE), 16_384),
    ),
    "the mixture loses nearly two thirds, per cent left": (
        "37",
        lambda: 100 * rate(exact(MIXTURE), 32_768) / rate(exact(MIXTURE), 0),
    ),
    "gpt-oss loses a quarter, per cent left": (
        "75",
        lambda: 100 * rate(exact(GPT_OSS), 32_768) / rate(exact(GPT_OSS), 0),
    ),
    "the mixture's lead at an empty context": ("2.4", lambda: lead(0)),
    # Printed 1.9, the quotient of the two rounded rates 53.1 and 28.7; the bytes say 1.849.
    "the mixture's lead at 32,768 tokens": ("1.8", lambda: lead(32_768)),
    "question 1, bytes at 16,384": ("7.09", lambda: at(exact(DENSE), 16_384).bytes_per_step.value / GB),
    "question 1, bytes at 32,768": ("9.50", lambda: at(exact(DENSE), 32_768).bytes_per_step.value / GB),
    # Printed as about 38; 38.52 is nearer to 39.
    "question 1, ceiling at 16,384": ("39", lambda: rate(exact(DENSE), 16_384)),
    "question 1, ceiling at 32,768": ("29", lambda: rate(exact(DENSE), 32_768)),
    "question 3, ceiling at an empty context": ("142", lambda: rate(exact(MIXTURE), 0)),
    "question 3, ceiling at 32,768": ("53", lambda: rate(exact(MIXTURE), 32_768)),
    "question 3, memory at 32,768": ("21.78", lambda: at(exact(MIXTURE), 32_768).memory_needed_bytes.value / GB),
    "question 3, the bug: bandwidth over the file": (
        "15",
        lambda: SPARK * GB / memory_fit.weights_resident(exact(MIXTURE)).value,
    ),
    "question 4, ceiling alone": ("52", lambda: rate(exact(DENSE), 4_096)),
    "Qwen3-0.6B, GB at about 1 token": ("2.384", lambda: decode.bytes_per_step(small(), 1, FP32).value / GB),
    "Qwen3-0.6B, GB of cache at 4,100 tokens": ("0.940", lambda: kv_cache.cache_bytes(small(), 4_100, FP32) / GB),
    # Printed 3.324 and 4.264, sums of rounded terms; the bytes come to 3.3246 and 4.2651.
    "Qwen3-0.6B, GB at 4,100 tokens": ("3.325", lambda: small_step(caches=1)),
    "Qwen3-0.6B, GB with the engine's copy": ("4.265", lambda: small_step(caches=2)),
    "Qwen3-0.6B, ratio of TPOT": ("1.39", lambda: small_step(caches=1) / small_step(caches=0)),
    "Qwen3-0.6B, ratio with the engine's copy": ("1.79", lambda: small_step(caches=2) / small_step(caches=0)),
}


def small_step(caches: int) -> float:
    """GB a step at 4,100 tokens moves with that many passes over the cache."""
    return (decode.weights_read(small()).value + caches * kv_cache.cache_bytes(small(), 4_100, FP32)) / GB


@pytest.mark.parametrize("figure", PROSE)
def test_figures_between_the_tables(figure: str) -> None:
    printed, computed = PROSE[figure]
    assert digits_of(printed, computed()) == printed
