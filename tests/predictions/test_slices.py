"""A whole model from two slices: exact where layers cost the same, and what slices there can be."""

import pytest

from workbench.errors import SettingsError
from workbench.models.resolve import resolve
from workbench.models.slices import check_slices, sliced
from workbench.predictions.slices import Slices


def test_layers_that_cost_the_same_give_the_whole_exactly() -> None:
    fixed, each = 5.0, 2.0
    assert Slices(4, 28).seconds(fixed + 8 * each, 4 * each) == pytest.approx(fixed + 28 * each)
    assert Slices(4, 8).seconds(fixed + 8 * each, 4 * each) == pytest.approx(fixed + 8 * each)


def test_a_slice_has_its_share_of_the_layers_and_all_of_the_table() -> None:
    model = resolve("qwen3-0.6b")
    few, more = sliced(model, 4), sliced(model, 8)
    each = (more.parameters - few.parameters) / 4
    assert few.parameters + 24 * each == pytest.approx(model.parameters, rel=1e-6)
    assert few.head_parameters == model.head_parameters
    assert len(few.kv_layers) == 4
    assert few.config is not None
    assert few.config["num_hidden_layers"] == 4


@pytest.mark.parametrize("layers", [0, 15, 100])
def test_slices_that_there_can_not_be_are_refused_with_a_way_out(layers: int) -> None:
    with pytest.raises(SettingsError):
        check_slices(resolve("qwen3-0.6b"), layers)


def test_slices_that_do_not_stand_for_alternating_layers_name_the_ones_that_do() -> None:
    model = resolve("gpt-oss-120b")
    check_slices(model, 2)
    with pytest.raises(SettingsError, match="--layers 2"):
        check_slices(model, 3)
