"""A folder with a published config.json and nothing else gives the totals on the model's card."""

import json
from pathlib import Path

import pytest

from tests.models.published import PUBLISHED
from workbench.models.folder import read_folder
from workbench.models.model import ModelKind, Read


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_cards_totals_are_found(tmp_path: Path, name: str) -> None:
    published = PUBLISHED[name]
    (tmp_path / "config.json").write_text(json.dumps(published.config))
    model = read_folder(tmp_path)
    assert (model.kind, model.file_bytes, model.path) == (ModelKind.FOLDER, None, tmp_path)
    assert model.parameters / 1e9 == pytest.approx(published.total, rel=0.01)
    if published.active is None:
        assert model.experts == 0
    else:
        table = 0 if model.tied_embeddings or not published.with_table else model.vocabulary * model.hidden
        assert (model.read_parameters + table) / 1e9 == pytest.approx(published.active, rel=0.015)
    assert sum(layer.elements_per_token for layer in model.kv_layers) == published.kv_elements
    assert not any("unknown purpose" in note or "not modelled" in note for note in model.notes)


def test_what_stands_beside_the_language_model_is_never_read(tmp_path: Path) -> None:
    for name in ("Llama-4-Scout", "gemma-3-27b-it", "llava-1.5-7b-hf"):
        (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[name].config))
        towers = [group for group in read_folder(tmp_path).groups if group.read is Read.NONE]
        assert [group.name for group in towers] == ["vision and audio towers"]
        assert 0.2e9 < towers[0].parameters < 1e9


def test_heads_that_predict_further_ahead_are_said_to_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["DeepSeek-V3"].config))
    assert any("Extra prediction heads (1 in" in note for note in read_folder(tmp_path).notes)


def test_fp8_takes_a_byte_and_its_scales_where_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["DeepSeek-V3"].config))
    model = read_folder(tmp_path)
    experts = next(group for group in model.groups if group.read is Read.ROUTED)
    assert experts.types == ("float8_e4m3fn",)
    # Every width is a multiple of the block of 128 by 128 that shares a scale of four bytes.
    assert experts.bytes == experts.parameters + experts.parameters // 128**2 * 4
    whole = {group.name for group in model.groups if group.types == ("bfloat16",)}
    assert whole == {"output head", "token embedding", "norms", "router"}
    assert model.quantisation == "fp8"
