"""Presets: the golden figures, transformers' own models of the same shapes, and a person's own files."""

from pathlib import Path

import pytest

from workbench.errors import ModelError
from workbench.models.inspection import inspection
from workbench.models.presets import load_presets, model_of, preset_model, read_preset
from workbench.models.shape import tensor_shapes

# Total parameters, read per token, KV bytes a token of full and of sliding layers at two bytes an element.
SHAPES = {
    "qwen3-0.6b": (596_049_920, 596_049_920, 114_688, 0),
    "qwen3-1.7b": (1_720_574_976, 1_720_574_976, 114_688, 0),
    "qwen3-4b": (4_022_468_096, 4_022_468_096, 147_456, 0),
    "qwen3-8b": (8_190_735_360, 7_568_405_504, 147_456, 0),
    "qwen3-14b": (14_768_307_200, 13_990_394_880, 163_840, 0),
    "qwen3-32b": (32_762_123_264, 31_984_210_944, 262_144, 0),
    "qwen3-30b-a3b": (30_532_122_624, 3_041_867_776, 98_304, 0),
    "qwen3-235b-a22b": (235_093_634_560, 21_568_433_664, 192_512, 0),
    "gpt-oss-120b": (116_829_156_672, 5_132_849_472, 36_864, 36_864),
    "llama-3.1-8b": (8_030_261_248, 7_504_924_672, 131_072, 0),
    "llama-3.1-70b": (70_553_706_496, 69_503_033_344, 327_680, 0),
    "llama-3.2-1b": (1_235_814_400, 1_235_814_400, 32_768, 0),
    "mistral-7b-v0.3": (7_248_023_552, 7_113_805_824, 131_072, 0),
    "smollm2-135m": (134_515_008, 134_515_008, 23_040, 0),
    "smollm2-1.7b": (1_711_376_384, 1_711_376_384, 196_608, 0),
}
FILES = {
    "qwen3-8b-q4_k_m": "qwen3-8b",
    "qwen3-30b-a3b-q4_k_m": "qwen3-30b-a3b",
    "gpt-oss-120b-mxfp4": "gpt-oss-120b",
}


def test_every_shipped_preset_is_expected_and_loads() -> None:
    presets = load_presets()
    assert presets.problems == ()
    assert presets.models.keys() >= SHAPES.keys() | FILES.keys()


