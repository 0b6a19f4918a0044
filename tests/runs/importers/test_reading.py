"""Every form that results are written in, whole, damaged, and among other things."""

import gzip
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.importers.recordings import OLD_CSV, OLD_MARKDOWN, recording
from workbench.errors import ImportRefused
from workbench.runs.importers import plain_text
from workbench.runs.importers import record as record_module
from workbench.runs.importers.importing import runs_of
from workbench.runs.importers.reading import found_in, read_bytes
from workbench.runs.importers.record import Found
from workbench.runs.importers.standing import Standing

SOURCE = {"file": "results", "form": "a form", "sha256": "0"}
MOMENT = "2026-11-30T00:00:00Z"
LLAMA_BENCH = ("llama-bench.json", "llama-bench.jsonl", "llama-bench.csv", "llama-bench.sql", "llama-bench.md")
BATCHED = ("batched-bench.jsonl", "batched-bench.txt")


def found(text: str) -> Found:
    return found_in(text.encode(), "results")


def measured_in(text: str) -> list[tuple[int, int, int]]:
    names = ("n_prompt", "n_gen", "n_depth")
    return [tuple(int(each.values.get(name, 0)) for name in names) for each in found(text).records]  # type: ignore[misc]


@pytest.mark.parametrize("name", LLAMA_BENCH)
def test_each_form_of_llama_bench_has_the_same_tests(name: str) -> None:
    shallow, deep = ([(16, 0, d), (128, 0, d), (0, 16, d)] for d in (0, 512))
    assert measured_in(recording(name)) == [*shallow, *deep]
    assert found(recording(name)).notes == []


