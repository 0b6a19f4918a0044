"""The GGUF header reader: against the gguf package's own, and against every way a file can be wrong."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.models.files import LLAMA_METADATA, LLAMA_TENSORS, gguf_bytes, smollm2
from workbench.errors import ModelError
from workbench.models.ggml_types import file_types, ggml_types
from workbench.models.gguf import GgufHeader, SkippedArray, read_gguf


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_gguf(path)
    assert str(path.name) in str(caught.value)
    return str(caught.value)


def assert_agrees(header: GgufHeader, *parts: Path) -> None:
    """Every field and tensor is what the gguf package's reader finds; of a split file, in all parts together."""
    from gguf import GGUFReader

    readers = [GGUFReader(part) for part in parts]
    fields = {name: f for name, f in readers[0].fields.items() if not name.startswith("GGUF.")}
    assert header.metadata.keys() == fields.keys()
    for name, field in fields.items():
        ours = header.metadata[name]
        if isinstance(ours, SkippedArray):
            assert ours.length == len(field.data), name
        else:
            theirs = field.contents()
            assert ours == (tuple(theirs) if isinstance(theirs, list) else theirs), name
            assert type(ours) is (tuple if isinstance(theirs, list) else type(theirs)), name
    assert [(t.name, t.shape, t.type, t.parameters, t.bytes) for t in header.tensors] == [
        (t.name, tuple(int(n) for n in reversed(t.shape)), t.tensor_type.name, int(t.n_elements), int(t.n_bytes))
        for reader in readers
        for t in reader.tensors
    ]
    assert header.file_bytes == sum(part.stat().st_size for part in parts)


def test_every_field_and_tensor_of_a_real_file_agrees_with_the_packages_reader() -> None:
    assert_agrees(read_gguf(smollm2()), smollm2())


def test_the_type_tables_are_those_of_the_package() -> None:
    from gguf import GGML_QUANT_SIZES, LlamaFileType

    assert {n: (t.block_elements, t.block_bytes) for n, t in ggml_types().items()} == {
        int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()
    }
    assert file_types()[int(LlamaFileType.MOSTLY_Q4_K_M)] == "Q4_K_M"