@pytest.mark.parametrize("name", SHAPES)
def test_golden_figures_of_shapes(name: str) -> None:
    model = preset_model(name)
    figures = inspection(model)
    total, read, full, windowed = SHAPES[name]
    assert (model.parameters, model.read_parameters) == (total, read)
    assert model.resident_bytes == 2 * total
    kv = figures["kv"]
    assert (kv["full_bytes_per_token"], kv["windowed_bytes_per_token"]) == (full, windowed)
    assert kv["bytes_per_token"] == full + windowed
    assert model.tied_embeddings is (total == read)
    assert model.notes == ()


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_those_of_transformers_own_class(name: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = load_presets().models[name].config
    # Layers are alike; two of them (one full, one sliding) say all, and the biggest models take minutes.
    short = {**config, "num_hidden_layers": 2}
    settings = {k: v for k, v in short.items() if k != "model_type"}
    with torch.device("meta"):
        theirs = AutoModelForCausalLM.from_config(CONFIG_MAPPING[config["model_type"]](**settings))
    assert dict(tensor_shapes(short, name)) == {k: tuple(p.shape) for k, p in theirs.named_parameters()}


@pytest.mark.parametrize(("name", "shape"), FILES.items())
def test_files_hold_the_parameters_and_cache_of_their_shape(name: str, shape: str) -> None:
    file, plain = preset_model(name), preset_model(shape)
    assert (file.parameters, file.read_parameters) == (plain.parameters, plain.read_parameters)
    assert file.kv_layers == plain.kv_layers


def test_the_three_files_to_the_byte() -> None:
    dense = preset_model("qwen3-8b-q4_k_m")
    assert dense.file_bytes == 5_027_784_512
    assert dense.resident_bytes == 5_027_784_512 - 5_957_440
    assert dense.shared_read_bytes == 4_671_766_528
    assert dense.read_bytes_per_token == 4_671_768_832
    mixture = preset_model("qwen3-30b-a3b-q4_k_m")
    assert mixture.shared_read_bytes == 822_523_904
    assert mixture.routed_expert_bytes == 17_553_162_240
    assert mixture.read_bytes_per_token - mixture.shared_read_bytes - 2_048 // 256 * 144 == 1_097_072_640
    large = preset_model("gpt-oss-120b-mxfp4")
    assert large.shared_read_bytes == 1_685_668_608
    assert large.routed_expert_bytes == 61_073_326_080
    assert large.read_bytes_per_token - large.shared_read_bytes - 2_880 // 32 * 34 == 1_908_541_440
    for model in (mixture, large):
        assert model.file_bytes is not None
        # The files' sizes are known to four figures; their headers take a few MB.
        assert 0 < model.file_bytes - model.resident_bytes < 20_000_000


def test_gpt_oss_slides_on_alternate_layers() -> None:
    model = preset_model("gpt-oss-120b")
    assert [layer.window for layer in model.kv_layers] == [128, None] * 18
    assert inspection(model)["kv"]["window"] == 128
    assert model.kv_elements_read(32_768) * 2 == 36_864 * 32_768 + 4_718_592


def test_names_are_matched_without_case_and_offered_when_mistyped() -> None:
    assert preset_model("Qwen3-0.6B").name == "qwen3-0.6b"
    with pytest.raises(ModelError, match=r"Did you mean qwen3-0\.6b\?"):
        preset_model("qwen3-0.6")


OWN = """
name = "mine"
source = "me"
[config]
model_type = "llama"
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 4
intermediate_size = 96
vocab_size = 128
"""
GROUP = """
[[groups]]
name = "a"
types = []
parameters = 1
bytes = 1
read = "all"
"""


def test_a_persons_own_preset_wins_and_a_broken_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.presets.config_folder", lambda: tmp_path)
    folder = tmp_path / "presets" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(OWN)
    (folder / "qwen.toml").write_text(OWN.replace('"mine"', '"Qwen3-0.6B"'))
    (folder / "broken.toml").write_text(OWN.replace("source", "sauce"))
    presets = load_presets()
    assert preset_model("MINE", presets).vocabulary == 128
    assert preset_model("qwen3-0.6b", presets).vocabulary == 128
    assert "llama-3.1-8b" in presets.models
    assert len(presets.problems) == 1
    assert "broken.toml" in presets.problems[0]
    assert "no key 'sauce'. Did you mean source?" in presets.problems[0]
    with pytest.raises(ModelError, match=r"broken\.toml"):
        preset_model("brokn", presets)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN + GROUP.replace("bytes", "bites"), "'bites' in groups[0]. Did you mean bytes?"),
        (OWN.replace('"me"', "3"), "source"),
        ("name = ", "not valid TOML"),
        (OWN.replace('source = "me"', ""), "missing required field `source`"),
        (OWN + GROUP.replace('"all"', '"some"'), "groups[0].read is 'some', which is not known. Did you mean none?"),
        (
            OWN + GROUP.replace("parameters = 1", "parameters = -1"),
            "groups[0].parameters is -1: expected a whole number",
        ),
        (OWN + "factor = nan", "config.factor is nan"),
    ],
)
def test_mistakes_in_a_preset_name_the_file_and_the_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read_preset(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.replace('"llama"', '"mamba"'), "families known are"),
        (OWN.replace("vocab_size = 128", ""), "vocab_size"),
        (OWN + 'dtype = "float13"\n', "There is no dtype named 'float13'"),
        (OWN + GROUP.replace('"all"', '"K of N"'), "how many experts"),
        (OWN.replace("= 64", "= -64"), "hidden_size"),
    ],
)
def test_figures_that_contradict_themselves_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ModelError, match=words):
        model_of(read_preset(path))
