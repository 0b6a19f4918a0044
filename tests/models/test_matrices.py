"""The matrices one token is multiplied by, from a model's own widths."""

from dataclasses import replace

import pytest

from workbench.errors import ModelError
from workbench.models.matrices import matrix_shapes
from workbench.models.resolve import resolve


def test_a_dense_models_projections_and_head() -> None:
    assert set(matrix_shapes(resolve("qwen3-0.6b"))) == {
        (2048, 1024),
        (1024, 2048),
        (3072, 1024),
        (1024, 3072),
        (151_936, 1024),
    }


def test_an_experts_width_is_one_experts() -> None:
    shapes = matrix_shapes(resolve("qwen3-30b-a3b-q4_k_m"))
    assert (768, 2048) in shapes
    assert (2048, 768) in shapes


def test_a_model_that_tells_no_widths_gives_the_square_of_its_hidden_one() -> None:
    bare = replace(resolve("qwen3-0.6b"), groups=(), attention_layers=(), vocabulary=0)
    assert matrix_shapes(bare) == ((1024, 1024),)


def test_sizes_of_nothing_are_left_out() -> None:
    odd = replace(resolve("qwen3-0.6b"), groups=(), kv_layers=(), vocabulary=0)
    assert all(min(shape) > 0 for shape in matrix_shapes(odd))


def test_a_model_without_a_hidden_width_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"qwen3-0\.6b does not tell its hidden width"):
        matrix_shapes(replace(resolve("qwen3-0.6b"), hidden=0))
