"""What cuobjdump lists, from its real output and from the real tool where there is one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fat_binaries import module_for

from orin_llm import _native
from orin_llm.device.build import build_info
from orin_llm.device.probes.cubins import elf_architectures

MODULE = Path("/opt/sm_99.cubin.so")
LISTED = """\
ELF file    1: _native.1.sm_87.cubin
ELF file    2: _native.2.sm_90a.cubin
ELF file    3: _native.3.sm_87.cubin
ELF file    4: _native.4.sm_120.cubin
"""
NO_CODE = f"cuobjdump info    : File '{MODULE}' does not contain device code"
ONLY_PTX = (
    f"cuobjdump info    : No ELF file found to extract from '{MODULE}'. "
    "You may try with -all option."
)
NOT_READ = f"cuobjdump fatal   : Could not open input file '{MODULE}'"


def add_tool(folder: Path, says: str, status: int = 0, of: Path = MODULE) -> None:
    """A cuobjdump that says this, errors to stderr, if it is called as the real one is."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = 2 if "cuobjdump" in says else 1
    script = folder / "cuobjdump"
    script.write_text(
        f'#!/bin/sh\n[ "$1 $2 $#" = "--list-elf {of} 2" ] || exit 99\n'
        f"/bin/cat >&{stream} <<'END'\n{says}\nEND\nexit {status}\n"
    )
    script.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only one on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_each_architecture_is_told_once_the_oldest_first(folder: Path, tmp_path: Path) -> None:
    add_tool(folder, LISTED)
    assert elf_architectures(MODULE, tmp_path) == ("sm_87", "sm_90a", "sm_120")


@pytest.mark.parametrize(("says", "status"), [(NO_CODE, 255), (ONLY_PTX, 0), (ONLY_PTX, 255)])
def test_a_module_without_binary_code_has_no_architectures(
    folder: Path, tmp_path: Path, says: str, status: int
) -> None:
    add_tool(folder, says, status)
    assert elf_architectures(MODULE, tmp_path) == ()


@pytest.mark.parametrize(("says", "status"), [(NOT_READ, 1), ("", 127), (LISTED, 1)])
def test_a_module_that_the_tool_cannot_read_is_unknown(
    folder: Path, tmp_path: Path, says: str, status: int
) -> None:
    add_tool(folder, says, status)
    assert elf_architectures(MODULE, tmp_path) is None


def test_without_the_tool_nothing_is_known(folder: Path, tmp_path: Path) -> None:
    assert elf_architectures(MODULE, tmp_path) is None


def test_the_tool_is_found_in_cudas_folder_that_is_not_on_path(
    folder: Path, tmp_path: Path
) -> None:
    add_tool(tmp_path / "usr" / "local" / "cuda" / "bin", LISTED)
    assert elf_architectures(MODULE, tmp_path) == ("sm_87", "sm_90a", "sm_120")
    add_tool(folder, "ELF file    1: a.1.sm_80.cubin")
    assert elf_architectures(MODULE, tmp_path) == ("sm_80",)


@pytest.mark.parametrize("listed", ["", "ELF file    1: a.sm_87.o", f"{LISTED}ELF file    5: b.o"])
def test_names_of_another_form_are_not_taken_for_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    module = module_for(tmp_path / "m.so", 80, 87)
    add_tool(tmp_path / "bin", listed, of=module)
    assert elf_architectures(module, tmp_path) == ("sm_80", "sm_87")  # by the module's own headers


def test_a_tool_that_cannot_be_run_is_as_none(folder: Path, tmp_path: Path) -> None:
    add_tool(folder, LISTED)
    (folder / "cuobjdump").write_bytes(b"\x7fELF")
    assert elf_architectures(MODULE, tmp_path) is None


def test_the_real_tool_reads_the_extension() -> None:
    path = os.pathsep.join((os.environ["PATH"], "/usr/local/cuda/bin"))
    if shutil.which("cuobjdump", path=path) is None:
        pytest.skip("cuobjdump is not installed")
    found = elf_architectures(Path(_native.__file__))
    built = [item for item in build_info().cuda_architectures.split(";") if "virtual" not in item]
    assert found == tuple(f"sm_{item.removesuffix('-real')}" for item in built if item)