@pytest.mark.parametrize("name", BATCHED)
def test_both_forms_of_the_batched_bench_have_the_same_batches_and_settings(name: str) -> None:
    records = found(recording(name)).records
    assert [int(each.values["pl"]) for each in records] == [1, 2, 4, 8]
    assert {int(each.values["n_ubatch"]) for each in records} == {512}
    assert {int(each.values["n_kv"]) // int(each.values["pl"]) for each in records} == {80}


def test_earlier_column_sets_are_read_by_name() -> None:
    values = found(OLD_CSV).records[1].values
    assert (values["n_gen"], values["avg_ns"], values["cpu_info"]) == (
        "128",
        "969320879",
        "13th Gen Intel(R) Core(TM) i9-13900K",
    )
    assert values["opencl"] == "0"
    table = found(OLD_MARKDOWN).records[0].values
    assert (table["n_prompt"], table["avg_ts"], table["build_number"]) == ("512", "373.36", "1275")
    assert table["model_n_params"] == 6_740_000_000
    assert table["model_size"] == round(3.56 * 2**30)


LOG = "ggml_cuda_init: found 1 CUDA devices:\n  Device 0: NVIDIA, compute capability 8.9, VMM: yes\n"


@pytest.mark.parametrize("name", LLAMA_BENCH + BATCHED)
def test_stray_lines_before_and_after_change_no_result(name: str) -> None:
    clean = found(recording(name))
    among = found(LOG + recording(name) + "\n" + LOG)
    assert [each.values for each in among.records] == [each.values for each in clean.records]


@pytest.mark.parametrize("name", ["llama-bench.jsonl", "llama-bench.csv", "llama-bench.md", "batched-bench.txt"])
def test_stray_lines_between_are_told(name: str) -> None:
    lines = recording(name).splitlines(keepends=True)
    among = found("".join([*lines[:-2], LOG, *lines[-2:]]))
    assert len(among.records) == len(found(recording(name)).records)
    assert any("ggml_cuda_init" in note for note in among.notes)


@pytest.mark.parametrize("name", LLAMA_BENCH)
def test_a_file_cut_in_its_last_result_keeps_the_others_and_says_so(name: str) -> None:
    text = recording(name).rpartition("build:")[0] if name.endswith(".md") else recording(name)
    cut = found(text.rstrip(" ]\n|);}")[:-40])
    assert len(cut.records) in (5, 6)
    assert any("cut short" in note for note in cut.notes)


def test_of_a_cut_line_of_csv_the_last_value_is_not_taken() -> None:
    whole = recording("llama-bench.csv").rstrip()
    at = whole.rindex('"180758584"')
    cut = found(whole[: at + 5])
    assert "avg_ns" not in cut.records[-1].values
    assert cut.records[-1].values["n_gen"] == "16"


def test_a_dump_of_the_table_is_read_by_the_names_of_its_columns() -> None:
    dump = (
        "BEGIN TRANSACTION;\nCREATE TABLE llama_bench (\n model_filename TEXT,\n n_prompt INTEGER,\n n_gen INTEGER,\n"
        " avg_ns INTEGER\n);\nINSERT INTO llama_bench VALUES('it''s; a (model).gguf',16,0,57369221),('b',0,1,5e6);\n"
    )
    first, second = found(dump).records
    assert first.values == {
        "model_filename": "it's; a (model).gguf",
        "n_prompt": "16",
        "n_gen": "0",
        "avg_ns": "57369221",
    }
    assert second.values["avg_ns"] == "5e6"


def test_a_quote_as_llama_bench_writes_it_into_sql_does_not_end_the_value() -> None:
    text = recording("llama-bench.sql").replace("'smol.gguf'", "'it's.gguf'")
    assert [each.values["model_filename"] for each in found(text).records] == ["it's.gguf"] * 6


@pytest.mark.parametrize("word", ["nan", "-nan", "inf"])
def test_numbers_that_json_has_no_word_for_are_read_as_they_are_meant(word: str) -> None:
    records = found(recording("llama-bench.json").replace('"avg_ts": 278.855258', f'"avg_ts": {word}')).records
    assert len(records) == 6
    assert str(records[0].values["avg_ts"]).lstrip("-") in ("nan", "inf")


def test_results_inside_an_envelope_are_found() -> None:
    wrapped = json.dumps({"host": "lab-7", "results": json.loads(recording("llama-bench.json"))})
    assert len(found(wrapped).records) == 6


def test_a_log_of_both_streams_gives_its_results_once_from_the_form_that_says_most() -> None:
    both = found(recording("llama-bench.md") + recording("llama-bench.jsonl"))
    assert both.form == "JSON lines"
    assert len(both.records) == 6


WRITTEN: dict[str, Callable[[str], bytes]] = {
    "UTF-16 as PowerShell redirects it": lambda text: text.encode("utf-16"),
    "UTF-16 without its mark": lambda text: text.encode("utf-16-le"),
    "UTF-16 the other way round": lambda text: text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "a mark before UTF-8": lambda text: text.encode("utf-8-sig"),
    "ends of lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "ends of lines of a terminal": lambda text: text.replace("\n", "\r").encode(),
    "colours": lambda text: text.replace("\n", "\x1b[0m\n\x1b[1;32m").encode(),
    "gzip": lambda text: gzip.compress(text.encode()),
    "gzip in two parts": lambda text: gzip.compress(text[:999].encode()) + gzip.compress(text[999:].encode()),
    "gzip of UTF-16": lambda text: gzip.compress(text.encode("utf-16")),
}


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("name", LLAMA_BENCH + BATCHED)
def test_a_file_is_read_however_it_was_encoded_or_packed(name: str, written: str) -> None:
    text = recording(name)
    if written == "gzip in two parts" and len(text) < 1000:
        text += "\n" * 1000
    again = found_in(WRITTEN[written](text), "results")
    assert [each.values for each in again.records] == [each.values for each in found(text).records]
    assert again.notes == []


def test_of_a_packed_file_that_is_cut_or_damaged_what_unpacks_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(recording("llama-bench.jsonl").replace("2026-11", f"20{y}-11") for y in range(10, 60))
    packed = gzip.compress(text.encode())
    for data in (packed[: len(packed) // 2], packed[: len(packed) // 2] + b"\xff" * 400):
        cut = found_in(data, "results")
        assert 0 < len(cut.records) < 300
        assert any("cut short or damaged" in note for note in cut.notes)
    with pytest.raises(ImportRefused, match="packed file is cut short"):
        found_in(packed[:40], "results")
    monkeypatch.setattr(plain_text, "MOST_BYTES", 5000)
    limited = found_in(gzip.compress(text.encode()), "results")
    assert len(limited.records) == 5
    assert any("only the first 0 MiB of what it packs" in note for note in limited.notes)


@pytest.mark.parametrize("name", LLAMA_BENCH + BATCHED)
def test_results_that_stand_in_a_file_twice_are_taken_once_and_told(name: str) -> None:
    twice = found(recording(name) + "\n" + recording(name))
    once = found(recording(name)).records
    assert [each.values for each in twice.records] == [each.values for each in once]
    assert any(f"{len(once)} results are left out: it stands in the file before" in note for note in twice.notes)


def test_an_object_that_breaks_off_is_looked_at_no_further_than_a_result_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, text: str, place: int = 0) -> tuple[object, int]:
        seen.append(len(text))
        return decode(self, text, place)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    among = found('{"broken" {braces}\n' * 2000 + recording("llama-bench.jsonl"))
    assert len(among.records) == 6
    # Its error counts the lines before it: over a whole log that is the square of its length.
    assert max(seen) <= 1 << 16


def test_a_second_heading_with_other_columns_in_another_order_is_taken() -> None:
    more = "n_gen,n_prompt,avg_ts,model_type\n128,0,33.2,llama 7B Q4_0\n"
    both = found(recording("llama-bench.csv") + more)
    assert (len(both.records), both.notes) == (7, [])
    assert both.records[-1].values == {
        "n_gen": "128",
        "n_prompt": "0",
        "avg_ts": "33.2",
        "model_type": "llama 7B Q4_0",
    }


def test_what_a_spreadsheet_makes_of_csv_is_read() -> None:
    saved = ";n_prompt;n_gen;avg_ts;n_threads\n0;512;0;278,855;2\n1;0;128;1,5;2\n"
    assert [each.values for each in found(saved).records] == [
        {"n_prompt": "512", "n_gen": "0", "avg_ts": "278.855", "n_threads": "2"},
        {"n_prompt": "0", "n_gen": "128", "avg_ts": "1.5", "n_threads": "2"},
    ]


def test_no_more_results_are_taken_than_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "MOST_RECORDS", 3)
    for name in LLAMA_BENCH:
        limited = found(recording(name))
        assert len(limited.records) == 3
        assert "only the first" in limited.notes[-1]


def test_what_is_no_file_of_results_is_refused_in_a_sentence(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none", "no file"),
        (pipe, "not an ordinary file"),
        (Path(os.devnull), "not an ordinary file"),
    ):
        with pytest.raises(ImportRefused, match=words):
            read_bytes(path)
    for data, words in (
        (b"", "is empty"),
        (b" \r\n", "is empty"),
        (b"\xff\xfe", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (gzip.compress(b""), "is empty"),
        (b"\0\1\2", "binary"),
        (b"root:x:0:0", "holds no results"),
        (b'{"a": [1', "holds no results"),
    ):
        with pytest.raises(ImportRefused, match=words):
            found_in(data, "results")


def take_in(data: bytes) -> None:
    """Read it into rows, or be refused in the one way."""
    with suppress(ImportRefused):
        runs_of(found_in(data, "results"), Standing(), SOURCE, MOMENT)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000))
