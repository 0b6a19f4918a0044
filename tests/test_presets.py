"""What presets of every kind share: reading a file, telling a mistake in it, and which of two files wins."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from workbench.errors import SettingsError
from workbench.presets import Count, Loaded, Positive, Preset, find, load, read_preset


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Wheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    diameter: Positive
    spokes: Count = 0
    colour: Colour = Colour.RED


class Axle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wheels: list[Wheel] = []
    by_side: dict[str, Wheel] = {}


class Cart(Preset, frozen=True):
    axle: Axle | None = None
    spares: tuple[Wheel, ...] = ()
    load: Literal["hay", "wood"] = "hay"
    rates: dict[str, float] | None = None
    extras: dict[str, Any] | None = None


def read_cart(path: Path) -> Cart:
    return read_preset(path, Cart, SettingsError)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nam = 'a'", "there is no key 'nam'. Did you mean name?"),
        ("name = 'a'\nzzz = 1", "there is no key 'zzz'. Known: name, axle, spares, load, rates, extras."),
        ("name = 'a'\n'ax le' = 1", "there is no key 'ax le'. Did you mean axle?"),
        ("name = 'a'\naxle.wheel = []", "there is no key 'wheel' in axle. Did you mean wheels?"),
        ("name = 'a'\n[[axle.wheels]]\ndiametre = 1", "'diametre' in axle.wheels[0]. Did you mean diameter?"),
        ("name = 'a'\n[axle.by_side.left]\nspoke = 1", "'spoke' in axle.by_side[...]. Did you mean spokes?"),
        ("name = 'a'\n[[spares]]\ndiameter = 1\n[[spares]]\ncolor = 1", "'color' in spares[1]. Did you mean colour?"),
        ("name = 'a'\naxle.wheels = 3", "axle.wheels is 3: expected a list, got a whole number."),
        ("name = 'a'\nspares = [{diameter = -3}]", "spares[0].diameter is -3: expected a number >="),
        ("name = 'a'\nspares = [{diameter = 0}]", "spares[0].diameter is 0: expected a number >="),
        ("name = 'a'\nspares = [{diameter = 1, spokes = -1}]", "spares[0].spokes is -1: expected a whole number >= 0"),
        ("name = 'a'\nspares = [{diameter = nan}]", "spares[0].diameter is nan"),
        ("name = 'a'\nspares = [{diameter = inf}]", "spares[0].diameter is inf"),
        ("name = 'a'\nspares = [{diameter = 1e400}]", "spares[0].diameter is inf"),
        (f"name = 'a'\nspares = [{{diameter = 1{'0' * 400}}}]", "spares[0].diameter"),
        (
            "name = 'a'\nspares = [{diameter = 1, colour = 'gren'}]",
            "spares[0].colour is 'gren', which is not known. Did ",
        ),
        ("name = 'a'\nload = 'coal'", "load is 'coal', which is not known. Known: hay, wood."),
        ("name = 'a'\nrates.fast = inf", "rates.fast is inf; it must be a finite number."),
        ("name = 'a'\nspares = [{}]", "spares[0]: table missing required field `diameter`."),
        ("load = 'hay'", "missing required field `name`"),
        ("name = ''", "name is empty"),
        ("name = ' \t '", "name is empty"),
        ('name = " a"', "name is ' a'; it must be one line without spaces around it."),
        ('name = "a\\nb"', "name is 'a\\nb'; it must be one line"),
        ("name = 3", "name is 3: expected text in quotes, got a whole number."),
        ("name = 'a'\nname = 'b'", "is not valid TOML"),
        ("name = ", "is not valid TOML"),
        ("name = " + "[" * 100_000, "is not valid TOML"),
        ("name = 1" + "0" * 5_000, "is not valid TOML"),
    ],
)
def test_a_mistake_names_the_file_the_key_and_what_is_known(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path / "cart.toml", text)
    with pytest.raises(SettingsError) as caught:
        read_cart(path)
    assert str(caught.value).startswith(f"The preset {path}")
    assert words in str(caught.value)


def test_tables_without_end_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "cart.toml", f"name = 'a'\nextras{'.a' * 2_000} = 1")
    with pytest.raises(SettingsError, match=r"cart\.toml: extras: tables lie too deep"):
        read_cart(path)


def test_a_mark_that_some_editors_put_first_is_no_mistake(tmp_path: Path) -> None:
    assert read_cart(write(tmp_path / "cart.toml", "\ufeffname = 'a'\r\nload = 'wood'\r\n")).load == "wood"


def test_what_is_no_readable_text_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes("name = 'é'".encode("latin-1"))
    (tmp_path / "gone.toml").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.toml")
    write(tmp_path / "good.toml", "name = 'good'")
    loaded = load("models", read_cart, tmp_path)
    assert list(loaded.by_name) == ["good"]
    words = (
        "folder.toml is not a file",
        "gone.toml can't be read",
        "latin.toml is not valid TOML",
        "pipe.toml is not a",
    )
    assert len(loaded.problems) == len(words)
    for problem, expected in zip(loaded.problems, words, strict=True):
        assert expected in problem


def test_the_later_folder_wins_and_a_name_twice_in_one_is_told(tmp_path: Path) -> None:
    write(tmp_path / "shipped" / "a.toml", "name = 'Cart'\nload = 'hay'")
    write(tmp_path / "own" / "b.toml", "name = 'cart'\nload = 'wood'")
    folders = tmp_path / "shipped", tmp_path / "own", tmp_path / "absent"
    loaded = load("models", read_cart, *folders)
    assert find("cart", " caRT ", loaded, SettingsError).load == "wood"
    write(tmp_path / "own" / "c.toml", "name = 'CART'\nload = 'hay'")
    loaded = load("models", read_cart, *folders)
    assert len(loaded.problems) == 1
    assert "c.toml: name: 'CART' is also the name of b.toml in the same folder" in loaded.problems[0]
    with pytest.raises(SettingsError, match=r"no cart named 'cart'.*c\.toml"):
        find("cart", "cart", loaded, SettingsError)


def test_a_name_that_is_not_known_is_told_with_the_nearest_and_the_files_that_failed() -> None:
    loaded = Loaded({"hay cart": Cart("Hay cart")}, ("The preset x.toml: there is no key 'q'.",))
    with pytest.raises(SettingsError, match=r"no cart named 'hay cat'\. Did you mean hay cart\?.*x\.toml"):
        find("cart", "hay cat", loaded, SettingsError)


def test_of_many_names_only_the_nearest_are_listed() -> None:
    loaded = Loaded({f"cart-{n}": Cart(f"cart-{n}") for n in range(100)}, ())
    with pytest.raises(SettingsError) as caught:
        find("cart", "cart 42", loaded, SettingsError)
    assert "Did you mean cart-42? Nearest of the 100 known: cart-42," in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_name_like_none_of_many_is_not_answered_with_others() -> None:
    loaded = Loaded({f"cart-{n}": Cart(f"cart-{n}") for n in range(100)}, ())
    with pytest.raises(SettingsError, match=r"None of the 100 known is like it; `workbench presets` lists them\."):
        find("cart", "xyz", loaded, SettingsError)
