"""Requests and batches of a real tiny model in a variant: the same tokens' work, the cache kept, and the bytes held."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.engines.test_batches import tiny
from tests.models_on_disk import TINY_CONFIG
from workbench.engines.variant_network import apply_variant, held_bytes
from workbench.engines.variant_steps import VariantSteps
from workbench.errors import SettingsError
from workbench.experiments.engine_settings import LLAMA_CPP
from workbench.experiments.gap.named_variants import NAMES, names_of, variant_named
from workbench.experiments.gap.variant import AS_LOADED, Cache, Stored, Variant
from workbench.experiments.settings import BatchSettings, GapSettings, RunSettings, SweepSettings, check_settings
from workbench.models.int8 import in_int8
from workbench.models.resolve import resolve
from workbench.runner import CancelToken

PACKED = {**TINY_CONFIG, "hidden_size": 256, "intermediate_size": 768, "vocab_size": 4096}


@pytest.mark.parametrize("tied", [True, False])
def test_a_packed_network_holds_the_bytes_that_were_planned(tmp_path: Path, tied: bool) -> None:
    model = tiny(tmp_path, {**PACKED, "tie_word_embeddings": tied})
    planned = RunSettings(variant=Variant(stored=Stored.INT8)).held(model.model)
    apply_variant(model._network, Variant(stored=Stored.INT8))
    assert held_bytes(model._network) == pytest.approx(planned.resident_bytes, rel=0.01)


def test_a_step_of_packed_weights_reads_a_byte_of_each_and_the_scales() -> None:
    whole = resolve("smollm2-135m").in_dtype("float32")
    packed = in_int8(whole)
    norms = next(group for group in whole.groups if group.name == "norms")
    linear = whole.parameters - norms.parameters
    row = 4 * whole.hidden
    assert packed.read_bytes_per_token == pytest.approx(norms.bytes + row + linear * (1 + 2 / whole.hidden), abs=8)
    assert packed.read_parameters == whole.read_parameters
    assert packed.held_bytes == packed.read_bytes_per_token - row + 4 * whole.head_parameters


def test_a_preallocated_cache_is_kept_for_requests_of_one_length_and_begins_each_empty(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    model._passes._steps = VariantSteps(model._network, Variant(cache=Cache.PREALLOCATED))
    caches = []
    for prompt in (5, 5, 7):
        model.prepare(prompt, 1)
        assert model.request(4, CancelToken()).steps == 3
        caches.append(model._passes._steps.cache)
    assert caches[0] is caches[1]
    assert caches[1] is not caches[2]
    assert len(model.batch((6, 4), 2, 1, CancelToken()).step_s) == 2


def test_levers_by_name_make_the_variant_that_gives_the_names_back() -> None:
    both = variant_named(["int8-weights", "compiled"])
    assert both == Variant(stored=Stored.INT8, compiled=True, cache=Cache.PREALLOCATED)
    assert names_of(both) == ("int8-weights", "compiled")
    assert names_of(replace(both, dtype="bfloat16", threads=1)) == ("int8-weights", "compiled")
    assert variant_named([]) == AS_LOADED
    assert variant_named(NAMES) == variant_named(NAMES[::-1])


@pytest.mark.parametrize(("name", "words"), [("int8-wieghts", "int8-weights"), ("bfloat16", "set by the dtype")])
def test_a_lever_that_no_run_is_given_by_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        variant_named([name])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SweepSettings(variant=Variant(stored=Stored.INT8), layers=2), "as they are loaded"),
        (SweepSettings(variant=Variant(stored=Stored.INT8), engine=LLAMA_CPP), "transformers only"),
        (GapSettings(variant=Variant(attention="eager")), "takes a model apart as it is loaded"),
        (BatchSettings(variant=Variant(compiled=True), mixed=True), "one shape"),
    ],
)
def test_where_levers_cannot_be_applied_the_run_is_refused_in_a_sentence(
    settings: SweepSettings | BatchSettings | GapSettings, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        check_settings(settings)


def test_the_labels_tell_how_a_model_is_run_and_held() -> None:
    variant = Variant(1, "bfloat16", Cache.PREALLOCATED, "eager", stored=Stored.INT8)
    assert variant.run_words == "preallocated cache, eager attention"
    assert variant.stored_words == "int8 weights"
    assert (AS_LOADED.run_words, AS_LOADED.stored_words) == ("", "")
