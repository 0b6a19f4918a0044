"""Addresses of endpoints, keys, and prompts of an exact length."""

import copy
import pickle

import pytest

from workbench.engines.endpoint.address import parse_address
from workbench.engines.endpoint.key import HIDDEN, Key
from workbench.engines.endpoint.prompts import calibrated_words, random_ids, random_words
from workbench.errors import SettingsError


@pytest.mark.parametrize(
    ("url", "shown", "route", "page"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "/v1/completions", "/metrics"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080", "/v1/completions", "/metrics"),
        ("http://127.0.0.1:8080/v1/chat/completions", "http://127.0.0.1:8080", "/v1/completions", "/metrics"),
        ("https://host.example/llm/v1", "https://host.example/llm", "/llm/v1/completions", "/llm/metrics"),
        ("https://host.example:443", "https://host.example", "/v1/completions", "/metrics"),
        ("http://[::1]:9000", "http://[::1]:9000", "/v1/completions", "/metrics"),
    ],
)
def test_routes_of_an_address_with_and_without_its_api(url: str, shown: str, route: str, page: str) -> None:
    found = parse_address(url)
    assert (str(found), found.api("completions"), found.root("metrics")) == (shown, route, page)


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "host:80", "http://", "http://a b", "http://host:99999", "http://[::1"]
)
def test_what_is_no_http_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        parse_address(url)


@pytest.mark.parametrize("url", ["http://me:secret@host", "https://host/v1?api-key=secret", "http://host#secret"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError, match="WORKBENCH_API_KEY") as raised:
        parse_address(url)
    assert "secret" not in str(raised.value)


def test_a_key_shows_itself_nowhere() -> None:
    key = Key(" sk-hidden-123 ")
    assert key.header() == "Authorization: Bearer sk-hidden-123\r\n"
    assert "hidden-123" not in f"{key!r} {key} {[key]}"
    assert key.hidden_in("wrong key sk-hidden-123!") == f"wrong key {HIDDEN}!"
    assert "sk-h" not in key.hidden_in("'you sent sk-hidden…'")
    assert "sk/a" not in Key("sk/a/secret").hidden_in(r"'wrong key sk\/a\/secret', 'sk\\/a\\/secret'")
    with pytest.raises(TypeError):
        pickle.dumps(key)
    with pytest.raises(TypeError):
        copy.deepcopy(key)
    assert Key().header() == ""
    assert not Key("a\nb").is_sendable


def test_ids_are_of_the_vocabulary_varied_and_the_same_for_a_seed() -> None:
    assert random_ids(64, 256, 1) == random_ids(64, 256, 1) != random_ids(64, 256, 2)
    assert all(64 <= each < 256 for each in random_ids(64, 256, 1))
    assert len(set(random_ids(1000, None, 3))) > 900


@pytest.mark.parametrize(("n", "template", "each"), [(100, 0, 1.0), (100, 12, 1.0), (256, 30, 1.25), (5, 12, 1.0)])
def test_words_are_calibrated_by_the_server_s_own_count(n: int, template: int, each: float) -> None:
    count = calibrated_words(n, lambda words: template + round(words * each))
    assert abs(template + round(count * each) - n) <= max(1, template - n + 1)
    assert len(random_words(count, 1).split()) == count