def by_the_package(path: Path, *, big_endian: bool = False, most_tensors: int = 0) -> Path:
    """A file of the gguf package's writer with every kind of value and every type of tensor it knows."""
    import gguf

    endian = gguf.GGUFEndian.BIG if big_endian else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "llama", endianess=endian, split_max_tensors=most_tensors)
    for bits in (8, 16, 32, 64):
        getattr(writer, f"add_uint{bits}")(f"llama.unsigned_{bits}", (1 << bits) - 1)
        getattr(writer, f"add_int{bits}")(f"llama.signed_{bits}", -(1 << bits - 1))
    writer.add_float32("llama.single", 0.1)
    writer.add_float64("llama.double", 0.1)
    writer.add_bool("llama.flag", True)
    writer.add_string("llama.text", "Grüße, 世界")
    writer.add_array("llama.integers", [1, -2, 3])
    writer.add_array("llama.floats", [0.5, 0.1])
    writer.add_array("llama.flags", [True, False])
    writer.add_array("llama.long", list(range(5000)))
    writer.add_token_list([f"token {i}" for i in range(500)])
    for kind, (_, size) in gguf.GGML_QUANT_SIZES.items():
        writer.add_tensor(f"as.{kind.name}", np.zeros((3, 2, 32 * size), np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("big_endian", [False, True])
def test_every_kind_of_value_and_tensor_agrees_with_the_packages_reader(
    tmp_path: Path, big_endian: bool, version: int
) -> None:
    path = by_the_package(tmp_path / "written.gguf", big_endian=big_endian)
    with path.open("r+b") as file:
        file.seek(4)
        file.write(version.to_bytes(4, "big" if big_endian else "little"))
    header = read_gguf(path)
    assert (header.big_endian, header.version) == (big_endian, version)
    assert header.metadata["llama.unsigned_64"] == (1 << 64) - 1
    assert header.metadata["llama.flags"] == (True, False)
    assert header.metadata["llama.long"] == SkippedArray(5000)
    assert header.metadata["tokenizer.ggml.tokens"] == SkippedArray(500)
    assert {tensor.type for tensor in header.tensors} == {kind.name for kind in ggml_types().values()}
    assert_agrees(header, path)


def test_a_file_that_the_packages_writer_split_agrees_with_its_reader(tmp_path: Path) -> None:
    by_the_package(tmp_path / "written.gguf", most_tensors=12)
    parts = sorted(tmp_path.glob("*.gguf"))
    assert len(parts) == -(-len(ggml_types()) // 12)
    for part in parts:
        assert_agrees(read_gguf(part), *parts)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_versions_two_and_three_in_both_byte_orders(tmp_path: Path, version: int, order: str) -> None:
    header = read_gguf(written(tmp_path / "m.gguf", gguf_bytes(version=version, order=order)))
    assert header.version == version
    assert header.big_endian is (order == ">")
    assert [t.bytes for t in header.tensors] == [stored for *_, stored in LLAMA_TENSORS]


def test_a_large_vocabulary_is_stepped_over_and_not_built(tmp_path: Path) -> None:
    tokens = [f"t{i}" for i in range(262_144)]
    path = written(tmp_path / "large.gguf", gguf_bytes({**LLAMA_METADATA, "tokenizer.ggml.tokens": tokens}))
    ggml_types()
    tracemalloc.start()
    header = read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert header.metadata["tokenizer.ggml.tokens"] == SkippedArray(262_144)
    assert peak < 100_000


def test_an_unknown_type_is_sized_from_the_offsets(tmp_path: Path) -> None:
    tensors = [("token_embd.weight", (64, 128), 99, 5000), *LLAMA_TENSORS[1:]]
    header = read_gguf(written(tmp_path / "m.gguf", gguf_bytes(tensors=tensors)))
    assert header.unknown_types == ("type 99",)
    assert header.tensors[0].type == "type 99"
    assert header.tensors[0].bytes == 5024
    last = [*LLAMA_TENSORS[:3], ("output.weight", (64, 128), 99, 5000)]
    assert read_gguf(written(tmp_path / "l.gguf", gguf_bytes(tensors=last))).tensors[3].bytes == 5024


def test_missing_empty_and_foreign_files_are_named_with_what_was_found(tmp_path: Path) -> None:
    assert "There is no file" in refusal(tmp_path / "none.gguf")
    assert "is empty" in refusal(written(tmp_path / "empty.gguf", b""))
    assert "b'PK\\x03\\x04' where b'GGUF' was expected" in refusal(
        written(tmp_path / "zip.gguf", b"PK\x03\x04 and more")
    )
    assert "web page" in refusal(written(tmp_path / "page.gguf", b"<html>not found</html>"))
    assert "git lfs pull" in refusal(written(tmp_path / "lfs.gguf", b"version https://git-lfs"))
    assert "folder" in refusal(tmp_path)


def test_every_truncation_of_the_header_and_the_data_is_refused(tmp_path: Path) -> None:
    whole = gguf_bytes()
    path = tmp_path / "cut.gguf"
    for length in [*range(1, 700), *range(700, len(whole) - 32, 997), len(whole) - 33]:
        message = refusal(written(path, whole[:length]))
        assert "Download" in message or "is empty" in message, length
    assert "the download is incomplete" in message


def test_absurd_counts_and_lengths_are_refused(tmp_path: Path) -> None:
    whole = gguf_bytes()
    path = tmp_path / "m.gguf"
    huge = (1 << 60).to_bytes(8, "little")
    assert "tensors, and no model has" in refusal(written(path, whole[:8] + huge + whole[16:]))
    assert "metadata keys" in refusal(written(path, whole[:16] + huge + whole[24:]))
    assert "claims 1,152,921,504,606,846,976 bytes" in refusal(written(path, whole[:24] + huge + whole[32:]))
    assert "version 7" in refusal(written(path, whole[:4] + b"\7\0\0\0" + whole[8:]))


def test_contradictions_between_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    twice = [LLAMA_TENSORS[0], LLAMA_TENSORS[0]]
    assert "twice" in refusal(written(path, gguf_bytes(tensors=twice)))
    lying = [("a.weight", (64, 128), 0, 32), *LLAMA_TENSORS[1:]]
    assert "overlap" in refusal(written(path, gguf_bytes(tensors=lying)))
    uneven = [("a.weight", (33, 2), 8, 68), *LLAMA_TENSORS[1:]]
    assert "not a multiple of Q8_0's 32" in refusal(written(path, gguf_bytes(tensors=uneven)))
    nameless = [("a\x1b[2J.weight", (64, 128), 0, 64 * 128 * 4), *LLAMA_TENSORS[1:]]
    assert "characters that no name has" in refusal(written(path, gguf_bytes(tensors=nameless)))
    long = [("a" * 300, (64, 128), 0, 64 * 128 * 4), *LLAMA_TENSORS[1:]]
    assert "longer than GGUF allows" in refusal(written(path, gguf_bytes(tensors=long)))
    assert "offset 33, not a multiple of 32" in refusal(written(path, gguf_bytes(offsets={1: 33})))
    assert "incomplete" in refusal(written(path, gguf_bytes(offsets={3: 1 << 40})))
    deep = [("a.weight", (1, 1, 1, 1, 1), 0, 4)]
    assert "5 dimensions" in refusal(written(path, gguf_bytes(tensors=deep)))
    assert "power of two" in refusal(written(path, gguf_bytes({**LLAMA_METADATA, "general.alignment": 33})))


def _split(folder: Path, count: int = 3, tensors_said: int = 4) -> list[Path]:
    paths = []
    for number in range(count):
        metadata = {"split.no": number, "split.count": count, "split.tensors.count": tensors_said}
        if number == 0:
            metadata = {**LLAMA_METADATA, **metadata}
        mine = LLAMA_TENSORS[number : number + 1] if number < count - 1 else LLAMA_TENSORS[number:]
        path = folder / f"tiny-{number + 1:05}-of-{count:05}.gguf"
        paths.append(written(path, gguf_bytes(metadata, mine)))
    return paths


def test_all_parts_of_a_split_file_are_read_whichever_is_named(tmp_path: Path) -> None:
    paths = _split(tmp_path)
    for named in paths:
        header = read_gguf(named)
        assert [t.name for t in header.tensors] == [name for name, *_ in LLAMA_TENSORS]
        assert header.metadata["general.architecture"] == "llama"
        assert header.file_bytes == sum(p.stat().st_size for p in paths)
        assert header.parts == tuple(paths)


def test_missing_renamed_and_foreign_parts_are_named(tmp_path: Path) -> None:
    paths = _split(tmp_path)
    paths[1].rename(tmp_path / "away.gguf")
    assert "tiny-00002-of-00003.gguf is not in" in refusal(paths[2])
    assert "original names" in refusal(tmp_path / "away.gguf")
    paths[1].write_bytes(paths[2].read_bytes())
    with pytest.raises(ModelError, match="named part 2 of 3, but its header says part 3 of 3"):
        read_gguf(paths[0])
    _split(tmp_path, tensors_said=9)
    assert "hold 4 tensors where their header says 9" in refusal(paths[0])
