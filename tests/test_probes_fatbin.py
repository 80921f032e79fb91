"""The headers of code for GPUs in a module: of made-up ones, and of what nvcc writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fat_binaries import CUBIN, EXACTLY_THIS, FAMILY, PTX, container, elf

from orin_llm.device.probes.cubins import elf_architectures
from orin_llm.device.probes.fatbin import read_architectures

MANY = container((PTX, 75, 1), (CUBIN, 87, 17), (CUBIN, 90, EXACTLY_THIS | 17))
FAMILIES = container((CUBIN, 100, FAMILY | 17), (CUBIN, 120, 17))
NO_SECTIONS = b"\x7fELF\x02\x01" + bytes(58)


def test_binary_code_is_told_and_intermediate_code_is_not(tmp_path: Path) -> None:
    assert read_architectures(elf(tmp_path / "m", MANY)) == {"sm_87", "sm_90a"}


def test_code_of_a_family_is_told_as_such(tmp_path: Path) -> None:
    assert read_architectures(elf(tmp_path / "m", FAMILIES)) == {"sm_100f", "sm_120"}


def test_containers_follow_each_other_with_room_between(tmp_path: Path) -> None:
    section = container((CUBIN, 80, 0)) + bytes(24) + container((CUBIN, 120, 0)) + bytes(8)
    assert read_architectures(elf(tmp_path / "m", section)) == {"sm_80", "sm_120"}


def test_a_module_without_the_section_has_no_code(tmp_path: Path) -> None:
    assert read_architectures(elf(tmp_path / "m", None)) == set()


@pytest.mark.parametrize(
    "content",
    [b"", b"no ELF file", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" + bytes(100), NO_SECTIONS],
)
def test_another_file_is_unknown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    assert read_architectures(path) is None
    assert read_architectures(tmp_path / "none") is None


@pytest.mark.parametrize(
    "damaged",
    [
        b"x" + MANY[1:],  # no magic number
        MANY[:4] + bytes(4) + MANY[8:],  # a header without a size
        MANY[:20] + bytes(4) + MANY[24:],  # so the first entry's
        MANY[:-8],  # longer than its section
    ],
)
def test_what_is_not_understood_is_unknown_rather_than_nothing(
    tmp_path: Path, damaged: bytes
) -> None:
    assert read_architectures(elf(tmp_path / "m", damaged)) is None


def test_a_cut_file_is_unknown(tmp_path: Path) -> None:
    whole = elf(tmp_path / "m", MANY).read_bytes()
    for size in range(0, len(whole) - 24, 7):  # less of the last section's header is enough
        (tmp_path / "cut").write_bytes(whole[:size])
        assert read_architectures(tmp_path / "cut") is None


def test_without_the_tool_the_module_itself_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert elf_architectures(elf(tmp_path / "m", MANY), tmp_path) == ("sm_87", "sm_90a")


def test_what_nvcc_writes_is_read_as_its_own_tool_does(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc", path=os.pathsep.join((os.environ["PATH"], "/usr/local/cuda/bin")))
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    source, library = tmp_path / "it.cu", tmp_path / "it.o"
    source.write_text("__global__ void set(int * x) { *x = 1; }\nvoid run() { set<<<1, 1>>>(0); }")
    codes = ("80,code=compute_80", "80,code=sm_80", "87,code=sm_87", "90a,code=sm_90a")
    command = [nvcc, "-c", str(source), "-o", str(library)]
    subprocess.run([*command, *(f"-gencode=arch=compute_{code}" for code in codes)], check=True)
    assert read_architectures(library) == {"sm_80", "sm_87", "sm_90a"}
    if shutil.which("cuobjdump"):
        assert elf_architectures(library) == ("sm_80", "sm_87", "sm_90a")
