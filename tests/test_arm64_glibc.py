"""What the module asks of a system's libraries is read from it; JetPack 6 has to have it."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from arm64_check import glibc
from arm64_check.glibc import UBUNTU_22_04, check
from arm64_check.steps import CheckFailed, Emulated
from orin_llm import _native

MODULE = Path(_native.__file__)
ANY = dict.fromkeys(UBUNTU_22_04, "999")
# Headers from 2.38 on name functions of their own release.
BUILT_WITH_NEWER = [int(part) for part in platform.libc_ver()[1].split(".")] >= [2, 38]

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf here")


@pytest.mark.skipif(BUILT_WITH_NEWER, reason="the module is built for a newer glibc")
def test_the_module_asks_for_no_more_than_jetpack_6_has() -> None:
    check(MODULE, "readelf")


def test_its_libraries_and_the_newest_version_of_each_are_told() -> None:
    found = check(MODULE, "readelf", ANY)
    assert str(found["GLIBC"]).startswith("2.") and str(found["GLIBCXX"]).startswith("3.4.")
    libraries = found["libraries"]
    assert isinstance(libraries, list)
    assert {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgomp.so.1"} <= set(libraries)


def test_versions_are_numbers_and_not_words() -> None:
    """9 is older than 21, and 3.4.9 newer than 3.4."""
    newest = str(check(MODULE, "readelf", ANY)["GLIBCXX"])
    assert int(newest.split(".")[2]) > 9


@pytest.mark.parametrize(("family", "symbol"), [("GLIBC", "printf"), ("GOMP", "GOMP_parallel")])
def test_the_symbol_that_asks_for_more_is_named(family: str, symbol: str) -> None:
    limits = {**UBUNTU_22_04, family: "0.1"}
    with pytest.raises(CheckFailed, match=rf"{symbol}.* asks for {family}_.*; JetPack 6 has 0.1"):
        check(MODULE, "readelf", limits)


def test_what_the_table_does_not_know_is_too_new() -> None:
    limits = {family: value for family, value in UBUNTU_22_04.items() if family != "CXXABI"}
    with pytest.raises(CheckFailed, match=r"asks for CXXABI_.*; JetPack 6 has none of them"):
        check(MODULE, "readelf", limits)


def compiled(folder: Path, source: str, *flags: str) -> Path:
    library = folder / "library.so"
    command = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(library), *flags]
    subprocess.run(command, input=source, text=True, check=True)
    return library


def machine(folder: Path, libraries: Path) -> Emulated:
    """Whose compiler links with the libraries in a folder, and with this system's."""
    for name, text in {
        "gcc": f'[ -e "{libraries}/${{1#*=}}" ] && echo "{libraries}/${{1#*=}}" || exec gcc "$1"',
        "readelf": 'exec readelf "$@"',
    }.items():
        (folder / f"a-{name}").write_text(f"#!/bin/sh\n{text}\n")
        (folder / f"a-{name}").chmod(0o755)
    return Emulated(folder, folder, (), MODULE, f"{folder}/a-", {})


@pytest.mark.parametrize(("brought", "judged"), [("2.37", True), ("2.38", False), ("2.100", False)])
def test_versions_are_judged_where_the_compilers_own_libraries_are_not_too_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brought: str, judged: bool
) -> None:
    (tmp_path / "map").write_text(f"GLIBC_2.4 {{ one; }};\nGLIBC_{brought} {{ two; }} GLIBC_2.4;\n")
    script = f"-Wl,--version-script={tmp_path}/map"
    built = compiled(tmp_path, "int one() { return 1; } int two() { return 2; }", script)
    built.rename(tmp_path / "libc.so.6")
    monkeypatch.setitem(glibc.TELLING, "GLIBCXX", ("libstdc++.so.6", "999"))
    monkeypatch.setattr(glibc, "UBUNTU_22_04", {})
    board = machine(tmp_path, tmp_path)
    if judged:
        with pytest.raises(CheckFailed, match="asks for GLIBC_"):
            glibc.glibc(board)
        return
    found = glibc.glibc(board)
    assert f"gcc links with GLIBC {brought}: a host with Debian 12" in str(found["not judged"])
    assert "libc.so.6" in str(found["libraries"])


def test_a_library_that_a_fresh_system_may_lack_is_named(tmp_path: Path) -> None:
    other = compiled(tmp_path, "int other() { return 1; }", "-Wl,-soname,libother.so.2")
    other.rename(tmp_path / "libother.so")
    source = '#include <stdio.h>\nint other(); int f() { return puts("") + other(); }'
    library = compiled(tmp_path, source, f"-L{tmp_path}", "-lother")
    with pytest.raises(CheckFailed, match=r"needs libother\.so\.2"):
        check(library, "readelf")


def test_cudas_libraries_and_their_versions_are_not_the_systems(tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.write_text("libcudart.so.12 { cudaFree; };\n")
    flags = (f"-Wl,--version-script={versions}", "-Wl,-soname,libcudart.so.12")
    runtime = compiled(tmp_path, "int cudaFree() { return 0; }", *flags)
    runtime.rename(tmp_path / "libcudart.so")
    source = '#include <stdio.h>\nint cudaFree(); int f() { return puts("") + cudaFree(); }'
    found = check(compiled(tmp_path, source, f"-L{tmp_path}", "-lcudart"), "readelf", ANY)
    assert found["libraries"] == ["libc.so.6", "libcudart.so.12"]
    assert [name for name in found if name.startswith("lib")] == ["libraries"]


def test_a_file_without_versions_shows_nothing(tmp_path: Path) -> None:
    library = compiled(tmp_path, "int one() { return 1; }", "-nostdlib")
    with pytest.raises(CheckFailed, match="shows no libraries with versions"):
        check(library, "readelf")
