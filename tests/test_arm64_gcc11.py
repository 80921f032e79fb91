"""The build with the compiler of JetPack 6; compilers and the emulated Python are stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from arm64_check import gcc11 as step
from arm64_check.steps import CheckFailed, Emulated

INFO = '{"compiler": "g++ 11.3.0"}'


def machine(folder: Path, python: str) -> Emulated:
    """Its Python is a shell script."""
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{python}\n")
    path.chmod(0o755)
    return Emulated(folder, path, ("qemu",), folder / "module.so", "board-", {"ORIN": "1"})


@pytest.fixture
def compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found = [tmp_path / "board-gcc-11", tmp_path / "board-g++-11"]
    for path in found:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"]))
    monkeypatch.setattr(step, "check", lambda module, tools: {"module": module.name})
    return found


def test_the_build_gets_the_compiler_by_name_and_what_is_built_is_held_to_rules(
    tmp_path: Path, compilers: list[Path]
) -> None:
    python = f"[ $ORIN$CC$CXX = 1board-gcc-11board-g++-11 ] && echo '{INFO}'"
    found = step.gcc11(machine(tmp_path, python))
    assert found == {"compiler": "g++ 11.3.0", "module": "_native.so"}


def test_a_warning_is_an_error_of_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[object] = []
    monkeypatch.setattr(step, "build_variant", lambda *arguments: built.extend(arguments))
    monkeypatch.setattr(step, "plan_cuda", lambda: None)
    monkeypatch.setattr(step, "run_build", lambda build: build() or 1)
    monkeypatch.setattr("sys.argv", ["gcc11", str(tmp_path / "module.so")])
    assert step.main() == 1
    options = {"CMAKE_COMPILE_WARNING_AS_ERROR": "ON"}
    assert built == ["gcc11", None, options, tmp_path / "module.so"]


def test_a_build_that_fails_ends_the_step(tmp_path: Path, compilers: list[Path]) -> None:
    with pytest.raises(CheckFailed, match="unused variable"):
        step.gcc11(machine(tmp_path, "echo 'error: unused variable [-Werror]' >&2; exit 1"))


def test_a_compiler_that_is_missing_is_named_with_its_package(
    tmp_path: Path, compilers: list[Path]
) -> None:
    compilers[1].unlink()
    with pytest.raises(CheckFailed, match=r"board-g\+\+-11 not found: apt-get install g\+\+-11-"):
        step.gcc11(machine(tmp_path, "exit 0"))
