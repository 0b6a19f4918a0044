"""Mixtures of experts: what is read at batch 1, what a batch touches, and how far the file-size shortcut is off."""

from dataclasses import replace

import pytest

from tests.ceilings.figures import DENSE, GB, GPT_OSS, MIXTURE, cells, digits_of, exact
from workbench.ceilings import decode, experts
from workbench.quantity import Origin, Quantity, Unit

# The table at batch 1: shared bytes, routed bytes, bytes of the experts one token uses.
BYTES = {
    DENSE: (4_671_766_528, 0, 0),
    MIXTURE: (822_523_904, 17_553_162_240, 1_097_072_640),
    GPT_OSS: (1_685_668_608, 61_073_326_080, 1_908_541_440),
}
# Of the same: GB read per token, per cent of the file, GB of the file.
READ = {DENSE: ("4.67", "93", "5.03"), MIXTURE: ("1.92", "10", "18.56"), GPT_OSS: ("3.59", "6", "63.39")}

# Sequences: experts of Qwen3-30B-A3B, GB of them, experts of gpt-oss-120b.
TOUCHED = {
    1: ("8.0", "1.10", "4.0"),
    4: ("29.1", "3.99", "15.3"),
    16: ("82.4", "11.30", "51.0"),
    64: ("125.9", "17.27", "111.2"),
}

# GB by the shortcut from the printed file size and counts, and tensor by tensor.
SHORTCUTS = {DENSE: ("5.03", "4.67"), MIXTURE: ("2.01", "1.92"), GPT_OSS: ("2.76", "3.59")}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_at_batch_one(name: str) -> None:
    model = exact(name)
    one_token = sum(model.read_of(g, g.bytes) for g in model.groups if g.name == "routed experts")
    assert (model.shared_read_bytes, model.routed_expert_bytes, one_token) == BYTES[name]


@pytest.mark.parametrize(("column", "name", "printed"), cells(READ, ("read", "share", "file")))
def test_reads_beside_the_file(column: str, name: str, printed: str) -> None:
    model = exact(name)
    assert model.file_bytes is not None
    W = decode.weights_read(model).value
    figure = {"read": W / GB, "share": 100 * W / model.file_bytes, "file": model.file_bytes / GB}[column]
    assert digits_of(printed, figure) == printed


@pytest.mark.parametrize(("column", "b", "printed"), cells(TOUCHED, ("mixture", "GB", "gpt-oss")))
def test_experts_touched_by_a_batch(column: str, b: int, printed: str) -> None:
    model = exact(GPT_OSS if column == "gpt-oss" else MIXTURE)
    count, read = experts.touched(model, b), experts.bytes_touched(model, b)
    assert count is not None
    assert read is not None
    assert digits_of(printed, read.value / GB if column == "GB" else count.value) == printed


def test_a_step_of_16_touches_two_thirds_of_the_experts() -> None:
    assert digits_of("64", 100 * experts.share_touched(exact(MIXTURE), 16)) == "64"


def test_files_that_must_be_resident() -> None:
    for name, printed in ((MIXTURE, "18.6"), (GPT_OSS, "63.4")):
        assert digits_of(printed, (exact(name).file_bytes or 0) / GB) == printed


def test_all_parameters_are_those_the_cards_state() -> None:
    for name, printed in ((MIXTURE, "30.5"), (GPT_OSS, "117")):
        assert digits_of(printed, exact(name).parameters / 1e9) == printed


@pytest.mark.parametrize(("column", "name", "printed"), cells(SHORTCUTS, ("shortcut", "counted")))
def test_the_shortcut_beside_the_count(column: str, name: str, printed: str) -> None:
    found = experts.shortcut(exact(name))
    figure = found.shortcut if column == "shortcut" else found.counted
    assert digits_of(printed, figure.value / GB) == printed


@pytest.mark.parametrize(
    ("file", "active", "total", "printed"), [(18.56, 3.3, 30.5, "2.01"), (63.39, 5.1, 117.0, "2.76")]
)
def test_the_shortcut_from_the_printed_inputs(file: float, active: float, total: float, printed: str) -> None:
    def billions(value: float, unit: Unit) -> Quantity:
        return Quantity("given", value * 1e9, unit, Origin.VENDOR)

    found = experts.shortcut_bytes(
        billions(file, Unit.BYTES), billions(active, Unit.PARAMETERS), billions(total, Unit.PARAMETERS)
    )
    assert digits_of(printed, found.value / GB) == printed


@pytest.mark.parametrize("name", SHORTCUTS)
def test_deviations_sum_to_the_count_less_the_shortcut(name: str) -> None:
    for model in (exact(name), replace(exact(name), published=None)):
        found = experts.shortcut(model)
        total = sum(deviation.bytes for deviation in found.deviations)
        assert total == pytest.approx(found.counted.value - found.shortcut.value, abs=len(model.groups))


def test_the_dense_shortcut_is_high_by_the_embedding_table() -> None:
    found = experts.shortcut(exact(DENSE))
    assert found.deviations[0].group == "token embedding"
    assert found.deviations[0].bytes < 0
    assert found.shortcut.value > found.counted.value


def test_qwens_activated_parameters_include_the_embedding_table() -> None:
    table = next(d for d in experts.shortcut(exact(MIXTURE)).deviations if d.group == "token embedding")
    assert "all of it counts as active" in table.why
    assert table.bytes < 0


def test_gpt_oss_is_low_by_what_is_always_read() -> None:
    """Attention and the head are Q8_0, about twice the bytes a parameter of the MXFP4 experts."""
    model = exact(GPT_OSS)
    found = experts.shortcut(model)
    by_group = {d.group: d.bytes for d in found.deviations}
    assert found.shortcut.value < found.counted.value
    assert found.deviations[0].group == "attention projections"
    assert by_group["output head"] > 0
    each = {g.name: g.bytes / g.parameters for g in model.groups}
    assert digits_of("2.0", each["attention projections"] / each["routed experts"]) == "2.0"


def test_a_dense_model_touches_no_experts() -> None:
    assert experts.touched(exact(DENSE), 16) is None
    assert experts.bytes_touched(exact(DENSE), 16) is None
    assert experts.share_touched(exact(DENSE), 16) == 0