def test_no_bytes_raise_anything_but_the_refusal(data: bytes) -> None:
    take_in(data)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=3)), max_size=3),
)
NAMES = ("n_prompt", "n_gen", "n_depth", "avg_ns", "avg_ts", "samples_ns", "samples_ts", "pp", "tg", "pl", "n_kv")
MORE = ("t_tg", "speed_tg", "t_pp", "is_pp_shared", "n_threads", "type_k", "model_type", "model_size", "test_time")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES + MORE), VALUES, min_size=3), min_size=1, max_size=4))
def test_no_values_under_known_names_raise_anything_but_the_refusal(records: list[dict[str, object]]) -> None:
    take_in(json.dumps(records).encode("utf-8", "surrogatepass"))
    names = list(records[0])
    lines = [",".join(names), *(",".join(map(str, one.values())) for one in records)]
    take_in("\n".join(lines).encode("utf-8", "replace"))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LLAMA_BENCH + BATCHED), st.data())
def test_no_damage_to_a_recording_raises_anything_but_the_refusal(name: str, data: st.DataObject) -> None:
    text = bytearray(recording(name).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(("change", "cut", "remove", "add"))):
            case "change":
                text[at] = data.draw(st.integers(0, 255))
            case "cut" if at:
                del text[at:]
            case "remove":
                del text[at : at + data.draw(st.integers(1, 80))]
            case _:
                text[at:at] = data.draw(st.sampled_from((b'"', b"{", b"}", b"|", b"\n", b"'", b",", b"-", b"9" * 30)))
        if not text:
            break
    take_in(bytes(text))
