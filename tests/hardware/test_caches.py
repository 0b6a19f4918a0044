"""The last-level cache and the instructions, from the files in which Linux shows them."""

import sys
from pathlib import Path

import pytest

from workbench.hardware import caches

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(caches, "CPU_FOLDERS", tmp_path / "cpu")
    monkeypatch.setattr(caches, "CPU_INFORMATION", tmp_path / "cpuinfo")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path / "cpu"


def write_cache(cores: Path, core: int, index: int, level: str, size: str, shared: str, kind: str = "Unified") -> None:
    folder = cores / f"cpu{core}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared), ("type", kind)):
        (folder / name).write_text(f"{text}\n")


def test_one_slice_shared_by_all_is_counted_once(cores: Path) -> None:
    for core in range(4):
        write_cache(cores, core, 0, "1", "48K", str(core), "Data")
        write_cache(cores, core, 1, "1", "64K", str(core), "Instruction")
        write_cache(cores, core, 2, "2", "2048K", str(core))
        write_cache(cores, core, 3, "3", "32768K", "0-3")
    assert caches.last_level_cache_bytes() == 32 * MIB


def test_a_slice_of_each_complex_is_added(cores: Path) -> None:
    for core in range(16):
        first = core // 8 * 8
        write_cache(cores, core, 2, "2", "1024K", str(core))
        write_cache(cores, core, 3, "3", "32768K", f"{first}-{first + 7}")
    assert caches.last_level_cache_bytes() == 64 * MIB


def test_two_sockets_that_share_nothing_are_added(cores: Path) -> None:
    for core, shared in ((0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")):
        write_cache(cores, core, 3, "3", "36M", shared)
    assert caches.last_level_cache_bytes() == 72 * MIB


def test_without_a_third_level_the_second_is_the_last(cores: Path) -> None:
    for core in range(4):
        write_cache(cores, core, 0, "1", "32K", str(core), "Data")
        write_cache(cores, core, 2, "2", "512K", "0-3")
    assert caches.last_level_cache_bytes() == 512 * KIB


def test_what_cannot_be_read_is_passed_over(cores: Path) -> None:
    assert caches.last_level_cache_bytes() is None
    write_cache(cores, 0, 0, "", "32K", "0")
    write_cache(cores, 0, 1, "3", "", "0")
    write_cache(cores, 0, 2, "3", "many", "0")
    (cores / "cpu0" / "cache" / "index4").mkdir()
    assert caches.last_level_cache_bytes() is None
    write_cache(cores, 1, 0, "2", "1G", "1")
    assert caches.last_level_cache_bytes() == 1 << 30


@pytest.mark.parametrize(
    ("information", "expected"),
    [
        (
            "processor\t: 0\nmodel name\t: A chip\nflags\t\t: fpu avx2 avx512f avx512_bf16 avx512_vnni "
            "amx_bf16 amx_int8\n"
            "processor\t: 1\nflags\t\t: fpu\n",
            ("AVX2", "AVX-512", "AVX-512 BF16", "AVX-512 VNNI", "AMX BF16", "AMX INT8"),
        ),
        (
            "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimdhp asimddp sve i8mm bf16\n",
            ("NEON", "NEON FP16", "NEON dot product", "BF16", "INT8 matrix", "SVE"),
        ),
        ("processor\t: 0\nflags\t\t: fpu sse2\n", ()),
        ("", ()),
    ],
)
def test_instructions_are_named_as_people_do(
    cores: Path, tmp_path: Path, information: str, expected: tuple[str, ...]
) -> None:
    (tmp_path / "cpuinfo").write_text(information)
    assert caches.instructions() == expected


def test_instructions_of_a_system_without_that_file_are_not_known(cores: Path) -> None:
    assert caches.instructions() == ()
